"""Files as documents to be added, and the documents whose files are gone."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from attar.documents import OnBad, SourceFile, read_bytes, read_source_file
from attar.errors import AttarError, FormatError
from attar.files import MAX_DECOMPRESSED
from attar.library.drafts import Draft
from attar.store import Fault, Origin, Store

# By the path of each file that was read in full: its name, and those of its documents.
ReadNames = dict[str, tuple[str, set[str]]]


def read_files(
    files: Sequence[SourceFile],
    on_bad: OnBad | None = None,
    progress: Callable[[int], None] = lambda done: None,
    max_bytes: int = MAX_DECOMPRESSED,
    read: ReadNames | None = None,
) -> Iterator[Draft]:
    """Yield the checked documents of files; `progress` is called with the number of bytes that are read.

    A file that cannot be read raises, or `on_bad` is called with its error and the others are read. A compressed text
    of more than `max_bytes` is refused. `read` gets the names of what was read, for `gone_documents`.
    """
    before = 0
    for file in files:
        inside, names, faults = 0, set[str](), list[AttarError]()
        source = os.path.abspath(file.path)

        def report(fault: AttarError, faults: list[AttarError] = faults) -> None:
            faults.append(fault)
            if on_bad is None:
                raise fault
            on_bad(fault)

        for document in read_source_file(file, max_bytes, report):
            try:
                origin = Origin(source, document.date, document.parts)
                draft = Draft.of(document.name, document.text, document.title, origin)
            except AttarError as fault:
                report(FormatError(str(file.path), "documents to add", str(fault)))
                continue
            names.add(draft.name)
            yield draft
            # An estimate for compressed files and JSON lines.
            inside = min(inside + len(document.text), file.bytes)
            progress(before + inside)
        if read is not None and not faults:
            read[source] = file.name, names
        before += file.bytes
        progress(before)


def read_upload(name: str, data: bytes, max_bytes: int = MAX_DECOMPRESSED) -> list[Draft]:
    """The checked documents of a file that was sent; they have no file of their own."""
    return [
        Draft.of(document.name, document.text, document.title, Origin("", document.date, document.parts))
        for document in read_bytes(name, data, max_bytes)
    ]


def gone_documents(store: Store, folders: Iterable[Path], read: ReadNames) -> list[str]:
    """The names of documents that came from folders and are not there any more, in files that `read_files` has read."""
    places = [Path(os.path.abspath(folder)) for folder in folders]
    gone = []
    for entry in store.documents():
        if isinstance(entry, Fault) or not entry.source:
            continue
        if any(Path(entry.source).is_relative_to(place) for place in places):
            if entry.source in read:
                is_gone = _is_gone(entry.name, *read[entry.source])
            else:
                is_gone = not os.path.lexists(entry.source)
            gone += [entry.name] if is_gone else []
    return gone


def _is_gone(name: str, file: str, names: set[str]) -> bool:
    """Whether a document of a file that is still there is not among those that it has now.

    The same file has another name if another folder was given: its documents are not gone.

    >>> _is_gone("d-2", "sub/d", {"d-1"}), _is_gone("sub/b", "b", {"b"}), _is_gone("x.zip/b", "x.zip", {"x.zip/a"})
    (True, False, True)
    """
    if name in names or file in names:
        return False
    return name.startswith(file + "/") or not any(each.startswith(file + "/") for each in names)
