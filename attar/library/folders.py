"""Files and folders into a library: found, read and added; documents whose files are gone are removed.

One path for `attar add`, `Library.add_file`, `Library.add_folder` and `Library.watch`.
"""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from attar.calls import sent_file
from attar.errors import AttarError
from attar.library.drafts import Draft, read_files, read_upload
from attar.progress import BYTES, Progress, ignore_progress
from attar.results import Change, FolderChanges, check_labels
from attar.store.records import Fault
from attar.store.store import Store

if TYPE_CHECKING:
    from attar.documents.following import KeptDocument, ReadFile
    from attar.documents.sources import FoundFiles
    from attar.documents.workers import FileLimits, FileReader
    from attar.library.library import Library

OnChange = Callable[[Change], None] | None
OnRefused = Callable[[AttarError], None] | None


def add_files(
    opened: "Callable[[], Library]",
    found: "FoundFiles",
    *,
    files: "FileReader | None" = None,
    tags: Sequence[str] | None = None,
    replace: bool = False,
    sync: bool = False,
    on_change: OnChange = None,
    on_refused: OnRefused = None,
    progress: Progress = ignore_progress,
) -> FolderChanges:
    """Add files that were found to a library, which is opened when there is a document to add, or to remove.

    What cannot be read or added is refused, and the others are added. With `sync`, documents of the folders whose files
    are gone are removed. `progress` gets the bytes of files that are read, and the tokens of each batch.
    """
    check_labels(() if tags is None else tags, {})
    refused: list[str] = []
    read: dict[str, ReadFile] = {}
    size = sum(file.bytes for file in found.files)

    def refuse(fault: AttarError) -> None:
        refused.append(str(fault))
        if on_refused is not None:
            on_refused(fault)

    drafts = read_files(found.files, refuse, lambda done: progress(BYTES, done, size), read, reader=files)
    if tags is not None:
        drafts = (draft.labelled(tags, None) for draft in drafts)
    changes: list[Change] = []
    removed: list[str] = []
    first = next(drafts, None)
    if first is not None or sync:
        library = opened()
        changes = library.add_many(
            chain([] if first is None else [first], drafts),
            replace=replace,
            on_change=on_change,
            on_refused=refuse,
            progress=progress,
        )
        removed = remove_gone(library.store, found, read) if sync else []
    return FolderChanges(changes, removed, refused, [f"{file.path}: {file.reason}" for file in found.skipped])


def follow(
    opened: "Callable[[], Library]",
    folder: str | os.PathLike[str],
    *,
    limits: "FileLimits | None" = None,
    tags: Sequence[str] | None = None,
    on_change: OnChange = None,
    stop: threading.Event | None = None,
) -> Iterator[FolderChanges]:
    """Bring a library in line with a folder, then follow its changes; a folder that is not there is refused at once."""
    from attar.documents.following import watch_folder
    from attar.documents.workers import FileReader

    def changes(found: "FoundFiles") -> FolderChanges:
        with FileReader(limits) as files:
            return add_files(opened, found, files=files, tags=tags, sync=True, on_change=on_change)

    check_labels(() if tags is None else tags, {})
    pictures = limits is None or limits.ocr != "never"
    return map(changes, watch_folder(folder, pictures=pictures, stop=stop))


def remove_gone(store: Store, found: "FoundFiles", read: "dict[str, ReadFile]") -> list[str]:
    """Remove the documents of folders whose files are gone; returns their names."""
    from attar.documents.following import gone_documents

    gone = gone_documents(_kept(store), found.folders, read)
    removed = []
    if gone:
        with store.transaction() as changes:
            for name in gone:
                if changes.find(name) is not None:  # else another process has removed it meanwhile
                    changes.remove(name)
                    removed.append(name)
    return removed


def _kept(store: Store) -> "Iterator[KeptDocument]":
    from attar.documents.following import KeptDocument

    for entry in store.documents():
        if not isinstance(entry, Fault):
            yield KeptDocument(entry.name, entry.source)


def file_drafts(
    file: str | os.PathLike[str] | bytes, name: str | None, tags: Sequence[str] | None
) -> list[Draft]:
    """The documents of one file, given as a path or as its bytes and its name."""
    from attar.documents.workers import FileReader

    check_labels(() if tags is None else tags, {})
    sent = sent_file(file, name)
    with FileReader() as files:
        drafts = [*read_upload(files, sent.name, sent.data, sent.source)]
    return drafts if tags is None else [draft.labelled(tags, None) for draft in drafts]
