"""Question sets: SQuAD's JSON, or JSON lines with one passage each, compressed or not; texts without questions."""

import gzip
import hashlib
import io
import json
import lzma
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from attar.documents.workers import read_sources
from attar.errors import FormatError
from attar.files import MAX_DECOMPRESSED

_EXPECTED = "questions in SQuAD's JSON (.json) or a passage per line (.jsonl), plain, .xz or .gz"
# The characters of a paragraph that questions are generated for.
_PARAGRAPH = range(200, 2_000)
# Passages that share this many words in a row are the same text.
_RUN = 13
# A passage with at least this many more questions than marked answers, and this many questions: the last have none.
_SURPLUS, _MANY = 3, 7


@dataclass(frozen=True)
class Question:
    """A question and the spans of its passage that answer it, in characters; `labelled` is false if unknown."""

    text: str
    answers: tuple[tuple[int, int], ...] = ()
    labelled: bool = True


@dataclass(frozen=True)
class Passage:
    """A passage, its questions, and the article it belongs to; `spans` are answers to unknown questions of it."""

    text: str
    article: str
    questions: tuple[Question, ...] = ()
    spans: tuple[tuple[int, int], ...] = ()
    twin: str = ""  # another article that has the passage in other words


def read_passages(path: str | Path, max_bytes: int = MAX_DECOMPRESSED) -> list[Passage]:
    """The passages of a file: `.json` is SQuAD's format, `.jsonl` has a passage per line; `.xz` and `.gz` too.

    A compressed file of more than `max_bytes` is refused.
    """
    path = Path(path)
    try:
        with _open(path, max_bytes) as file:
            passages = list(_read_lines(path, file) if ".jsonl" in path.name else _read_squad(path, file))
    except (lzma.LZMAError, gzip.BadGzipFile, EOFError, UnicodeDecodeError) as fault:
        raise FormatError.expected(str(path), _EXPECTED, str(fault) or "an incomplete file") from fault
    except OSError as fault:
        raise FormatError.expected(
            str(path), _EXPECTED, fault.strerror or str(fault), "check the path"
        ) from fault
    if not any(passage.questions for passage in passages):
        raise FormatError.expected(str(path), "a file with questions", "one without any")
    return passages


def _open(path: Path, max_bytes: int) -> IO[str]:
    if path.suffix not in _DECOMPRESS:
        return path.open(encoding="utf-8")
    unpacked = _Decompressed(path, max_bytes)
    return io.TextIOWrapper(io.BufferedReader(unpacked), encoding="utf-8")


_DECOMPRESS: dict[str, Callable[[Path], Any]] = {".xz": lzma.LZMAFile, ".gz": gzip.GzipFile}


class _Decompressed(io.RawIOBase):
    """The content of a compressed file, up to a limit: a few kilobytes may decompress to gigabytes."""

    def __init__(self, path: Path, max_bytes: int) -> None:
        self._file, self._path, self._most, self._read = _DECOMPRESS[path.suffix](path), path, max_bytes, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        part = self._file.read(len(buffer))
        self._read += len(part)
        if self._read > self._most:
            expected = f"at most {self._most:,} bytes when decompressed"
            raise FormatError.expected(str(self._path), expected, "more", "decompress it first")
        buffer[: len(part)] = part
        return len(part)

    def close(self) -> None:
        self._file.close()
        super().close()


def _read_squad(path: Path, file: IO[str]) -> Iterator[Passage]:
    try:
        content = json.load(file)
    except (UnicodeDecodeError, FormatError):
        raise
    except (ValueError, RecursionError) as fault:
        # json names line and column.
        raise FormatError.expected(str(path), _EXPECTED, f"something else ({fault})") from fault
    where = str(path)
    try:
        for at, article in enumerate(content["data"]):
            title = str(article.get("title") or at)
            for number, paragraph in enumerate(article["paragraphs"]):
                where = f"{path}, article {title!r}, paragraph {number + 1}"
                yield Passage(
                    paragraph["context"], title, _questions(paragraph, "qas", "answer_start", where)
                )
    except (KeyError, TypeError, AttributeError) as fault:
        raise FormatError.expected(where, "SQuAD's fields", _missing(fault)) from fault


def _read_lines(path: Path, file: IO[str]) -> Iterator[Passage]:
    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as fault:
            raise FormatError.expected(where, "a JSON object", f"something else ({fault})") from fault
        try:
            yield _passage(row, path, where)
        except (KeyError, TypeError, AttributeError) as fault:
            raise FormatError.expected(
                where, "a passage with `context` and `questions`", _missing(fault)
            ) from fault


