"""Files and folders of a client's computer into a served library: the requests, one by one, for both clients."""

import os
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from attar import calls
from attar.calls import Call
from attar.errors import AccessDeniedError, AttarError, UnavailableError
from attar.progress import BYTES, Progress, ignore_progress
from attar.results import Change, FolderChanges, Subset, check_labels

if TYPE_CHECKING:
    from attar.documents.sources import FoundFiles

Value = TypeVar("Value")
# Yields requests, is sent their replies or thrown their errors, and returns a result.
Steps = Generator[Call[Any], Any, Value]

# Documents that are removed in one request; a server takes 1,024 by default.
_REMOVED = 256

_OnChange = Callable[[Change], None] | None
_OnRefused = Callable[[AttarError], None] | None


def add_many(
    documents: Iterable[tuple[str, str]],
    replace: bool,
    on_change: _OnChange,
    on_refused: _OnRefused,
    progress: Progress,
) -> Steps[list[Change]]:
    """Add names and texts, one by one; a refused document ends it unless somebody takes its error."""
    changes: list[Change] = []
    for name, text in documents:
        try:
            change = yield calls.add(name, text, replace=replace)
        except AttarError as fault:
            if on_refused is None or _is_of_server(fault):
                raise
            on_refused(fault)
            continue
        changes.append(change)
        progress("characters", len(text), len(text))
        if on_change is not None:
            on_change(change)
    return changes


def find(folder: str | os.PathLike[str], allow_empty: bool) -> "FoundFiles":
    """The files of a folder and below."""
    from attar.documents.following import find_in_folder

    return find_in_folder(folder, allow_empty=allow_empty)


def watch(folder: str | os.PathLike[str], stop: threading.Event | None) -> "Iterator[FoundFiles]":
    """The files of a folder, then those that change."""
    from attar.documents.following import watch_folder

    return watch_folder(folder, stop=stop)


def add_files(
    found: "FoundFiles",
    tags: Sequence[str] | None,
    replace: bool = False,
    sync: bool = False,
    on_change: _OnChange = None,
    on_refused: _OnRefused = None,
    progress: Progress = ignore_progress,
) -> Steps[FolderChanges]:
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
            sent = calls.sent_file(file.path, file.path.relative_to(folder).as_posix())
            added = yield calls.send_file(sent, tags, replace)
        except AttarError as fault:
            if _is_of_server(fault):
                raise
            refused.append(str(fault))
            if on_refused is not None:
                on_refused(fault)
        else:
            changes += added
            read[sent.source] = ReadFile(file.name, {change.name for change in added})
            if on_change is not None:
                for change in added:
                    on_change(change)
        done += file.bytes
        progress(BYTES, done, size)
    removed = (yield from _remove_gone(found, read)) if sync else []
    return FolderChanges(changes, removed, refused, [f"{file.path}: {file.reason}" for file in found.skipped])


def _remove_gone(found: "FoundFiles", read: dict[str, Any]) -> Steps[list[str]]:
    from attar.documents.following import KeptDocument, gone_documents

    here = calls.source_here("/").removesuffix("/")
    kept: list[KeptDocument] = []
    after: str | None = None
    within = Subset(folder=calls.source_here(os.path.abspath(found.folders[0])))
    while True:
        page = yield calls.page(after, None, within)
        of_here = ((each.name, each.source) for each in page.documents if each.source)
        kept += [
            KeptDocument(name, source.removeprefix(here))
            for name, source in of_here
            if source.startswith(here)
        ]
        after = page.next
        if after is None:
            break
    gone = gone_documents(kept, found.folders, read)
    for at in range(0, len(gone), _REMOVED):
        yield calls.remove(*gone[at : at + _REMOVED])
    return gone


def _is_of_server(fault: AttarError) -> bool:
    """Whether it is no mistake in one document, but true for all."""
    return isinstance(fault, UnavailableError | AccessDeniedError)
