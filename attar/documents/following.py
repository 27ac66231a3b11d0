"""Folders that live: which of their files are new or changed, round by round, and which documents are gone."""

import os
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from attar.documents.sources import FoundFiles, SourceFile, find_files
from attar.errors import FormatError, needs_extra

if TYPE_CHECKING:
    import watchfiles

# Changes within this many milliseconds are one round, unless there is a pause of the second number.
_DEBOUNCE = 5_000
_PAUSE = 500
# Milliseconds between two looks at whether the folder is still there, and whether to stop.
_LOOK = 1_000


class ReadFile(NamedTuple):
    """A file that was read in full: the name that its only document would have, and the names of its documents."""

    name: str
    documents: set[str]


class KeptDocument(NamedTuple):
    """A document of a library, and the path of the file that it came from; empty if from none."""

    name: str
    source: str


def gone_documents(
    kept: Iterable[KeptDocument], folders: Iterable[str | os.PathLike[str]], read: dict[str, ReadFile]
) -> list[str]:
    """The names of documents that came from folders and are not there any more; `read` are files by their paths."""
    places = [Path(os.path.abspath(folder)) for folder in folders]
    gone = []
    for document in kept:
        if document.source and any(Path(document.source).is_relative_to(place) for place in places):
            file = read.get(document.source)
            if _is_missing(document.source) if file is None else _is_gone(document.name, file):
                gone.append(document.name)
    return gone


def _is_missing(path: str) -> bool:
    """Whether there is no file. One in a folder that may not be read is not missing: its document must stay."""
    try:
        os.lstat(path)
    except OSError as fault:
        return isinstance(fault, FileNotFoundError | NotADirectoryError)
    return False


def _is_gone(name: str, file: ReadFile) -> bool:
    """Whether the file no longer contains this document.

    The same file has another name if another folder was given: its documents are not gone.

    >>> _is_gone("d-2", ReadFile("sub/d", {"d-1"})), _is_gone("sub/b", ReadFile("b", {"b"}))
    (True, False)
    >>> _is_gone("x.zip/b", ReadFile("x.zip", {"x.zip/a"}))
    True
    """
    if name in file.documents or file.name in file.documents:
        return False
    inside = file.name + "/"
    return name.startswith(inside) or not any(document.startswith(inside) for document in file.documents)


def find_in_folder(
    folder: str | os.PathLike[str], *, allow_empty: bool = False, pictures: bool = True
) -> FoundFiles:
    """The files of one folder and below; what is no folder is refused."""
    if os.path.isfile(folder):
        raise FormatError(f"{os.fspath(folder)} is a file, not a folder", "add it as a file")
    return find_files([Path(folder)], allow_empty=allow_empty, pictures=pictures)


def watch_folder(
    folder: str | os.PathLike[str], *, pictures: bool = True, stop: threading.Event | None = None
) -> Iterator[FoundFiles]:
    """Yield all files of a folder, then after each change those that are new or changed, until `stop` is set.

    A round without files is one in which files went away. A file counts as changed if its name, time or size is
    another; the operating system only says when to look, so that nothing is missed. A folder that is gone raises.
    """
    with needs_extra("watching a folder", "watch"):
        import watchfiles

    place = Path(folder)
    find_in_folder(place, allow_empty=True)  # a mistake is told before anything is done
    stopped = threading.Event() if stop is None else stop
    events = watchfiles.watch(
        place,
        watch_filter=None,
        debounce=_DEBOUNCE,
        step=_PAUSE,
        stop_event=stopped,
        rust_timeout=_LOOK,
        yield_on_timeout=True,
        ignore_permission_denied=True,
    )
    return _rounds(_Folder(place, pictures), events, stopped)


def _rounds(
    folder: "_Folder", events: "Iterator[set[tuple[watchfiles.Change, str]]]", stop: threading.Event
) -> Iterator[FoundFiles]:
    # The first event is that the watching has begun: what changed before it is found by looking once more.
    begun = False
    while not stop.is_set():
        changed = folder.changed()
        if changed is not None:
            yield changed
        try:
            for event in events:
                folder.check()
                if event or not begun:
                    break
        except (OSError, RuntimeError) as fault:  # such as too many folders for one user
            if isinstance(fault, FormatError):
                raise
            raise FormatError(f"{folder.path} cannot be watched: {fault}") from fault
        begun = True


class _Folder:
    """A folder, and what its files were like when they were last looked at."""

    def __init__(self, path: Path, pictures: bool) -> None:
        self.path, self._pictures = path, pictures
        self._identity = self._identify()
        self._files: dict[Path, tuple[object, ...]] | None = None
        self._skipped: set[Path] = set()

    def _identify(self) -> tuple[int, int]:
        try:
            now = os.stat(self.path)
        except OSError as fault:
            raise FormatError(
                f"{self.path} is gone; its documents stay", "watch it again when it is back"
            ) from fault
        return now.st_dev, now.st_ino

    def check(self) -> None:
        """Refuse to go on without the folder: one that is not mounted looks like one whose files were removed."""
        if self._identify() != self._identity:
            remedy = "watch it again if it is the right one"
            raise FormatError(f"{self.path} is now another folder; its documents stay", remedy)

    def changed(self) -> FoundFiles | None:
        """The files that are new or changed, and those that are newly skipped; None if nothing has changed."""
        found = find_in_folder(self.path, allow_empty=True, pictures=self._pictures)
        self.check()
        files = {file.path: _state(file) for file in found.files}
        before = self._files
        new = [file for file in found.files if before is None or before.get(file.path) != files[file.path]]
        skipped = [file for file in found.skipped if file.path not in self._skipped]
        self._files, self._skipped = files, {file.path for file in found.skipped}
        if not new and before is not None and before.keys() <= files.keys():
            return None
        return FoundFiles(new, skipped, found.folders)


def _state(file: SourceFile) -> tuple[object, ...]:
    """What is another once a file has changed; taken before it is read."""
    try:
        now = os.stat(file.path)
    except OSError:
        return ()
    return file.name, now.st_mtime_ns, now.st_ctime_ns, now.st_size, now.st_ino
