"""A library as an MCP server: tools that a language model calls to ask, search and read documents.

The server changes nothing. Its results are the JSON of the HTTP API.
"""

import socket
from collections.abc import Callable
from functools import wraps
from itertools import islice
from typing import Annotated, Any, ParamSpec

import msgspec
import uvicorn
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations
from pydantic import Field

import attar
from attar.errors import AttarError, OptionError, UnknownDocumentError
from attar.library.served import ServedLibrary

_HOST = "127.0.0.1"
# The most characters of a text that one call returns: some 5,000 tokens of a language model.
_LONGEST_PART = 20_000
_MOST_DOCUMENTS = 1_000
_INSTRUCTIONS = (
    "A library of documents. `ask` answers a question with phrases of the documents, each with the sentence that says "
    "so; the kind 'none' means that the documents do not say it. `search` finds passages to read."
)

Question = Annotated[str, Field(description="A question in plain English.")]
Name = Annotated[str, Field(description="The name of a document, as list_documents gives it.")]
Parameters = ParamSpec("Parameters")


def make_server(library: ServedLibrary) -> "MCPServer[Any]":
    """The MCP server of a library; `run("stdio")` runs it."""
    server: MCPServer[Any] = MCPServer(
        "attar", instructions=_INSTRUCTIONS, version=attar.__version__, log_level="WARNING"
    )
    tools = LibraryTools(library)
    for tool in (tools.ask, tools.search, tools.verify, tools.list_documents, tools.read_document):
        hints = ToolAnnotations(read_only_hint=True, open_world_hint=False)
        server.add_tool(_refusing(tool), annotations=hints)
    return server


def serve_http(library: ServedLibrary, port: int, on_start: Callable[[str], None]) -> None:
    """Serve a library at `/mcp` of this machine's own address until a signal; `on_start` gets the URL."""
    app = make_server(library).streamable_http_app(host=_HOST)
    try:
        listening = socket.create_server((_HOST, port))
    except OSError as fault:
        message = f"cannot listen on {_HOST}:{port}: {fault.strerror or fault}"
        raise OptionError(message, "choose another port with --port") from fault
    with listening:
        on_start(f"http://{_HOST}:{listening.getsockname()[1]}/mcp")
        uvicorn.Server(uvicorn.Config(app, log_level="warning")).run([listening])


class LibraryTools:
    """The tools. Their names, signatures and docstrings are what a language model reads."""

    def __init__(self, library: ServedLibrary) -> None:
        self._library = library

    def ask(
        self,
        question: Question,
        document: Annotated[
            str | None, Field(description="The name of a document; without it all documents are asked.")
        ] = None,
        top: Annotated[int, Field(description="The most answers.")] = 3,
    ) -> dict[str, Any]:
        """Answer a question from the documents, the most likely answer first, each with its sentence and place.

        Answers are phrases of the documents, with probabilities. The kind "none" says that the answer is not in them.
        """
        if document is None:
            (answers,) = self._library.ask_all_many([question], top=top)
        else:
            (asked,) = self._library.ask_each([document], [question], top=top)
            if isinstance(asked, UnknownDocumentError):
                raise UnknownDocumentError.named(document, self._library.similar(document) or ())
            if isinstance(asked, AttarError):
                raise asked
            answers = asked.answers
        return {"answers": msgspec.to_builtins(answers)}

    def search(
        self,
        query: Annotated[str, Field(description="A question, or some words.")],
        top: Annotated[int, Field(description="The most documents.")] = 5,
    ) -> dict[str, Any]:
        """Find the documents that fit a query best, each with its best sentences and the passages around them."""
        return {"hits": msgspec.to_builtins(self._library.search(query, top=top, passages=True))}

    def verify(
        self, quote: Annotated[str, Field(description="The sentence that a document is said to have.")]
    ) -> dict[str, Any]:
        """Check whether a document says a sentence, word for word or with a few words changed, and where."""
        return {"verified": msgspec.to_builtins(self._library.verify(quote))}

    def list_documents(
        self,
        after: Annotated[str | None, Field(description="Only names after this one, to read on.")] = None,
        limit: Annotated[int, Field(description="The most documents, up to 1,000.")] = 100,
    ) -> dict[str, Any]:
        """List documents in the order of their names, with titles, dates and sizes, and how many there are in all."""
        if not 1 <= limit <= _MOST_DOCUMENTS:
            raise OptionError.expected("limit", f"1 to {_MOST_DOCUMENTS:,}", str(limit))
        documents = list(islice(self._library.documents(after=after, limit=limit), limit))
        return {"total": len(self._library), "documents": msgspec.to_builtins(documents)}

    def read_document(
        self,
        name: Name,
        start: Annotated[int, Field(description="The first character; `next` of the part before.")] = 0,
        length: Annotated[int, Field(description="The most characters, up to 20,000.")] = _LONGEST_PART,
    ) -> dict[str, Any]:
        """Read a part of a document's text; `next` is where the part after it starts, if there is one."""
        if start < 0 or not 1 <= length <= _LONGEST_PART:
            wanted = f"a start of at least 0 and a length of 1 to {_LONGEST_PART:,}"
            raise OptionError.expected("part", wanted, f"{start} and {length}")
        document = self._library.show(name)
        if document.text is None:
            raise OptionError(
                f"the text of {name!r} is not kept", "ask it, or add it again without --no-text"
            )
        end = min(start + length, len(document.text))
        return {
            "name": document.name,
            "title": document.title,
            "text": document.text[start:end],
            "characters": len(document.text),
            "next": end if end < len(document.text) else None,
        }


def _refusing(tool: Callable[Parameters, dict[str, Any]]) -> Callable[Parameters, dict[str, Any]]:
    """The tool, whose mistakes of callers are errors that a language model reads."""

    @wraps(tool)
    def call(*arguments: Parameters.args, **named: Parameters.kwargs) -> dict[str, Any]:
        try:
            return tool(*arguments, **named)
        except AttarError as fault:
            raise ToolError(str(fault)) from fault

    return call
