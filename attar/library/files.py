"""Files as documents to be added, and the documents whose files are gone."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from attar.errors import AttarError, FormatError
from attar.library.drafts import Draft
from attar.store.records import Fault
from attar.store.store import Store

if TYPE_CHECKING:
    from attar.documents.extracted import OnBad
    from attar.documents.sources import SourceFile
    from attar.documents.workers import FileReader


class ReadFile(NamedTuple):
    """A file that was read in full: the name that its only document would have, and the names of its documents."""

    name: str
    documents: set[str]


def read_files(
    files: "Sequence[SourceFile]",
    on_bad: "OnBad | None" = None,
    progress: Callable[[int], None] = lambda done: None,
    read: dict[str, ReadFile] | None = None,
    *,
    reader: "FileReader | None" = None,
) -> Iterator[Draft]:
    """Yield the documents of files; `progress` is called with the number of bytes that are read.

    A file that cannot be read raises, or `on_bad` is called with its error and the others are read. `read` gets the
    files that were read, by their paths, for `gone_documents`. `reader` has the limits of what reading a file may cost.
    """
    # Imported here: whoever adds no files does not wait for what reads them.
    from attar.documents.workers import FileReader

    if reader is None:
        with FileReader() as reader:
            yield from read_files(files, on_bad, progress, read, reader=reader)
        return
    before = 0
    for file in files:
        inside, names, faults = 0, set[str](), list[AttarError]()
        source = os.path.abspath(file.path)

        def report(fault: AttarError, faults: list[AttarError] = faults) -> None:
            faults.append(fault)
            if on_bad is None:
                raise fault
            on_bad(fault)

        for document in reader.read(file, report):
            try:
                draft = Draft.of_source(document, source)
            except AttarError as fault:
                report(FormatError(f"{file.path}: {fault}"))
                continue
            names.add(draft.name)
            yield draft
            # An estimate for compressed files and JSON lines.
            inside = min(inside + len(document.text), file.bytes)
            progress(before + inside)
        if read is not None and not faults:
            read[source] = ReadFile(file.name, names)
        before += file.bytes
        progress(before)


def read_upload(files: "FileReader", name: str, data: bytes) -> Iterator[Draft]:
    """Yield the documents of a file that was sent; they have no file of their own."""
    return map(Draft.of_source, files.read_bytes(name, data))


def gone_documents(store: Store, folders: Iterable[Path], read: dict[str, ReadFile]) -> list[str]:
    """The names of documents that came from folders and are not there any more, in files that `read_files` has read."""
    places = [Path(os.path.abspath(folder)) for folder in folders]
    gone = []
    for entry in store.documents():
        if isinstance(entry, Fault) or not entry.source:
            continue
        if any(Path(entry.source).is_relative_to(place) for place in places):
            file = read.get(entry.source)
            if _is_missing(entry.source) if file is None else _is_gone(entry.name, file):
                gone.append(entry.name)
    return gone


def _is_missing(path: str) -> bool:
    """Whether there is no file. One in a folder that may not be read is not missing: its document must stay."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
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
