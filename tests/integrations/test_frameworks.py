"""Retrievers and tools in the real frameworks; each test is skipped, with its reason, where the package is missing."""

import subprocess
import sys

import pytest

from attar.integrations.passages import TOOL_NAME, answer_text, find_passages

from .conftest import TEXTS

QUERY = "Zebra milk"


@pytest.fixture
def expected(small_library):
    """Texts and names of what a retriever should find, best first."""
    return [
        (passage.text, passage.metadata["document"]) for passage in find_passages(small_library, QUERY, 4)
    ]


def test_passages_are_whole_texts_if_these_are_short(expected):
    assert {name: text for text, name in expected} == TEXTS


def test_answers_are_lines_with_document_and_quote(small_library):
    lines = answer_text(small_library, "Where was tea first drunk?").splitlines()
    assert 1 <= len(lines) <= 3
    assert all("%" in line for line in lines)
    assert any("(" in line and "tea" in line for line in lines)


def test_a_mistake_is_a_line_that_the_model_reads(small_library):
    assert answer_text(small_library, " ?") == "Error: question: expected some words, got ' ?'"


def test_langchain(small_library, expected):
    pytest.importorskip("langchain_core")
    from attar.integrations.langchain import LangChainRetriever, ask_tool

    found = LangChainRetriever(library=small_library).invoke(QUERY)
    assert [(document.page_content, document.metadata["document"]) for document in found] == expected
    tool = ask_tool(small_library)
    assert tool.invoke({"question": "Who?"}) == answer_text(small_library, "Who?")
    assert (tool.name, list(tool.args)) == (TOOL_NAME, ["question"])


def test_llama_index(small_library, expected):
    pytest.importorskip("llama_index.core")
    from attar.integrations.llama_index import LlamaIndexRetriever, ask_tool

    found = LlamaIndexRetriever(small_library).retrieve(QUERY)
    assert [(node.text, node.metadata["document"]) for node in found] == expected
    tool = ask_tool(small_library)
    assert tool.call(question="Who?").content == answer_text(small_library, "Who?")
    assert tool.metadata.name == TOOL_NAME


def test_haystack(small_library, expected):
    haystack = pytest.importorskip("haystack")
    from attar.integrations.haystack import HaystackRetriever, ask_tool

    pipeline = haystack.Pipeline()
    pipeline.add_component("retriever", HaystackRetriever(small_library))
    found = pipeline.run({"retriever": {"query": QUERY}})["retriever"]["documents"]
    assert [(document.content, document.meta["document"]) for document in found] == expected
    tool = ask_tool(small_library)
    assert tool.invoke(question="Who?") == answer_text(small_library, "Who?")
    assert tool.name == TOOL_NAME


@pytest.mark.parametrize(
    ("module", "package"),
    [("langchain", "langchain_core"), ("llama_index", "llama_index"), ("haystack", "haystack")],
)
def test_a_missing_package_is_one_line_that_names_the_extra(module, package):
    code = (
        f"import sys; sys.modules[{package!r}] = None\n"
        "from attar.errors import MissingError\n"
        f"try: import attar.integrations.{module}\n"
        "except MissingError as missing: print(missing)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    line = f"attar.integrations.{module} needs {package}, which is not installed"
    assert ran.stdout == f"{line}; pip install '.[integrations]'\n"
