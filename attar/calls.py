"""The requests of the clients, each described once: what is sent, how its reply is read, when it may be repeated."""

import contextlib
import os
import socket
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar
from urllib.parse import quote

import msgspec

from attar import errors, wire
from attar.errors import AttarError, OptionError, UnavailableError
from attar.progress import Progress, ignore_progress
from attar.results import (
    Answer,
    AnswerGroup,
    Change,
    DocumentDetails,
    Hit,
    Subset,
    Verified,
    check_labels,
    paired,
)

# Questions per request; a server takes 1,024 by default.
_QUESTIONS = 256
# Questions to all documents per request: each takes far longer than one to a document.
_TO_ALL = 32
# Documents per page of a list.
_PAGE = 1_000
_BY_STATUS: dict[int, type[AttarError]] = {
    **dict.fromkeys((401, 403), errors.AccessDeniedError),
    **dict.fromkeys((502, 503, 504), UnavailableError),
    404: errors.UnknownDocumentError,
}

Reply = TypeVar("Reply")
_Partial = TypeVar(
    "_Partial", wire.Answers, wire.ManyAnswers, wire.AnswerList, wire.Hits, wire.Page, wire.Verification
)


@dataclass(frozen=True)
class Call(Generic[Reply]):
    """One request, and the function that reads its reply: structs go as JSON, bytes as they are."""

    method: str
    path: str
    read: Callable[[bytes], Reply]
    body: msgspec.Struct | bytes | None = None
    query: dict[str, Any] = field(default_factory=dict)
    # Of a change that must not be made twice: the server recognises it when it is repeated.
    key: str | None = None
    # Of a change that may become a job: what its changes are as a reply.
    of_job: Callable[[list[Change]], Reply] | None = None
    # Called with the characters that a job has read.
    progress: Progress = ignore_progress

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


def add(
    name: str,
    text: str,
    *,
    title: str = "",
    tags: Sequence[str] | None = None,
    metadata: Mapping[str, str] | None = None,
    replace: bool = False,
) -> Call[Change]:
    """Like `Library.add`."""
    labels = None if tags is None else list(tags), None if metadata is None else dict(metadata)
    body = wire.PutDocument(text, title, replace, *labels)
    return Call("PUT", _path(name), _decode(Change), body, of_job=_only_one)


class SentFile(NamedTuple):
    """A file to add: its name, by which its kind is known, its bytes, and its path, if it has one."""

    name: str
    data: bytes
    source: str


def sent_file(file: str | os.PathLike[str] | bytes, name: str | None) -> SentFile:
    """Read a file at a path, or take bytes, which need a name."""
    if isinstance(file, bytes):
        if name is None:
            raise OptionError("the file needs a name, by which its kind is known", 'for example name="a.pdf"')
        return SentFile(name, file, "")
    try:
        data = Path(file).read_bytes()
    except OSError as fault:
        remedy = "add it with add_folder" if os.path.isdir(file) else "check the path"
        raise errors.FormatError(f"cannot read {file}: {fault.strerror or fault}", remedy) from fault
    return SentFile(Path(file).name if name is None else name, data, os.path.abspath(file))


def source_here(path: str) -> str:
    """The source of a document that a client adds from a file: two computers may have files at the same path."""
    return f"{socket.gethostname()}:{path}" if path else ""


def add_file(
    file: str | os.PathLike[str] | bytes,
    name: str | None = None,
    *,
    tags: Sequence[str] | None = None,
    replace: bool = False,
    progress: Progress = ignore_progress,
) -> Call[list[Change]]:
    """Like `Library.add_file`; `progress` gets the characters of a file so long that the server makes it a job."""
    return send_file(sent_file(file, name), tags, replace, progress)


