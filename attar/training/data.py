"""What a reader is trained with: the options of a run, and question sets (SQuAD's JSON, or a passage per line)."""

import gzip
import hashlib
import lzma
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import msgspec
from msgspec import Struct

from attar.errors import FormatError, OptionError, quoted
from attar.files import MAX_DECOMPRESSED
from attar.options import check_ranges, option

# Passages that share this many words in a row are the same text.
_RUN = 13
# The last questions of a passage have no answer if it has at least this many more questions than marked answers,
_SURPLUS = 3
# and at least this many questions.
_MANY = 7
# Bytes decompressed at a time.
_PART = 2**16
_DECOMPRESS: dict[str, Callable[[Path], Any]] = {".xz": lzma.LZMAFile, ".gz": gzip.GzipFile}
_Row = TypeVar("_Row")


@dataclass(frozen=True)
class RunOptions:
    """What every run is begun with. A person's own questions are few: small steps."""

    paths: ClassVar[tuple[str, ...]] = ("init",)
    data: tuple[str, ...]
    out: str = option(MISSING, "Folder to write.", "-o")
    init: str = option(MISSING, "Reader to train on: a folder, or answers.")
    epochs: int = option(3, "Epochs.", min=1)
    lr: float = option(5e-5, "Peak learning rate of AdamW.", min=0)
    batch_tokens: int = option(3_000, "Word pieces per step, with padding.", min=1)
    seed: int = option(1, "Random seed.", min=0, max=2**31 - 1)

    def __post_init__(self) -> None:
        object.__setattr__(self, "data", tuple(map(str, self.data)))
        check_ranges(self)
        if not self.data:
            raise OptionError("there are no files of questions", "give at least one")

    @property
    def folder(self) -> Path:
        return Path(self.out)

    @property
    def files(self) -> tuple[str, ...]:
        """The files that the result depends on."""
        return self.data

    def described(self) -> dict[str, Any]:
        """The options that determine the result, with names instead of paths."""
        options = {name: value for name, value in vars(self).items() if name != "out"}
        names = {name: Path(options[name]).name for name in self.paths}
        return options | names | {"data": [Path(path).name for path in self.data]}


@dataclass(frozen=True)
class QuestionOptions(RunOptions):
    """One run of `attar train-questions`."""

    calibrate_only: bool = option(
        False, "Train nothing: write the reader of --init with probabilities calibrated by these questions."
    )


@dataclass(frozen=True)
class PassageQuestion:
    """A question and the spans of its passage that answer it, in characters; `labelled` is false if unknown.

    A `changed` one was made of another question of the passage (`attar.training.variants`).
    """

    text: str
    answers: tuple[tuple[int, int], ...] = ()
    labelled: bool = True
    changed: bool = False


@dataclass(frozen=True)
class Passage:
    """A passage, its questions, the article or folder that it belongs to, and its name as a document, if it has one.

    `spans` are answers to some of its questions: which span answers which question is not known.
    """

    text: str
    article: str
    questions: tuple[PassageQuestion, ...] = ()
    spans: tuple[tuple[int, int], ...] = ()
    name: str = ""


class _Answer(Struct):
    text: str
    start: int


class _LineQuestion(Struct):
    question: str
    answers: list[_Answer]


class _Span(Struct):
    start: int
    end: int
    colour: Any = None  # parts of one answer have the same


class _Line(Struct):
    """A passage per line: each question with its answers, or only their texts, and `spans` that answer some."""

    context: str
    questions: list[_LineQuestion | str]
    title: str | None = None
    spans: list[_Span] | None = None
    document: int | str = ""


class _SquadAnswer(Struct):
    text: str
    start: int = msgspec.field(name="answer_start")


class _SquadQuestion(Struct):
    question: str
    answers: list[_SquadAnswer]


class _SquadParagraph(Struct):
    context: str
    qas: list[_SquadQuestion]


class _SquadArticle(Struct):
    paragraphs: list[_SquadParagraph]
    title: str | None = None


class _Squad(Struct):
    data: list[_SquadArticle]


def read_passages(path: str | Path, max_bytes: int = MAX_DECOMPRESSED) -> list[Passage]:
    """The passages of a file: `.json` is SQuAD's format, `.jsonl` has a passage per line; `.xz` and `.gz` too.

    A compressed file of more than `max_bytes` is refused.
    """
    path = Path(path)
    content = _read(path, max_bytes)
    passages = list(_lines(content, path) if ".jsonl" in path.name else _squad(content, path))
    if not any(passage.questions for passage in passages):
        raise FormatError(f"{path} has no questions")
    return passages


