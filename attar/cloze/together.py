"""A folder's files, all of them or none: written beside their places, and moved there once every one is whole."""

import os
from pathlib import Path
from types import TracebackType

from attar.errors import AttarError, writing_to


class FilesTogether:
    """A folder to write some files to; one that is made for them goes again if they do not come.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as place:
    ...     with FilesTogether(Path(place)) as files:
    ...         count = files.place("a.txt").write_text("Ann left.")
    ...         before = (Path(place) / "a.txt").exists()
    ...     before, (Path(place) / "a.txt").exists()
    (False, True)
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._written: dict[str, Path] = {}
        self._removed: list[str] = []
        self._made: list[Path] = []

    def place(self, name: str) -> Path:
        """Where to write what will be the file of this name."""
        self._written[name] = self.folder / f".{name}.{os.getpid()}.new"
        return self._written[name]

    def remove(self, name: str) -> None:
        """Have an earlier file of this name go when the others come."""
        self._removed.append(name)

    def __enter__(self) -> "FilesTogether":
        above = (self.folder, *self.folder.parents)
        self._made = [folder for folder in above if not folder.exists()]
        try:
            with writing_to(self.folder):
                self.folder.mkdir(parents=True, exist_ok=True)
        except AttarError:
            self._remove_made()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            with writing_to(self.folder):
                if kind is None:
                    self._move()
                elif isinstance(fault, OSError):  # a full disk, or no right to write
                    raise fault
        finally:
            for partial in self._written.values():
                partial.unlink(missing_ok=True)
            self._remove_made()

    def _move(self) -> None:
        for name, partial in self._written.items():
            os.replace(partial, self.folder / name)
        for name in self._removed:
            (self.folder / name).unlink(missing_ok=True)

    def _remove_made(self) -> None:
        """Remove the folders that were made and are still empty, the innermost first."""
        for folder in self._made:
            try:
                folder.rmdir()
            except OSError:
                return