def send_file(
    file: SentFile, tags: Sequence[str] | None, replace: bool, progress: Progress = ignore_progress
) -> Call[list[Change]]:
    """Add a file that is read."""
    query: dict[str, Any] = {"name": file.name, "replace": int(replace)}
    query |= {"source": source_here(file.source)} if file.source else {}
    query |= {"tag": [*tags]} if tags else {}
    read = _decode(wire.Changes)
    return Call(
        "POST",
        wire.FILES,
        lambda reply: read(reply).changes,
        file.data,
        query,
        of_job=list,
        progress=progress,
    )


def append(
    name: str, text: str, *, key: str | None = None, progress: Progress = ignore_progress
) -> Call[Change]:
    """Like `Library.append`; with a new key unless one is given."""
    return Call(
        "POST",
        _path(name, "/append"),
        _decode(Change),
        wire.AppendText(text),
        key=_key(key),
        of_job=_only_one,
        progress=progress,
    )


def merge(
    new: str, names: Iterable[str], *, title: str = "", replace: bool = False, key: str | None = None
) -> Call[Change]:
    """Like `Library.merge`; with a new key unless one is given."""
    body = wire.Merge(new, list(names), title, replace)
    return Call("POST", wire.MERGE, _decode(Change), body, key=_key(key))


def remove(*names: str) -> Call[None]:
    """Like `Library.remove`."""
    return Call("POST", wire.REMOVE, _ignore, wire.Remove(list(names)))


def tag(*names: str, add: Sequence[str] = (), remove: Sequence[str] = ()) -> Call[None]:
    """Like `Library.tag`."""
    check_labels(add, {})
    check_labels(remove, {})
    return Call("POST", wire.TAG, _ignore, wire.Tag(list(names), list(add), list(remove)))


def ask(name: str, question: str, *, top: int | None = 5, look: int | None = None) -> Call[list[Answer]]:
    """Like `Library.ask`."""
    return _only_ask(wire.Ask(documents=[name], questions=[question], top=top, look=look))


def ask_all(
    question: str, *, top: int | None = 5, look: int | None = None, within: Subset | None = None
) -> Call[list[Answer]]:
    """Like `Library.ask_all`."""
    return _only_ask(wire.Ask(questions=[question], top=top, look=look, within=within))


def ask_parts(
    names: str | Sequence[str], questions: str | Sequence[str], top: int | None, look: int | None
) -> Iterator[Call[list[list[Answer]]]]:
    """Ask many questions about documents, in parts."""
    about, asked = paired(names, questions)
    for at in range(0, len(asked), _QUESTIONS):
        part = slice(at, at + _QUESTIONS)
        yield _ask(wire.Ask(documents=about[part], questions=asked[part], top=top, look=look))


def ask_all_parts(
    questions: Sequence[str], top: int | None, look: int | None, within: Subset | None
) -> Iterator[Call[list[list[Answer]]]]:
    """Ask many questions to all documents, in parts."""
    for at in range(0, len(questions), _TO_ALL):
        some = list(questions[at : at + _TO_ALL])
        yield _ask(wire.Ask(questions=some, top=top, look=look, within=within))


def _ask(body: wire.Ask) -> Call[list[list[Answer]]]:
    def read(reply: bytes) -> list[list[Answer]]:
        return [result.answers for result in _whole(_decode(wire.ManyAnswers)(reply)).results]

    return Call("POST", wire.ASK, read, body)


def _only_ask(body: wire.Ask) -> Call[list[Answer]]:
    many = _ask(body)
    return Call(many.method, many.path, lambda reply: many.read(reply)[0], body)


def list_answers(
    question: str, *, top: int | None = None, look: int | None = None, within: Subset | None = None
) -> Call[list[AnswerGroup]]:
    """Like `Library.list_answers`."""
    read, body = _decode(wire.AnswerList), wire.ListAnswers(question, top, look, within)
    return Call("POST", wire.ANSWERS, lambda reply: _whole(read(reply)).groups, body)


def search(
    query: str, *, top: int = 10, within: Subset | None = None, passages: bool = False
) -> Call[list[Hit]]:
    """Like `Library.search`."""
    read, body = _decode(wire.Hits), wire.Search(query, top, within, passages)
    return Call("POST", wire.SEARCH, lambda reply: _whole(read(reply)).hits, body)