def _read(path: Path, max_bytes: int) -> bytes:
    """The content of a file; a few compressed kilobytes may be gigabytes."""
    try:
        if path.suffix not in _DECOMPRESS:
            return path.read_bytes()
        parts, left = list[bytes](), max_bytes
        with _DECOMPRESS[path.suffix](path) as file:
            while left >= 0 and (part := file.read(_PART)):
                parts.append(part)
                left -= len(part)
    except (OSError, lzma.LZMAError, EOFError) as fault:
        reason = getattr(fault, "strerror", None) or str(fault) or "it is incomplete"
        raise FormatError(f"{path} cannot be read: {reason}", "check the path and the file") from fault
    if left < 0:
        expected = f"at most {max_bytes:,} bytes when decompressed"
        raise FormatError.expected(str(path), expected, "more", "decompress it first")
    return b"".join(parts)


def _squad(content: bytes, path: Path) -> Iterator[Passage]:
    for number, article in enumerate(_decoded(content, _Squad, str(path)).data):
        title = article.title or str(number)
        for place, paragraph in enumerate(article.paragraphs, 1):
            where = f"{path}, article {title!r}, paragraph {place}"
            questions = (_question(asked, paragraph.context, where) for asked in paragraph.qas)
            yield Passage(paragraph.context, title, tuple(questions))


def _lines(content: bytes, path: Path) -> Iterator[Passage]:
    for number, line in enumerate(content.split(b"\n"), 1):
        where = f"{path}, line {number}"
        if not line.strip():
            continue
        row = _decoded(line, _Line, where)
        if row.spans is None:
            questions = tuple(_question(asked, row.context, where) for asked in row.questions)
            article = row.title or row.context[:40]
            yield Passage(row.context, article, questions, name=str(row.document))
        else:
            yield _marked(row, row.spans, path)


def _marked(row: _Line, spans: Sequence[_Span], path: Path) -> Passage:
    colours = {at if span.colour is None else span.colour for at, span in enumerate(spans)}
    answered = _answered(len(row.questions), len(colours))
    texts = [asked if isinstance(asked, str) else asked.question for asked in row.questions]
    questions = tuple(PassageQuestion(text, labelled=at >= answered) for at, text in enumerate(texts))
    article = row.title or f"{path.name}/{row.document}"
    return Passage(row.context, article, questions, tuple((span.start, span.end) for span in spans))


def _answered(questions: int, answers: int) -> int:
    """How many of a passage's questions, the first ones, may have an answer.

    SQuAD 2.0 lists those without one last. A few answers may be lost; more are not, if there are many questions.

    >>> _answered(10, 6), _answered(10, 8), _answered(5, 2)
    (6, 10, 5)
    """
    surplus = questions - answers
    return answers if surplus >= _SURPLUS and questions >= _MANY else questions


def _question(asked: _LineQuestion | _SquadQuestion | str, passage: str, where: str) -> PassageQuestion:
    if isinstance(asked, str):
        raise FormatError(
            f"{where}: the question {quoted(asked)} has no answers", "add `answers`, or `spans`"
        )
    spans = []
    for answer in asked.answers:
        end = answer.start + len(answer.text)
        if answer.start < 0 or end > len(passage) or not answer.text:
            came = f"{answer.text!r} at {answer.start}"
            raise FormatError.expected(where, "answers that are characters of the passage", came)
        spans.append((answer.start, end))
    return PassageQuestion(asked.question, tuple(spans))


def _decoded(content: bytes, form: type[_Row], where: str) -> _Row:
    try:
        return msgspec.json.decode(content, type=form)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as fault:
        raise FormatError(f"{where} does not have the format of a question set: {fault}") from fault


def word_runs(text: str) -> set[int]:
    """A hash of each 13 words in a row."""
    words = text.lower().split()
    return {hash(tuple(words[at : at + _RUN])) for at in range(len(words) - _RUN + 1)}


def hold_out(passages: Sequence[Passage], share: float = 0.05) -> tuple[list[Passage], list[Passage]]:
    """Split by article into training and held-out passages.

    About a `share` is held out; with two articles or fewer, none.

    Articles with the same passages under other names go together. Which are chosen depends on their names alone.
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
        same = {first.setdefault(run, passage.article) for run in word_runs(passage.text)}
        for name in same:
            other = group_of.setdefault(name, {name})
            if other is not group:
                small, group = sorted((other, group), key=len)
                group |= small
                group_of.update(dict.fromkeys(small, group))
    return list({id(group): frozenset(group) for group in group_of.values()}.values())


def _place(group: frozenset[str]) -> str:
    return hashlib.sha256(min(group).encode("utf-8", "surrogatepass")).hexdigest()
