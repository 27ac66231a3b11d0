"""A folder of `.question` files, hundreds of thousands of them, kept as one Parquet beside it once read."""

import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from attar.errors import FormatError
from attar.text.cloze.document import ClozeDocument
from attar.text.cloze.format_cnn import (
    QuestionFile,
    format_question,
    group_questions,
    parse_question,
    ungroup_questions,
)
from attar.text.cloze.parquet import DocumentWriter, read_documents, read_note
from attar.text.progress import Progress, tell_nobody

Skip = Callable[[FormatError], None]


def list_questions(folder: Path) -> tuple[list[str], str]:
    """Give a folder's `.question` files by name, and a fingerprint of their names, sizes and times."""
    found = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".question"):
                status = entry.stat()
                found.append((entry.name, status.st_size, status.st_mtime_ns))
    found.sort()
    return [row[0] for row in found], hashlib.sha256(repr(found).encode()).hexdigest()


def read_folder(
    folder: Path, *, skip: Skip | None = None, progress: Progress = tell_nobody, source: str = ""
) -> Iterator[ClozeDocument]:
    """Yield a folder's documents with all of their questions, from the Parquet beside it when that is fresh.

    A malformed file is refused with its name and line, or handed to `skip` and left out.
    """
    if not folder.is_dir():
        raise FormatError(str(folder), "a folder of .question files", "no such folder", "check the path")
    names, fingerprint = list_questions(folder)
    if not names:
        raise FormatError(str(folder), "a folder of .question files", "none in it")
    cache = folder.with_name(folder.name + ".parquet")
    note = f"{fingerprint} {'skip' if skip else 'refuse'}"
    if not _fresh(cache, note):
        documents = _group_folder(folder, names, source or folder.parent.parent.name, skip, progress)
        if not os.access(folder.parent, os.W_OK):
            yield from documents
            return
        with DocumentWriter(cache, note) as writer:
            for document in documents:
                writer.write(document)
    yield from read_documents(cache)


def _fresh(cache: Path, note: str) -> bool:
    try:
        return cache.exists() and read_note(cache) == note
    except FormatError:
        return False


def _group_folder(
    folder: Path, names: list[str], source: str, skip: Skip | None, progress: Progress
) -> Iterator[ClozeDocument]:
    """Read all files twice, to hold 32 bytes a document in between and not the documents themselves."""
    groups: dict[bytes, list[str]] = {}
    for done, name in enumerate(names):
        progress("grouping questions", done, len(names))
        try:
            file = _read(folder / name)
        except FormatError as fault:
            if skip is None:
                raise
            skip(fault)
            continue
        # Ids that mean different names make different documents, whatever their text.
        key = hashlib.sha256(f"{file.url}\n{file.document}\n{sorted(file.names)}".encode())
        groups.setdefault(key.digest(), []).append(name)
    for done, group in enumerate(groups.values()):
        progress("reading documents", done, len(groups))
        yield group_questions((_read(folder / name) for name in group), source)


def _read(path: Path) -> QuestionFile:
    try:
        return parse_question(path.read_bytes(), str(path))
    except OSError as fault:
        raise FormatError(str(path), "a .question file", fault.strerror or str(fault)) from fault


def write_folder(documents: Iterator[ClozeDocument], folder: Path) -> int:
    """Write documents as `.question` files, named by what they hold; give their number."""
    folder.mkdir(parents=True, exist_ok=True)
    number = 0
    for document in documents:
        for file in ungroup_questions(document):
            data = format_question(file)
            (folder / f"{hashlib.sha1(data, usedforsecurity=False).hexdigest()}.question").write_bytes(data)
            number += 1
    return number
