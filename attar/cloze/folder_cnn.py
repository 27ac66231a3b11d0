"""A folder of `.question` files, hundreds of thousands of them, kept as one Parquet beside it once read."""

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from attar.cloze.document import ClozeDocument
from attar.cloze.format_cnn import (
    QuestionFile,
    format_question,
    group_questions,
    parse_question,
    ungroup_questions,
)
from attar.cloze.parquet import DocumentWriter, read_documents, read_note
from attar.errors import FormatError
from attar.progress import Progress, tell_nobody
from attar.text import encodable

Skip = Callable[[FormatError], None]
# Another one after the rules of what is malformed changed: what was kept by earlier ones is made again.
_RULES = 2


def list_questions(folder: Path) -> tuple[list[str], str]:
    """Give a folder's `.question` files by name, and a fingerprint of their names, sizes and times."""
    with os.scandir(folder) as entries:
        found = sorted(
            (entry.name, *_size_and_time(entry)) for entry in entries if entry.name.endswith(".question")
        )
    return [row[0] for row in found], hashlib.sha256(f"{_RULES} {found!r}".encode()).hexdigest()


def _size_and_time(entry: "os.DirEntry[str]") -> tuple[int, int]:
    try:
        status = entry.stat()
    except OSError:  # a link to nothing: reading it says so, with its name
        return 0, 0
    return status.st_size, status.st_mtime_ns


def read_folder(
    folder: Path, *, skip: Skip | None = None, progress: Progress = tell_nobody, source: str = ""
) -> Iterator[ClozeDocument]:
    """Yield a folder's documents with all of their questions, from the Parquet beside it when that is fresh.

    A malformed file is refused with its name and line, or handed to `skip` and left out, every time.
    """
    if not folder.is_dir():
        raise FormatError(str(folder), "a folder of .question files", "no such folder", "check the path")
    names, fingerprint = list_questions(folder)
    if not names:
        raise FormatError(str(folder), "a folder of .question files", "none in it")
    source = encodable(source or folder.parent.parent.name)
    if not _tell_left_out(folder, fingerprint, skip):
        groups, left_out = _group_folder(folder, names, skip, progress)
        note = json.dumps({"fingerprint": fingerprint, "left_out": left_out})
        if not _keep(_read_groups(folder, groups, source, progress), _kept_beside(folder), note):
            yield from _read_groups(folder, groups, source, progress)
            return
    for document in read_documents(_kept_beside(folder)):
        # The set may have been opened by another path, or moved, since.
        yield replace(document, source=source)


def tell_left_out(folder: Path, skip: Skip) -> bool:
    """Hand the malformed files to `skip` that the Parquet was made without; False if there is no fresh one."""
    return _tell_left_out(folder, list_questions(folder)[1], skip)


def _tell_left_out(folder: Path, fingerprint: str, skip: Skip | None) -> bool:
    """Refuse the malformed files that the Parquet was made without, or hand them to `skip`."""
    try:
        note = json.loads(read_note(_kept_beside(folder)))
        if note["fingerprint"] != fingerprint:
            return False
        left_out = list(note["left_out"])
    except (FormatError, ValueError, KeyError, TypeError):
        return False  # none there, a cut one, or one of an earlier version
    faults = [_fault_of(folder / name) for name in left_out]
    if None in faults:
        return False  # one that could not be read then, and can be now
    for fault in filter(None, faults):
        _leave_out(fault, skip)
    return True


def _fault_of(path: Path) -> FormatError | None:
    try:
        _read(path)
    except FormatError as fault:
        return fault
    return None


def _leave_out(fault: FormatError, skip: Skip | None) -> None:
    if skip is None:
        raise fault
    skip(fault)


def _kept_beside(folder: Path) -> Path:
    return folder.with_name(folder.name + ".parquet")


def _keep(documents: Iterator[ClozeDocument], path: Path, note: str) -> bool:
    """Write documents to a Parquet; False where none can be written."""
    if not os.access(path.parent, os.W_OK):
        return False
    try:
        with DocumentWriter(path, note) as writer:
            for document in documents:
                writer.write(document)
    except OSError:  # a full disk
        return False
    return True


def _group_folder(
    folder: Path, names: list[str], skip: Skip | None, progress: Progress
) -> tuple[list[list[str]], list[str]]:
    """Give the files on each document, and those left out; 32 bytes a document are held, not its text."""
    groups: dict[bytes, list[str]] = {}
    left_out: list[str] = []
    for done, name in enumerate(names):
        progress("grouping questions", done, len(names))
        try:
            file = _read(folder / name)
        except FormatError as fault:
            _leave_out(fault, skip)
            left_out.append(name)
            continue
        # Ids that mean different names make different documents, whatever their text.
        key = hashlib.sha256(f"{file.url}\n{file.document}\n{sorted(file.names)}".encode())
        groups.setdefault(key.digest(), []).append(name)
    return list(groups.values()), left_out


def _read_groups(
    folder: Path, groups: list[list[str]], source: str, progress: Progress
) -> Iterator[ClozeDocument]:
    for done, group in enumerate(groups):
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
