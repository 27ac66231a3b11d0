"""The calls of a client, made without sending them: the sync and the async client share these."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from attar.errors import OptionError
from attar.results import Answer

if TYPE_CHECKING:
    from numpy.typing import NDArray

JSON = "application/json"
# Questions sent in one request; a server takes 1,024 unless told otherwise.
AT_ONCE = 256


class Change(msgspec.Struct, frozen=True):
    """What became of a document."""

    name: str
    change: str
    tokens: int
    bytes: int


class Document(msgspec.Struct, frozen=True):
    """What a list tells of a document."""

    name: str
    title: str
    tokens: int
    bytes: int
    changed: str


class Page(msgspec.Struct):
    """Some of the documents, and the name to go on behind; None at the end."""

    documents: list[Document]
    next: str | None = None


class Found(msgspec.Struct):
    """The answers to one of several questions."""

    answers: list[Answer]


class ManyFound(msgspec.Struct):
    """The answers to several questions."""

    results: list[Found]


@dataclass(frozen=True)
class Call:
    """One request, and how its answer is read."""

    method: str
    path: str
    read: Callable[[bytes], Any]
    body: bytes | None = None
    media: str = JSON
    query: dict[str, str] = field(default_factory=dict)


def place_of(name: str) -> str:
    """The path of a document; every character of a name is its own, slashes too.

    >>> place_of("novels/Emma, ch. 1")
    '/v1/documents/novels%2FEmma%2C%20ch.%201'
    """
    if name in ("", ".", ".."):
        raise OptionError("name", "a name that a path can hold", repr(name), "give it another name")
    try:
        return f"/v1/documents/{quote(name, safe='')}"
    except UnicodeEncodeError:
        raise OptionError("name", "text", "half of a surrogate pair", "rename it") from None


def putting(name: str, text: str, title: str, replace: bool) -> Call:
    """Add a document."""
    body = msgspec.json.encode({"text": text, "title": title, "replace": replace})
    return Call("PUT", place_of(name), change_in, body)


def appending(name: str, text: str) -> Call:
    """Read on."""
    body = msgspec.json.encode({"text": text})
    return Call("POST", f"{place_of(name)}/append", change_in, body)


def removing(name: str) -> Call:
    """Take a document out."""
    return Call("DELETE", place_of(name), lambda body: None)


def showing(name: str) -> Call:
    """Tell what is kept of a document."""
    return Call("GET", place_of(name), lambda body: msgspec.json.decode(body, type=dict[str, Any]))


def listing(after: str | None, limit: int) -> Call:
    """List some documents."""
    query = {"limit": str(limit)} | ({} if after is None else {"after": after})
    return Call("GET", "/v1/documents", lambda body: msgspec.json.decode(body, type=Page), query=query)


def asking(names: str | Sequence[str], questions: Sequence[str], top: int) -> Call:
    """Ask questions, of one document or each of its own."""
    about = [names] if isinstance(names, str) else list(names)
    body = msgspec.json.encode({"documents": about, "questions": list(questions), "top": top})
    return Call("POST", "/v1/ask", answers_in, body)


def looking_up(names: str | Sequence[str], vectors: "NDArray[Any]") -> Call:
    """Look vectors `[m, k]` up."""
    # numpy loads when it is needed.
    from attar.wire import MEDIA, pack_queries, unpack_readouts

    body = pack_queries([names] if isinstance(names, str) else names, vectors)
    return Call("POST", "/v1/lookup", unpack_readouts, body, MEDIA)


def in_parts(
    names: str | Sequence[str], questions: Sequence[str]
) -> list[tuple[str | Sequence[str], Sequence[str]]]:
    """Names and questions, so many at a time as one request takes.

    >>> [len(part) for _, part in in_parts("emma", ["Who left?"] * 600)]
    [256, 256, 88]
    """
    if not isinstance(names, str) and len(names) != len(questions):
        raise OptionError("questions", f"one for each of {len(names)} documents", str(len(questions)))
    starts = range(0, len(questions), AT_ONCE)
    return [
        (names if isinstance(names, str) else names[at : at + AT_ONCE], questions[at : at + AT_ONCE])
        for at in starts
    ]


def change_in(body: bytes) -> Change:
    """What became of a document, as the server says it."""
    return msgspec.json.decode(body, type=Change)


def answers_in(body: bytes) -> list[list[Answer]]:
    """The answers to each question, as the server says them."""
    found = msgspec.json.decode(body, type=ManyFound)
    return [one.answers for one in found.results]
