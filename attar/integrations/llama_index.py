"""LlamaIndex: a library as a retriever and as a tool."""

from attar.errors import needs_extra
from attar.integrations.passages import TOOL_DESCRIPTION, TOOL_NAME, AskedLibrary, answer_text, find_passages

with needs_extra("attar.integrations.llama_index", "integrations"):
    from llama_index.core.base.base_retriever import BaseRetriever
    from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
    from llama_index.core.tools import FunctionTool


class LlamaIndexRetriever(BaseRetriever):
    """The passages of a `Library` or `Client` that fit a query: `LlamaIndexRetriever(library, top=4)`."""

    def __init__(self, library: AskedLibrary, top: int = 4) -> None:
        super().__init__()
        self._library, self._top = library, top

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [
            NodeWithScore(node=TextNode(text=passage.text, metadata=passage.metadata), score=passage.score)
            for passage in find_passages(self._library, query_bundle.query_str, self._top)
        ]


def ask_tool(library: AskedLibrary) -> FunctionTool:
    """A tool that answers questions from a library's documents, with quotes."""

    def ask_documents(question: str) -> str:
        return answer_text(library, question)

    return FunctionTool.from_defaults(ask_documents, name=TOOL_NAME, description=TOOL_DESCRIPTION)
