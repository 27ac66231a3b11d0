"""The CNN and Daily Mail format: folders of `.question` files, one question per file, cached as Parquet."""

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from attar.cloze.documents import (
    ENTITY_NUMBER,
    ClozeDocument,
    DocumentWriter,
    Question,
    entity_number,
    read_documents,
    read_note,
)
from attar.documents.extracted import replace_surrogates
from attar.errors import FormatError
from attar.progress import Progress, ignore_progress
from attar.text.tokens import LONGEST_SENTENCE, PLACEHOLDER

_BLOCKS = ("url", "document", "question", "answer", "names")
_NAME = re.compile(rf"@entity({ENTITY_NUMBER}):(.*)")
_NAME_LINE = "@entityN:Name, N from 0 to 9999 without leading zeros"
_ENDS = frozenset((".", "!", "?"))
_CLOSERS = frozenset(('"', "'", "''", ")", "]"))
# To be increased when the rules for malformed files change: caches made under older rules are not used.
_RULES = 2
# Called with the error of each malformed file that is skipped.
OnMalformed = Callable[[FormatError], None]


@dataclass(frozen=True, slots=True)
class QuestionFile:
    """The blocks of a `.question` file, and the newlines after them."""

    url: str
    document: str
    question: str
    answer: str
    names: tuple[tuple[int, str], ...]
    ending: str = ""


def parse_question(data: bytes, where: str) -> QuestionFile:
    r"""Parse a `.question` file of five blocks; errors name the line.

    >>> parse_question(b"u\n\n@entity1 left .\n\n@placeholder left\n\n@entity1\n\n@entity1:Ann", "a").names
    ((1, 'Ann'),)
    """

    def malformed(line: int, expected: str, got: str) -> FormatError:
        return FormatError.expected(f"{where}, line {line}", expected, got)

    try:
        text = data.decode()
    except UnicodeDecodeError as fault:
        line = data.count(b"\n", 0, fault.start) + 1
        raise malformed(line, "UTF-8 text", f"the byte 0x{data[fault.start]:02x}") from fault
    body = text.rstrip("\n")
    blocks = body.split("\n\n")
    lines = [1]
    for block in blocks:
        lines.append(lines[-1] + block.count("\n") + 2)
    if len(blocks) != len(_BLOCKS):
        line = min(lines[min(len(blocks), len(_BLOCKS))], body.count("\n") + 1)
        expected = f"five blocks separated by blank lines ({', '.join(_BLOCKS)})"
        raise malformed(line, expected, f"{len(blocks) if body else 0} blocks")
    url, document, question, answer, _ = blocks
    for line, kind, block in zip(lines, _BLOCKS[:4], blocks, strict=False):
        if not block.strip() or "\n" in block:
            raise malformed(line, f"the {kind} on one line", repr(block[:40]))
    if question.split().count(PLACEHOLDER) != 1:
        raise malformed(lines[2], f"a question with one {PLACEHOLDER}", repr(question[:60]))
    names: list[tuple[int, str]] = []
    by_number: dict[int, str] = {}
    for line, row in enumerate(blocks[4].split("\n"), lines[4]):
        match = _NAME.fullmatch(row)
        if not match:
            raise malformed(line, _NAME_LINE, repr(row[:40]))
        number, name = int(match[1]), match[2]
        other = by_number.setdefault(number, name)
        if other != name:
            raise malformed(line, f"one name for @entity{number}", f"{name[:40]!r} after {other[:40]!r}")
        names.append((number, name))
    if entity_number(answer) not in by_number:
        raise malformed(lines[3], "an answer among the names below it", repr(answer[:40]))
    if answer not in document.split():  # no reader can choose it
        raise malformed(lines[3], "an answer that is in the document", repr(answer[:40]))
    return QuestionFile(url, document, question, answer, tuple(names), text[len(body) :])


def _split_tokens(tokens: Sequence[str]) -> list[list[str]]:
    """Cut a document's tokens into sentences: the format has them on one line.

    >>> _split_tokens("he left . ' why ? ' nobody knew".split())
    [['he', 'left', '.'], ["'", 'why', '?', "'"], ['nobody', 'knew']]
    """
    sentences: list[list[str]] = []
    sentence: list[str] = []
    quoted = False
    for at, token in enumerate(tokens):
        sentence.append(token)
        quoted ^= token in ('"', "'")
        ended = token in _ENDS or (token in _CLOSERS and len(sentence) > 1 and sentence[-2] in _ENDS)
        closing = quoted and at + 1 < len(tokens) and tokens[at + 1] in _CLOSERS
        if (ended and not closing) or len(sentence) >= LONGEST_SENTENCE:
            sentences.append(sentence)
            sentence = []
    return [*sentences, sentence] if sentence else sentences


