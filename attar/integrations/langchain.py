"""LangChain: a library as a retriever and as a tool."""

from typing import Any

from attar.errors import needs_extra
from attar.integrations.passages import TOOL_DESCRIPTION, TOOL_NAME, AskedLibrary, answer_text, find_passages

with needs_extra("attar.integrations.langchain", "integrations"):
    from langchain_core.callbacks import CallbackManagerForRetrieverRun
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.tools import StructuredTool


class LangChainRetriever(BaseRetriever):
    """The passages of a `Library` or `Client` that fit a query: `LangChainRetriever(library=library, top=4)`."""

    library: Any
    top: int = 4

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        return [
            Document(page_content=passage.text, metadata=passage.metadata | {"score": passage.score})
            for passage in find_passages(self.library, query, self.top)
        ]


def ask_tool(library: AskedLibrary) -> StructuredTool:
    """A tool that answers questions from a library's documents, with quotes."""

    def ask_documents(question: str) -> str:
        return answer_text(library, question)

    return StructuredTool.from_function(ask_documents, name=TOOL_NAME, description=TOOL_DESCRIPTION)
