"""The MCP server, used by the SDK's own client: in this process, over stdin and stdout, and over HTTP."""

import asyncio
import json
import os
import subprocess
import sys

import msgspec
import pytest
from mcp import Client, StdioServerParameters

from attar.errors import OptionError
from attar.integrations.mcp import make_server, serve_http
from attar.library.library import Library

from .conftest import TEXTS

BAD = [
    ("ask", {"question": " ?"}, "question: expected some words, got ' ?'"),
    ("ask", {"question": "Who?", "document": "rom"}, "there is no document 'rom'; did you mean 'rome'?"),
    ("ask", {"question": "Who?", "top": 0}, "top: expected an integer of at least 1, got 0"),
    ("search", {"query": "x" * 10_001}, "query: expected at most 10,000 characters, got 10,001 characters"),
    ("list_documents", {"limit": 0}, "limit: expected 1 to 1,000, got 0"),
    ("read_document", {"name": "te"}, "there is no document 'te'; did you mean 'tea'?"),
    ("read_document", {"name": "tea", "start": -1}, "part: expected a start of at least 0"),
    ("read_document", {"name": "secret"}, "the text of 'secret' is not kept"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory, tiny_reader):
    folder = tmp_path_factory.mktemp("mcp") / "library"
    with Library(folder, tiny_reader) as library:
        library.add_many(TEXTS.items())
    with Library(folder, tiny_reader, keep_text=False) as library:
        library.add("secret", "Nobody knows the code of the safe.")
    return folder


@pytest.fixture(scope="module")
def library(folder, tiny_reader):
    with Library(folder, tiny_reader, read_only=True) as library:
        yield library


def call_all(server, calls):
    """The results of calls of tools by a client, one after the other."""

    async def run():
        async with Client(server) as client:
            return [await client.call_tool(name, arguments) for name, arguments in calls]

    return asyncio.run(run())


def call(library, name, /, **arguments):
    (result,) = call_all(make_server(library), [(name, arguments)])
    assert not result.is_error, result.content
    return result.structured_content


def test_it_describes_its_tools_to_the_model(library):
    async def run():
        async with Client(make_server(library)) as client:
            return await client.list_tools()

    tools = {tool.name: tool for tool in asyncio.run(run()).tools}
    assert set(tools) == {"ask", "search", "verify", "list_documents", "read_document"}
    assert all(tool.description and tool.annotations.read_only_hint for tool in tools.values())
    described = [each for tool in tools.values() for each in tool.input_schema["properties"].values()]
    assert all(each.get("description") for each in described)


def test_ask_gives_what_the_library_answers(library):
    answers = call(library, "ask", question="Where was tea first drunk?", document="tea")["answers"]
    assert [answer["text"] for answer in answers] == [
        answer.text for answer in library.ask("tea", "Where was tea first drunk?", top=3)
    ]
    from_all = call(library, "ask", question="Where was tea first drunk?", top=2)["answers"]
    expected = library.ask_all("Where was tea first drunk?", top=2)
    assert [(answer["text"], answer.get("document")) for answer in from_all] == [
        (answer.text, answer.document) for answer in expected
    ]


def test_search_gives_passages(library):
    hits = {hit["document"]: hit for hit in call(library, "search", query="Zebra milk")["hits"]}
    assert hits["tea"]["passages"][0]["text"] == TEXTS["tea"]


def test_a_quote_is_verified(library):
    said = call(library, "verify", quote="Zebra milk is rarely added.")["verified"]
    assert said == msgspec.to_builtins(library.verify("Zebra milk is rarely added."))
    assert said["passages"][0]["document"] == "tea"


def test_documents_are_listed_in_pages(library):
    first = call(library, "list_documents", limit=2)
    assert (first["total"], [document["name"] for document in first["documents"]]) == (3, ["rome", "secret"])
    rest = call(library, "list_documents", after="secret")
    assert [document["name"] for document in rest["documents"]] == ["tea"]


def test_a_document_is_read_in_parts(library):
    first = call(library, "read_document", name="tea", length=10)
    rest = call(library, "read_document", name="tea", start=first["next"])
    assert (first["text"] + rest["text"], rest["next"]) == (TEXTS["tea"], None)


@pytest.mark.parametrize(("tool", "arguments", "line"), BAD, ids=[line for *_, line in BAD])
def test_bad_input_is_an_error_with_the_library_s_line(library, tool, arguments, line):
    (result,) = call_all(make_server(library), [(tool, arguments)])
    assert result.is_error
    (content,) = result.content
    assert line in content.text
    assert "\n" not in content.text


@pytest.mark.slow
def test_it_is_started_by_a_client_over_stdio(folder, tiny_reader_folder):
    command = ["-m", "attar", "mcp", str(folder), "--reader", str(tiny_reader_folder)]
    started = StdioServerParameters(command=sys.executable, args=command, env=dict(os.environ))
    calls = [("ask", {"question": "Who?", "document": "nobody"}), ("search", {"query": "Zebra milk"})]
    refused, found = call_all(started, calls)
    assert refused.is_error
    assert {hit["document"] for hit in json.loads(found.content[0].text)["hits"]} >= set(TEXTS)


@pytest.mark.slow
def test_it_serves_http_on_this_machine(folder, tiny_reader_folder):
    command = [sys.executable, "-m", "attar", "mcp", folder, "--port", "0", "--reader", tiny_reader_folder]
    with subprocess.Popen([*map(str, command)], stderr=subprocess.PIPE, text=True) as server:
        try:
            url = server.stderr.readline().split()[-1]
            assert url.startswith("http://127.0.0.1:")
            (found,) = call_all(url, [("search", {"query": "Zebra milk"})])
        finally:
            server.terminate()
    assert {hit["document"] for hit in found.structured_content["hits"]} >= set(TEXTS)


def test_a_port_in_use_is_one_line(library, used_port):
    with pytest.raises(OptionError, match=f"cannot listen on 127.0.0.1:{used_port}: .*; choose"):
        serve_http(library, used_port, print)


@pytest.fixture
def used_port():
    """A port that somebody listens on."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as holder:
        yield holder.getsockname()[1]