def group_questions(files: Iterable[QuestionFile], source: str) -> ClozeDocument:
    """Make one document of all files with questions on it."""
    files = list(files)
    names: dict[int, str] = {}
    for file in files:
        names.update(file.names)
    questions = [Question(tuple(file.question.split()), int(file.answer[len("@entity") :])) for file in files]
    return ClozeDocument(files[0].url, source, _split_tokens(files[0].document.split()), names, questions)


def list_questions(folder: Path) -> tuple[list[str], str]:
    """Return the names of a folder's `.question` files, and a fingerprint of their names, sizes and times."""
    with os.scandir(folder) as entries:
        rows = sorted(
            (entry.name, *_size_and_time(entry)) for entry in entries if entry.name.endswith(".question")
        )
    return [row[0] for row in rows], hashlib.sha256(f"{_RULES} {rows!r}".encode()).hexdigest()


def _size_and_time(entry: "os.DirEntry[str]") -> tuple[int, int]:
    try:
        status = entry.stat()
    except OSError:  # a broken link: reading it reports its name
        return 0, 0
    return status.st_size, status.st_mtime_ns


def read_folder(
    folder: Path,
    *,
    on_malformed: OnMalformed | None = None,
    progress: Progress = ignore_progress,
    source: str = "",
) -> Iterator[ClozeDocument]:
    """Yield a folder's documents with all of their questions, from the Parquet cache if it is up to date.

    A malformed file is refused with its name and line, or passed to `on_malformed` and skipped, every time.
    """
    if not folder.is_dir():
        raise FormatError.expected(
            str(folder), "a folder of .question files", "no such folder", "check the path"
        )
    names, fingerprint = list_questions(folder)
    if not names:
        raise FormatError.expected(str(folder), "a folder of .question files", "none in it")
    source = replace_surrogates(source or folder.parent.parent.name)
    if not report_malformed(folder, on_malformed, fingerprint):
        groups, skipped = _group_folder(folder, names, on_malformed, progress)
        note = json.dumps({"fingerprint": fingerprint, "left_out": skipped})
        if not _write_cache(_read_groups(folder, groups, source, progress), _cache_of(folder), note):
            yield from _read_groups(folder, groups, source, progress)
            return
    for document in read_documents(_cache_of(folder)):
        # The set may have been moved, or opened by another path, since.
        yield replace(document, source=source)


def report_malformed(folder: Path, on_malformed: OnMalformed | None, fingerprint: str = "") -> bool:
    """Refuse the malformed files that the cache was made without, or pass them to `on_malformed`.

    Returns False if no cache is up to date.
    """
    faults = []
    try:
        note = json.loads(read_note(_cache_of(folder)))
        if note["fingerprint"] != (fingerprint or list_questions(folder)[1]):
            return False
        skipped = list(note["left_out"])
    except (FormatError, ValueError, KeyError, TypeError):
        return False  # no cache, an incomplete one, or one of an earlier version
    for name in skipped:
        try:
            _read(folder / name)
            return False  # a file that could not be read then can be read now
        except FormatError as fault:
            faults.append(fault)
    for each in faults:
        skip(each, on_malformed)
    return True


def skip(fault: FormatError, on_malformed: OnMalformed | None) -> None:
    """Refuse a malformed file, or pass its error to `on_malformed`."""
    if on_malformed is None:
        raise fault
    on_malformed(fault)


def _cache_of(folder: Path) -> Path:
    return folder.with_name(folder.name + ".parquet")


def _write_cache(documents: Iterator[ClozeDocument], path: Path, note: str) -> bool:
    """Write documents to the cache; False if it cannot be written."""
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
    folder: Path, names: list[str], on_malformed: OnMalformed | None, progress: Progress
) -> tuple[list[list[str]], list[str]]:
    """Group files by document, and list the malformed ones; memory holds 32 bytes per document, not its text."""
    groups: dict[bytes, list[str]] = {}
    skipped: list[str] = []
    for done, name in enumerate(names):
        progress("grouping questions", done, len(names))
        try:
            file = _read(folder / name)
        except FormatError as fault:
            skip(fault, on_malformed)
            skipped.append(name)
            continue
        # Equal texts whose ids mean different names are different documents.
        key = hashlib.sha256(f"{file.url}\n{file.document}\n{sorted(file.names)}".encode())
        groups.setdefault(key.digest(), []).append(name)
    return list(groups.values()), skipped


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
        raise FormatError.expected(str(path), "a .question file", fault.strerror or str(fault)) from fault
