"""Atomic writes: a file, or several files of a folder, appear complete or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from attar.errors import AttarError, writing_to


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path next to `path`; on success it replaces `path`, after an error it is removed."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        yield partial
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


class AtomicFiles:
    """Writes several files of a folder at once; folders created for them are removed again after an error.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     with AtomicFiles(Path(folder)) as files:
    ...         count = files.path("a.txt").write_text("Ann left.")
    ...         before = (Path(folder) / "a.txt").exists()
    ...     before, (Path(folder) / "a.txt").exists()
    (False, True)
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._written: dict[str, Path] = {}
        self._removed: list[str] = []
        self._created: list[Path] = []

    def path(self, name: str) -> Path:
        """Return the temporary path at which to write the file of this name."""
        self._written[name] = self.folder / f".{name}.{os.getpid()}.new"
        return self._written[name]

    def remove(self, name: str) -> None:
        """Remove an existing file of this name when the others are in place."""
        self._removed.append(name)

    def __enter__(self) -> "AtomicFiles":
        self._created = [folder for folder in (self.folder, *self.folder.parents) if not folder.exists()]
        try:
            with writing_to(self.folder):
                self.folder.mkdir(parents=True, exist_ok=True)
        except AttarError:
            self._remove_created()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            with writing_to(self.folder):
                if kind is None:
                    self._move()
                elif isinstance(fault, OSError):  # a full disk, or no permission to write
                    raise fault
        finally:
            for partial in self._written.values():
                partial.unlink(missing_ok=True)
            self._remove_created()

    def _move(self) -> None:
        for name, partial in self._written.items():
            os.replace(partial, self.folder / name)
        for name in self._removed:
            (self.folder / name).unlink(missing_ok=True)

    def _remove_created(self) -> None:
        """Remove the folders that were created and are still empty, the innermost first."""
        for folder in self._created:
            try:
                folder.rmdir()
            except OSError:
                return
