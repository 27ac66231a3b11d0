"""Files and folders as documents: each with a name and a text, or an error that names the file."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from attar.errors import AttarError, FormatError
from attar.files import MAX_DECOMPRESSED
from attar.library.adding import Draft
from attar.text import SourceFile, find_source_files, read_source_file

# Called with the error of a file that cannot be read, when the others are to be read nevertheless.
OnError = Callable[[AttarError], None]


def find_files(paths: Iterable[str | Path], on_error: OnError | None = None) -> list[SourceFile]:
    """The files of paths, in a fixed order: the files themselves, and the texts in folders."""
    files: list[SourceFile] = []
    for path in paths:
        try:
            files += find_source_files(Path(path))
        except AttarError as fault:
            _report(fault, on_error)
    return files


def read_files(
    files: Sequence[SourceFile],
    on_error: OnError | None = None,
    progress: Callable[[int], None] = lambda done: None,
    max_bytes: int = MAX_DECOMPRESSED,
) -> Iterator[Draft]:
    """Yield the checked documents of files; `progress` is called with the number of bytes that are read.

    A compressed text of more than `max_bytes` is refused.
    """
    before = 0
    for file in files:
        inside = 0
        try:
            for document in read_source_file(file, max_bytes):
                try:
                    draft = Draft.of(document.name, document.text)
                except AttarError as fault:
                    _report(FormatError(str(file.path), "documents to add", str(fault)), on_error)
                    continue
                yield draft
                # An estimate for compressed files and JSON lines.
                inside = min(inside + len(document.text), file.bytes)
                progress(before + inside)
        except AttarError as fault:
            _report(fault, on_error)
        before += file.bytes
        progress(before)


def _report(fault: AttarError, on_error: OnError | None) -> None:
    if on_error is None:
        raise fault
    on_error(fault)
