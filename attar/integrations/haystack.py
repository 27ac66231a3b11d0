"""Haystack: a library as a retriever, a component of pipelines, and as a tool."""

from attar.errors import needs_extra
from attar.integrations.passages import TOOL_DESCRIPTION, TOOL_NAME, AskedLibrary, answer_text, find_passages

with needs_extra("attar.integrations.haystack", "integrations"):
    from haystack import Document, component
    from haystack.tools import Tool


@component
class HaystackRetriever:
    """The passages of a `Library` or `Client` that fit a query: `HaystackRetriever(library, top=4)`."""

    def __init__(self, library: AskedLibrary, top: int = 4) -> None:
        self._library, self._top = library, top

    @component.output_types(documents=list[Document])
    def run(self, query: str) -> dict[str, list[Document]]:
        """Find passages."""
        passages = find_passages(self._library, query, self._top)
        return {
            "documents": [
                Document(content=passage.text, meta=passage.metadata, score=passage.score)
                for passage in passages
            ]
        }


def ask_tool(library: AskedLibrary) -> Tool:
    """A tool that answers questions from a library's documents, with quotes."""

    def ask_documents(question: str) -> str:
        return answer_text(library, question)

    question = {"type": "string", "description": "A question in plain English."}
    parameters = {"type": "object", "properties": {"question": question}, "required": ["question"]}
    return Tool(name=TOOL_NAME, description=TOOL_DESCRIPTION, parameters=parameters, function=ask_documents)
