"""Files and folders as documents: each with a name and a text, or an error that names the file."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from attar.errors import AttarError, FormatError
from attar.library.adding import Draft
from attar.text import SOURCE_SUFFIXES, decode_text, read_sources

# Called with the error of a file that cannot be read, when the others are to be read nevertheless.
OnError = Callable[[AttarError], None]
# Their documents are named by lines or members, not by the file's place in a folder.
_COLLECTIONS = (".jsonl", ".jsonl.xz", ".tar.xz")


class SourceFile(NamedTuple):
    """A file, the folder in its documents' names (empty for a file that was named itself), and its size."""

    path: Path
    folder: str
    bytes: int


def find_files(paths: Iterable[str | Path], on_error: OnError | None = None) -> list[SourceFile]:
    """The files of paths, in a fixed order: the files themselves, and the texts in folders."""
    files: list[SourceFile] = []
    for path in map(Path, paths):
        try:
            files += _files_of(path)
        except AttarError as fault:
            _report(fault, on_error)
        except OSError as fault:
            came = fault.strerror or str(fault)
            _report(FormatError(str(path), "a file or a folder to read", came), on_error)
    return files


def read_files(
    files: Sequence[SourceFile],
    on_error: OnError | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> Iterator[Draft]:
    """Yield the checked documents of files; `progress` is called with the number of bytes that are read."""
    before = 0
    for file in files:
        inside = 0
        try:
            for name, text in _read_file(file):
                try:
                    draft = Draft.of(name, text)
                except AttarError as fault:
                    _report(FormatError(str(file.path), "documents to add", str(fault)), on_error)
                    continue
                yield draft
                # An estimate for compressed files and JSON lines.
                inside = min(inside + len(text), file.bytes)
                progress(before + inside)
        except AttarError as fault:
            _report(fault, on_error)
        before += file.bytes
        progress(before)


def _files_of(path: Path) -> list[SourceFile]:
    if not path.is_dir():
        if not path.exists():
            raise FormatError(str(path), "a file or a folder", "nothing there", "check the path")
        return [SourceFile(path, "", path.stat().st_size)]
    files = sorted(file for file in path.rglob("*") if file.name.endswith(SOURCE_SUFFIXES) and file.is_file())
    if not files:
        expected = f"a folder with files that end in {', '.join(SOURCE_SUFFIXES)}"
        raise FormatError(str(path), expected, "none of these in it", "name files themselves")
    folders = (file.relative_to(path).parent.as_posix() for file in files)
    return [
        SourceFile(file, "" if folder == "." else folder, file.stat().st_size)
        for file, folder in zip(files, folders, strict=True)
    ]


def _read_file(file: SourceFile) -> Iterator[tuple[str, str]]:
    """Yield the names and texts of one file; a file with an unknown suffix is plain text."""
    path = file.path
    if not path.name.endswith(SOURCE_SUFFIXES):
        try:
            yield path.name, decode_text(path.read_bytes(), str(path))
        except OSError as fault:
            raise FormatError(str(path), "a file to read", fault.strerror or str(fault)) from fault
        return
    prefix = "" if not file.folder or path.name.endswith(_COLLECTIONS) else f"{file.folder}/"
    for document in read_sources([path]):
        yield prefix + document.name, document.text


def _report(fault: AttarError, on_error: OnError | None) -> None:
    if on_error is None:
        raise fault
    on_error(fault)
