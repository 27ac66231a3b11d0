"""The requests of the clients: one call per method of a library, which of them may be repeated, and their errors."""

import contextlib
import os
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import msgspec

from attar import errors, wire
from attar.errors import AttarError, OptionError, UnavailableError
from attar.results import Change

# Questions per request (a server takes 1,024 by default), and documents per page of a list.
_QUESTIONS, _PAGE = 256, 1_000
# Questions to all documents per request: each takes far longer than one to a document.
_TO_ALL = 32
_BY_STATUS: dict[int, type[AttarError]] = {
    **dict.fromkeys((401, 403), errors.AccessDeniedError),
    **dict.fromkeys((502, 503, 504), UnavailableError),
    404: errors.UnknownDocumentError,
}

Reply = TypeVar("Reply")


@dataclass(frozen=True)
class Call(Generic[Reply]):
    """One request and the type of its reply: structs go as JSON, bytes as they are."""

    method: str
    path: str
    reply: type[Reply]
    body: msgspec.Struct | bytes | None = None
    query: dict[str, Any] = field(default_factory=dict)
    # Of a change that must not be made twice: the server recognises it when it is repeated.
    key: str | None = None

    @property
    def repeatable(self) -> bool:
        """Whether an unconfirmed request may be retried; removals may not."""
        return self.path != wire.REMOVE

    @property
    def is_change(self) -> bool:
        """Whether it adds, appends or merges: a server that ran out of time may have made the change."""
        return self.method == "PUT" or self.key is not None or self.path == wire.FILES

    def options(self) -> dict[str, Any]:
        """Query, body and content type, as httpx takes them."""
        if self.body is None:
            return {"params": self.query}
        if isinstance(self.body, bytes):
            return {"content": self.body, "headers": {"content-type": wire.MEDIA}, "params": self.query}
        headers = {"content-type": wire.JSON} | ({} if self.key is None else {wire.KEY_HEADER: self.key})
        return {"content": msgspec.json.encode(self.body), "headers": headers}

    def parse(self, content: Any) -> Reply:
        """The reply of a body."""
        return content if self.reply is bytes else msgspec.json.decode(content, type=self.reply)


def document_path(name: str, after: str = "") -> str:
    """The path of a document; every character of a name is percent-encoded, slashes too."""
    if name in ("", ".", ".."):
        raise OptionError.expected("name", "a name that a path can hold", repr(name), "give it another name")
    try:
        return f"{wire.DOCUMENTS}/{quote(name, safe='')}{after}"
    except UnicodeEncodeError:
        raise OptionError.expected("name", "text", "half of a surrogate pair", "rename it") from None


def append_call(name: str, text: str, key: str | None) -> Call[Change]:
    """The request that appends a text."""
    path, body = document_path(name, "/append"), wire.AppendText(text)
    return Call("POST", path, Change, body, key=uuid.uuid4().hex if key is None else key)


def file_call(file: str | os.PathLike[str] | bytes, name: str | None, replace: bool) -> Call[wire.Changes]:
    """The request that adds a file: one at a path, or bytes, which need a name."""
    if isinstance(file, bytes):
        if name is None:
            raise OptionError.expected(
                "name", "the file's name, to know its kind", "none", 'for example name="a.pdf"'
            )
        data = file
    else:
        try:
            data, name = Path(file).read_bytes(), name or Path(file).name
        except OSError as fault:
            raise errors.FormatError.expected(
                str(file), "a file to read", fault.strerror or str(fault)
            ) from fault
    query = {"name": name, "replace": int(replace)}
    return Call("POST", wire.FILES, wire.Changes, data, query)


def merge_call(body: wire.Merge, key: str | None) -> Call[Change]:
    """The request that merges documents."""
    return Call("POST", wire.MERGE, Change, body, key=uuid.uuid4().hex if key is None else key)


def list_call(after: str | None, limit: int | None) -> Call[wire.Page]:
    """The request for one page of the list of documents."""
    query = {"limit": _PAGE if limit is None else min(limit, _PAGE)} | ({"after": after} if after else {})
    return Call("GET", wire.DOCUMENTS, wire.Page, query=query)


def ask_calls(
    names: str | Sequence[str], questions: str | Sequence[str], top: int | None
) -> Iterator[Call[wire.ManyAnswers]]:
    """The requests for many questions."""
    about = [names] if isinstance(names, str) else list(names)
    asked = [questions] * len(about) if isinstance(questions, str) else list(questions)
    if not isinstance(names, str) and len(about) != len(asked):
        raise errors.ShapeError.expected(
            "questions", f"one for each of {len(about)} documents", str(len(asked))
        )
    for at in range(0, len(asked), _QUESTIONS):
        part = about if isinstance(names, str) else about[at : at + _QUESTIONS]
        body = wire.Ask(documents=part, questions=asked[at : at + _QUESTIONS], top=top)
        yield Call("POST", wire.ASK, wire.ManyAnswers, body)


def ask_all_call(question: str, top: int | None) -> Call[wire.Answers]:
    """The request for a question to all documents."""
    return Call("POST", wire.ASK, wire.Answers, wire.Ask(question=question, top=top))


def ask_all_calls(questions: Sequence[str], top: int | None) -> Iterator[Call[wire.ManyAnswers]]:
    """The requests for many questions to all documents."""
    asked = list(questions)
    for at in range(0, len(asked), _TO_ALL):
        body = wire.Ask(questions=asked[at : at + _TO_ALL], top=top)
        yield Call("POST", wire.ASK, wire.ManyAnswers, body)


def search_call(query: str, top: int) -> Call[wire.Hits]:
    """The request for the documents that fit a query best."""
    return Call("POST", wire.SEARCH, wire.Hits, wire.Search(query, top))


def error_for(status: int, body: bytes) -> AttarError:
    """The error for a refused request: one for the status, or else of the class that the server names."""
    kind, message = "", f"server: expected an answer, got status {status}"
    with contextlib.suppress(msgspec.DecodeError):
        problem = msgspec.json.decode(body, type=wire.Problem)
        kind, message = problem.kind, problem.detail
    named, error_class = getattr(errors, kind, None), _BY_STATUS.get(status, AttarError)
    if status not in _BY_STATUS and isinstance(named, type) and issubclass(named, AttarError):
        error_class = named
    # Constructors build a message from its parts; this one is complete already.
    error = error_class.__new__(error_class)
    Exception.__init__(error, message)
    return error
