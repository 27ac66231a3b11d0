"""Client: a served library over HTTP, with the methods, results and errors of `attar.Library`."""

import contextlib
import os
import socket
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote as percent_encode

from attar import wire
from attar.errors import AccessDeniedError, AttarError, OptionError, UnavailableError, UnknownDocumentError
from attar.files import NamedFile, read_named_file
from attar.progress import BYTES, Progress, ignore_progress
from attar.results import (
    Answer,
    AnswerGroup,
    Change,
    Document,
    DocumentDetails,
    FolderChanges,
    Hit,
    Subset,
    Verified,
    check_labels,
    paired,
)
from attar.sending import Sender

if TYPE_CHECKING:
    import httpx

    from attar.documents.following import ReadFile
    from attar.documents.sources import FoundFiles

# Questions, or names to remove, per request; a server takes 1,024 by default.
_QUESTIONS = 256
# Questions to all documents per request: each takes far longer than one to a document.
_TO_ALL = 32
# Documents per page of a list.
_PAGE = 1_000


class Client(contextlib.AbstractContextManager["Client"]):
    """A served library: `Client(url).ask("emma", "Who left?")`. Methods and errors are those of `attar.Library`.

    A call is repeated, at most `retries` times, if the server is busy (503), after the time that it gives, or if the
    answer was lost: each change has a key, so that it is made once. Only a removal whose answer was lost is not.
    Threads may share a client.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8000",
        *,
        token: str | None = None,
        timeout: float = 60.0,
        retries: int = 4,
        transport: "httpx.BaseTransport | None" = None,
    ) -> None:
        self._sender = Sender(url, token, timeout, retries, transport)

    def add(
        self,
        name: str,
        text: str,
        *,
        title: str = "",
        tags: Sequence[str] | None = None,
        metadata: Mapping[str, str] | None = None,
        replace: bool = False,
    ) -> Change:
        """Like `Library.add`."""
        body = wire.PutDocument(
            text,
            title,
            replace,
            None if tags is None else list(tags),
            None if metadata is None else dict(metadata),
        )
        (change,) = self._sender.change("PUT", _path(name), body)
        return change

    def add_many(
        self,
        documents: Iterable[tuple[str, str]],
        *,
        replace: bool = False,
        on_change: Callable[[Change], None] | None = None,
        on_refused: Callable[[AttarError], None] | None = None,
        progress: Progress = ignore_progress,
    ) -> list[Change]:
        """Like `Library.add_many`; one request per document."""
        changes: list[Change] = []
        for name, text in documents:
            try:
                change = self.add(name, text, replace=replace)
            except AttarError as fault:
                if on_refused is None or _concerns_all(fault):
                    raise
                on_refused(fault)
                continue
            changes.append(change)
            progress("characters", len(text), len(text))
            if on_change is not None:
                on_change(change)
        return changes

    def add_file(
        self,
        file: str | os.PathLike[str] | bytes,
        name: str | None = None,
        *,
        tags: Sequence[str] | None = None,
        replace: bool = False,
        progress: Progress = ignore_progress,
    ) -> list[Change]:
        """Like `Library.add_file`; `progress` gets the characters of a file so long that the server makes it a job."""
        return self._add_file(read_named_file(file, name), tags, replace, progress)

    def add_folder(
        self,
        folder: str | os.PathLike[str],
        *,
        tags: Sequence[str] | None = None,
        replace: bool = False,
        sync: bool = False,
        on_change: Callable[[Change], None] | None = None,
        on_refused: Callable[[AttarError], None] | None = None,
        progress: Progress = ignore_progress,
    ) -> FolderChanges:
        """Like `Library.add_folder`, with a folder of this computer; one request per file."""
        from attar.documents.following import find_in_folder

        found = find_in_folder(folder, allow_empty=sync)
        return self._add_found(found, tags, replace, sync, on_change, on_refused, progress)

    def watch(
        self,
        folder: str | os.PathLike[str],
        *,
        tags: Sequence[str] | None = None,
        on_change: Callable[[Change], None] | None = None,
        stop: threading.Event | None = None,
    ) -> Iterator[FolderChanges]:
        """Like `Library.watch`, with a folder of this computer."""
        from attar.documents.following import watch_folder

        rounds = watch_folder(folder, stop=stop)
        return (self._add_found(found, tags, sync=True, on_change=on_change) for found in rounds)

    def append(
        self, name: str, text: str, *, key: str | None = None, progress: Progress = ignore_progress
    ) -> Change:
        """Like `Library.append`; with a new key unless one is given."""
        path, body = _path(name, "/append"), wire.AppendText(text)
        (change,) = self._sender.change("POST", path, body, key=key or uuid.uuid4().hex, progress=progress)
        return change

    def ask(self, name: str, question: str, *, top: int | None = 5, look: int | None = None) -> list[Answer]:
        """Like `Library.ask`."""
        return self.ask_many([name], [question], top=top, look=look)[0]

    def ask_many(
        self,
        names: str | Sequence[str],
        questions: str | Sequence[str],
        *,
        top: int | None = 5,
        look: int | None = None,
    ) -> list[list[Answer]]:
        """Like `Library.ask_many`; at most 256 questions per request."""
        about, asked = paired(names, questions)
        return self._ask(
            wire.Ask(documents=about[part], questions=asked[part], top=top, look=look)
            for part in _parts(asked, _QUESTIONS)
        )

    def ask_all(
        self, question: str, *, top: int | None = 5, look: int | None = None, within: Subset | None = None
    ) -> list[Answer]:
        """Like `Library.ask_all`."""
        return self.ask_all_many([question], top=top, look=look, within=within)[0]

    def ask_all_many(
        self,
        questions: Sequence[str],
        *,
        top: int | None = 5,
        look: int | None = None,
        within: Subset | None = None,
    ) -> list[list[Answer]]:
        """Like `Library.ask_all_many`; some questions per request."""
        return self._ask(
            wire.Ask(questions=list(questions[part]), top=top, look=look, within=within)
            for part in _parts(questions, _TO_ALL)
        )

    def _ask(self, bodies: Iterable[wire.Ask]) -> list[list[Answer]]:
        replies = (self._sender.get("POST", wire.ASK, wire.ManyAnswers, body) for body in bodies)
        return [result.answers for reply in replies for result in reply.results]

    def list_answers(
        self, question: str, *, top: int | None = None, look: int | None = None, within: Subset | None = None
    ) -> list[AnswerGroup]:
        """Like `Library.list_answers`."""
        body = wire.ListAnswers(question, top, look, within)
        return self._sender.get("POST", wire.ANSWERS, wire.AnswerList, body).groups

    def search(
        self, query: str, *, top: int = 10, within: Subset | None = None, passages: bool = False
    ) -> list[Hit]:
        """Like `Library.search`."""
        return self._sender.get(
            "POST", wire.SEARCH, wire.Hits, wire.Search(query, top, within, passages)
        ).hits

    def verify(self, quote: str, *, within: Subset | None = None) -> Verified:
        """Like `Library.verify`."""
        found = self._sender.get("POST", wire.VERIFY, wire.Verification, wire.Verify(quote, within))
        return Verified(found.verdict, found.passages, found.unchecked)

    def merge(
        self,
        new: str,
        names: Iterable[str],
        *,
        title: str = "",
        replace: bool = False,
        key: str | None = None,
    ) -> Change:
        """Like `Library.merge`; with a new key unless one is given."""
        body = wire.Merge(new, list(names), title, replace)
        (change,) = self._sender.change("POST", wire.MERGE, body, key=key or uuid.uuid4().hex)
        return change

    def remove(self, *names: str) -> None:
        """Like `Library.remove`."""
        self._sender.send("POST", wire.REMOVE, wire.Remove(list(names)))

    def tag(self, *names: str, add: Sequence[str] = (), remove: Sequence[str] = ()) -> None:
        """Like `Library.tag`."""
        check_labels(add, {})
        check_labels(remove, {})
        self._sender.send("POST", wire.TAG, wire.Tag(list(names), list(add), list(remove)))

    def documents(
        self, *, after: str | None = None, limit: int | None = None, within: Subset | None = None
    ) -> Iterator[Document]:
        """Like `Library.documents`; at most 1,000 documents per request."""
        query: dict[str, Any] = {}
        if within:
            query = {"name": within.names, "in": within.folder, "tag": within.tags, "since": within.since}
        while limit is None or limit > 0:
            query |= {"after": after, "limit": _PAGE if limit is None else min(limit, _PAGE)}
            page = self._sender.get("GET", wire.DOCUMENTS, wire.Page, query=query)
            yield from page.documents
            if page.next is None:
                return
            after, limit = page.next, None if limit is None else limit - len(page.documents)

    def show(self, name: str) -> DocumentDetails:
        """Like `Library.show`."""
        return self._sender.get("GET", _path(name), DocumentDetails)

    def __contains__(self, name: str) -> bool:
        try:
            self._sender.send("HEAD", _path(name))
        except UnknownDocumentError:
            return False
        return True

    def __len__(self) -> int:
        return self._sender.get("GET", wire.DOCUMENTS, wire.Page, query={"limit": 1}).total

    def __bool__(self) -> bool:
        return True

    def close(self) -> None:
        """Close the connections."""
        self._sender.close()

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _add_file(
        self, file: NamedFile, tags: Sequence[str] | None, replace: bool, progress: Progress
    ) -> list[Change]:
        source = _source_here(file.path) if file.path else None
        query = {"name": file.name, "replace": int(replace), "source": source, "tag": tags}
        return self._sender.change("POST", wire.FILES, file.data, query=query, progress=progress)

    def _add_found(
        self,
        found: "FoundFiles",
        tags: Sequence[str] | None,
        replace: bool = False,
        sync: bool = False,
        on_change: Callable[[Change], None] | None = None,
        on_refused: Callable[[AttarError], None] | None = None,
        progress: Progress = ignore_progress,
    ) -> FolderChanges:
        """Add files that were found, and with `sync` remove the documents whose files are gone, as a library does."""
        from attar.documents.following import ReadFile

        check_labels(() if tags is None else tags, {})
        changes: list[Change] = []
        refused: list[str] = []
        read: dict[str, ReadFile] = {}
        (folder,) = found.folders
        size, done = sum(file.bytes for file in found.files), 0
        for file in found.files:
            try:
                sent = read_named_file(file.path, file.path.relative_to(folder).as_posix())
                added = self._add_file(sent, tags, replace, ignore_progress)
            except AttarError as fault:
                if _concerns_all(fault):
                    raise
                refused.append(str(fault))
                if on_refused is not None:
                    on_refused(fault)
            else:
                changes += added
                read[sent.path] = ReadFile(file.name, {change.name for change in added})
                if on_change is not None:
                    for change in added:
                        on_change(change)
            done += file.bytes
            progress(BYTES, done, size)
        removed = self._remove_gone(found, read) if sync else []
        skipped = [f"{file.path}: {file.reason}" for file in found.skipped]
        return FolderChanges(changes, removed, refused, skipped)

    def _remove_gone(self, found: "FoundFiles", read: "dict[str, ReadFile]") -> list[str]:
        from attar.documents.following import KeptDocument, gone_documents

        here = _source_here("")
        within = Subset(folder=_source_here(os.path.abspath(found.folders[0])))
        kept = [
            KeptDocument(document.name, document.source.removeprefix(here))
            for document in self.documents(within=within)
            if document.source and document.source.startswith(here)
        ]
        gone = gone_documents(kept, found.folders, read)
        for part in _parts(gone, _QUESTIONS):
            self.remove(*gone[part])
        return gone


def _parts(values: Sequence[object], size: int) -> Iterator[slice]:
    return (slice(at, at + size) for at in range(0, len(values), size))


def _source_here(path: str) -> str:
    """The source of a document that a client adds from a file: two computers may have files at the same path."""
    return f"{socket.gethostname()}:{path}"


def _path(name: str, after: str = "") -> str:
    """The path of a document; every character of a name is percent-encoded, slashes too."""
    if name in ("", ".", ".."):
        raise OptionError(f"no path can hold the name {name!r}", "give the document another name")
    try:
        return f"{wire.DOCUMENTS}/{percent_encode(name, safe='')}{after}"
    except UnicodeEncodeError:
        raise OptionError("no path can hold a name with half of a surrogate pair", "rename it") from None


def _concerns_all(fault: AttarError) -> bool:
    """Whether an error is not about one document: the server is not there, or refuses this client."""
    return isinstance(fault, UnavailableError | AccessDeniedError)