def verify(quote: str, *, within: Subset | None = None) -> Call[Verified]:
    """Like `Library.verify`."""

    def read(reply: bytes) -> Verified:
        found = _whole(_decode(wire.Verification)(reply))
        return Verified(found.verdict, found.passages, found.unchecked)

    return Call("POST", wire.VERIFY, read, wire.Verify(quote, within))


def page(after: str | None, limit: int | None, within: Subset | None) -> Call[wire.Page]:
    """List some documents."""
    query: dict[str, Any] = {"limit": _PAGE if limit is None else min(limit, _PAGE)}
    query |= {"after": after} if after else {}
    if within:
        parts = {"name": within.names, "in": within.folder, "tag": within.tags, "since": within.since}
        query |= {name: value for name, value in parts.items() if value}
    return Call("GET", wire.DOCUMENTS, lambda reply: _whole(_decode(wire.Page)(reply)), query=query)


def show(name: str) -> Call[DocumentDetails]:
    """Like `Library.show`."""
    return Call("GET", _path(name), _decode(DocumentDetails))


def find(name: str) -> Call[None]:
    """Ask whether there is a document of a name; a 404 says that there is none."""
    return Call("HEAD", _path(name), _ignore)


def job(given: wire.Job) -> Call[wire.Job]:
    """Ask how far a job is."""
    return Call("GET", f"{wire.JOBS}/{given.id}", _decode(wire.Job))


def cancel(given: wire.Job) -> Call[wire.Job]:
    """Stop a job."""
    return Call("DELETE", f"{wire.JOBS}/{given.id}", _decode(wire.Job))


def accepted(reply: bytes) -> wire.Job:
    """The job that a change has become."""
    return _decode(wire.Job)(reply)


def result_of(call: Call[Reply], ended: wire.Job) -> Reply:
    """The reply of a change whose job has ended; raises if it failed or was cancelled."""
    if ended.problem is not None:
        raise error_for(ended.problem.status, msgspec.json.encode(ended.problem))
    if ended.state == "cancelled" or call.of_job is None:
        raise UnavailableError("the job was cancelled", "what it had added before stays")
    return call.of_job(ended.changes)


def _only_one(changes: list[Change]) -> Change:
    (change,) = changes
    return change


def _decode(reply: type[Reply]) -> Callable[[bytes], Reply]:
    return partial(msgspec.json.decode, type=reply)


def _ignore(reply: bytes) -> None:
    return None


def _key(given: str | None) -> str:
    return uuid.uuid4().hex if given is None else given


def _path(name: str, after: str = "") -> str:
    """The path of a document; every character of a name is percent-encoded, slashes too."""
    if name in ("", ".", ".."):
        raise OptionError(f"no path can hold the name {name!r}", "give the document another name")
    try:
        return f"{wire.DOCUMENTS}/{quote(name, safe='')}{after}"
    except UnicodeEncodeError:
        raise OptionError("no path can hold a name with half of a surrogate pair", "rename it") from None


def _whole(reply: _Partial) -> _Partial:
    """A reply; a warning says which parts of the library it is without."""
    if reply.missing:
        parts = ", ".join(reply.missing)
        warnings.warn(f"answered without {parts}: not running now; ask again later", stacklevel=5)
    return reply


def error_for(status: int, body: bytes) -> AttarError:
    """The error for a refused request: one for the status, or else of the class that the server names."""
    kind, message = "", f"the server answered with status {status}"
    with contextlib.suppress(msgspec.DecodeError):
        problem = msgspec.json.decode(body, type=wire.Problem)
        kind, message = problem.kind, problem.detail
    named, error_class = getattr(errors, kind, None), _BY_STATUS.get(status, AttarError)
    if status not in _BY_STATUS and isinstance(named, type) and issubclass(named, AttarError):
        error_class = named
    return error_class(message)
