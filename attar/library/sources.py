"""Files, folders and streams as documents: each with a name and a text, or a line that says what is wrong."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from attar.errors import AttarError, FormatError
from attar.library.drafts import Draft
from attar.text import SOURCE_SUFFIXES, decode_text, read_sources

# What hears of a file that cannot be read, when the others are to be read all the same.
Bad = Callable[[AttarError], None]
# These are named by their own lines or members, and not by their place in a folder.
COLLECTIONS = (".jsonl", ".jsonl.xz", ".tar.xz")


class SourceFile(NamedTuple):
    """A file, the folder in its documents' names (empty where a file was named itself), and its bytes."""

    path: Path
    folder: str
    bytes: int


def find_files(paths: Iterable[str | Path], bad: Bad | None = None) -> list[SourceFile]:
    """The files that paths mean, in a fixed order: themselves, or the texts in a folder."""
    found: list[SourceFile] = []
    for path in map(Path, paths):
        try:
            found += files_of(path)
        except AttarError as fault:
            pass_on(fault, bad)
        except OSError as fault:
            pass_on(FormatError(str(path), "a file or a folder to read", fault.strerror or str(fault)), bad)
    return found


def files_of(path: Path) -> list[SourceFile]:
    """The files that one path means."""
    if not path.is_dir():
        if not path.exists():
            raise FormatError(str(path), "a file or a folder", "nothing there", "check the path")
        return [SourceFile(path, "", path.stat().st_size)]
    files = sorted(file for file in path.rglob("*") if file.name.endswith(SOURCE_SUFFIXES) and file.is_file())
    if not files:
        wanted = f"a folder with files that end in {', '.join(SOURCE_SUFFIXES)}"
        raise FormatError(str(path), wanted, "none of these in it", "name files themselves")
    places = (file.relative_to(path).parent.as_posix() for file in files)
    return [
        SourceFile(file, "" if place == "." else place, file.stat().st_size)
        for file, place in zip(files, places, strict=True)
    ]


def read_files(
    files: Sequence[SourceFile], bad: Bad | None = None, progress: Callable[[int], None] = lambda done: None
) -> Iterator[tuple[str, str]]:
    """Yield the names and texts of files; `progress` hears how many of their bytes are done."""
    before = 0
    for file in files:
        inside = 0
        try:
            for name, text in read_file(file):
                try:
                    Draft.of(name, text)
                except AttarError as fault:
                    pass_on(FormatError(str(file.path), "documents to add", str(fault)), bad)
                    continue
                yield name, text
                # Of a compressed file, or of lines of JSON, it is not known exactly.
                inside = min(inside + len(text), file.bytes)
                progress(before + inside)
        except AttarError as fault:
            pass_on(fault, bad)
        before += file.bytes
        progress(before)


def read_file(file: SourceFile) -> Iterator[tuple[str, str]]:
    """Yield the names and texts of one file; what ends in no known way is plain text."""
    path = file.path
    if not path.name.endswith(SOURCE_SUFFIXES):
        try:
            yield path.name, decode_text(path.read_bytes(), str(path))
        except OSError as fault:
            raise FormatError(str(path), "a file to read", fault.strerror or str(fault)) from fault
        return
    alone = file.folder == "" or path.name.endswith(COLLECTIONS)
    for document in read_sources([path]):
        yield document.name if alone else f"{file.folder}/{document.name}", document.text


def pass_on(fault: AttarError, bad: Bad | None) -> None:
    """Raise what is wrong unless somebody hears of it."""
    if bad is None:
        raise fault
    bad(fault)