def _passage(row: dict[str, Any], path: Path, where: str) -> Passage:
    if "spans" in row:  # which span answers which question is unknown
        texts = [_string(text, where) for text in row["questions"]]
        answers = len({span.get("colour", at) for at, span in enumerate(row["spans"])})
        answered = _answered(len(texts), answers)
        questions = tuple(Question(text, labelled=at >= answered) for at, text in enumerate(texts))
        spans = tuple((int(span["start"]), int(span["end"])) for span in row["spans"])
        return Passage(_string(row["context"], where), f"{path.name}/{row['document']}", questions, spans)
    text = _string(row["context"], where)
    return Passage(text, row.get("title") or text[:40], _questions(row, "questions", "start", where))


def _answered(questions: int, answers: int) -> int:
    """How many of a passage's questions, the first ones, may have an answer.

    SQuAD 2.0 lists those without one last. A few answers may be lost; more are not, if there are many questions.

    >>> _answered(10, 6), _answered(10, 8), _answered(5, 2)
    (6, 10, 5)
    """
    surplus = questions - answers
    return answers if surplus >= _SURPLUS and questions >= _MANY else questions


def _questions(row: dict[str, Any], name: str, start: str, where: str) -> tuple[Question, ...]:
    text = _string(row["context"], where)
    questions = []
    for each in row[name]:
        spans = []
        for answer in each["answers"]:
            first, words = int(answer[start]), _string(answer["text"], where)
            if first < 0 or first + len(words) > len(text) or not words:
                came = f"{words!r} at {first}"
                raise FormatError.expected(where, "answers that are characters of the passage", came)
            spans.append((first, first + len(words)))
        questions.append(Question(_string(each["question"], where), tuple(spans)))
    return tuple(questions)


def _string(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise FormatError.expected(where, "a string", type(value).__name__)
    return value


def _missing(fault: Exception) -> str:
    return f"none named {fault}" if isinstance(fault, KeyError) else f"other types ({fault})"


def read_paragraphs(path: str | Path) -> list[Passage]:
    """The paragraphs of texts without questions: `.txt` or `.jsonl` with `text`, blank lines between paragraphs."""
    return [
        Passage(text, f"{document.name}/{text[:40]}")
        for document in read_sources([path])
        for text in document.text.split("\n\n")
        if len(text) in _PARAGRAPH
    ]


def without_overlap(passages: Iterable[Passage], test: Sequence[Passage]) -> list[Passage]:
    """The passages that share no 13 words in a row with a test set."""
    seen: set[int] = set().union(*(_runs(passage.text) for passage in test))
    return [passage for passage in passages if seen.isdisjoint(_runs(passage.text))]


def _runs(text: str) -> set[int]:
    words = text.lower().split()
    return {hash(tuple(words[at : at + _RUN])) for at in range(len(words) - _RUN + 1)}


def hold_out(passages: Sequence[Passage], share: float = 0.05) -> tuple[list[Passage], list[Passage]]:
    """Split by article into training and held-out passages.

    About a `share` is held out; with two articles or fewer, none.

    Articles with the same passages under other names, or in other words (`Passage.twin`), go together. Which are
    chosen depends on their names alone.
    """
    groups = sorted(_same_articles(passages), key=_place)
    sizes = Counter(passage.article for passage in passages)
    left, chosen = share * len(passages), set[str]()
    for group in groups if len(groups) > 2 else []:
        size = sum(sizes[article] for article in group)
        if size <= left or not chosen:
            chosen |= group
            left -= size
    training = [passage for passage in passages if passage.article not in chosen]
    return training, [passage for passage in passages if passage.article in chosen]


def _same_articles(passages: Sequence[Passage]) -> list[frozenset[str]]:
    """The names of articles, those together that share 13 words in a row."""
    group_of: dict[str, set[str]] = {}
    first: dict[int, str] = {}
    for passage in passages:
        group = group_of.setdefault(passage.article, {passage.article})
        same = {first.setdefault(run, passage.article) for run in _runs(passage.text)}
        for name in same | ({passage.twin} if passage.twin else set()):
            other = group_of.setdefault(name, {name})
            if other is not group:
                small, group = sorted((other, group), key=len)
                group |= small
                group_of.update(dict.fromkeys(small, group))
    return list({id(group): frozenset(group) for group in group_of.values()}.values())


def _place(group: frozenset[str]) -> str:
    return hashlib.sha256(min(group).encode("utf-8", "surrogatepass")).hexdigest()
