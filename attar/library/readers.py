"""The reader of a library: given, or found by the fingerprint that the store has; loaded when it is first needed."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from attar.reader.folders import ReaderFolder, find_reader

if TYPE_CHECKING:
    from attar.reader.reader import Reader

    GivenReader = Reader | str | os.PathLike[str] | None


class LibraryReader:
    """A reader, the path of one, or None for the one that made the store, or the default."""

    def __init__(self, given: "GivenReader") -> None:
        self._reader: Reader | None = None
        self._path: Path | None = None
        self._folder: ReaderFolder | None = None
        if isinstance(given, str | os.PathLike):
            self._path = Path(given)
        else:
            self._reader = given

    @property
    def fingerprint(self) -> str | None:
        """The fingerprint of a reader that is loaded."""
        return None if self._reader is None else self._reader.fingerprint

    def folder(self) -> ReaderFolder | None:
        """The folder of a reader that was given by its path; its config is read once."""
        if self._folder is None and self._path is not None:
            self._folder = ReaderFolder.open(self._path)
        return self._folder

    def chosen(self) -> "Reader | ReaderFolder":
        """The given reader, loaded or not; the default if none was given."""
        return self._reader or self.folder() or ReaderFolder.open(None)

    def get(self, library: Path, expected: str | None) -> "Reader":
        """The reader with this fingerprint; another process may have moved the library to it."""
        if self._reader is None or expected not in (None, self._reader.fingerprint):
            moved = self._reader is not None
            folder = find_reader(f"library {library}", self.folder(), expected, moved=moved)
            from attar.reader.reader import Reader  # last: a reader that is refused is not waited for

            self._reader = Reader.of(folder)
        return self._reader
