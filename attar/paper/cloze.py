"""Cloze documents and their questions: the Parquet files of built sets, and the CNN sets' `.question` files."""

import hashlib
import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import msgspec

from attar.errors import FormatError, MissingError, install_command
from attar.files import atomic_file
from attar.paper.words import PLACEHOLDER_TOKEN
from attar.progress import Progress, ignore_progress
from attar.text.sentences import LONGEST_SENTENCE

# At most 9999: a network has an embedding per number up to the highest. The CNN and Daily Mail sets use hundreds.
_NUMBER = "0|[1-9][0-9]{0,3}"
_MARK = re.compile(f"@entity({_NUMBER})")
_Number = Annotated[int, msgspec.Meta(ge=0, le=9999)]


@dataclass(frozen=True, slots=True)
class Question:
    """Tokens with one `@placeholder`, and N of the `@entityN` that it stands for."""

    tokens: tuple[str, ...]
    answer: int


@dataclass(slots=True)
class ClozeDocument:
    """Sentences of tokens with `@entityN` for names, the names by N, and questions about them."""

    name: str
    source: str
    sentences: list[list[str]]
    names: dict[int, str]
    questions: list[Question] = field(default_factory=list)


def entity_number(token: str) -> int | None:
    """N of `@entityN`, N from 0 to 9999, and None for any other token.

    >>> entity_number("@entity12"), entity_number("@entity"), entity_number("@entity007"), entity_number("house")
    (12, None, None, None)
    """
    mark = _MARK.fullmatch(token) if token.startswith("@") else None
    return int(mark[1]) if mark else None


def count_names(sentences: Iterable[Sequence[str]]) -> Counter[int]:
    """How often each name occurs, in order of first mention."""
    numbers = (entity_number(token) for sentence in sentences for token in sentence)
    return Counter(entity for entity in numbers if entity is not None)


class _Row(msgspec.Struct):
    """A row of a Parquet file, one per document; nulls, other types and numbers out of range are refused."""

    name: str
    source: str
    sentences: list[str]
    name_ids: list[_Number]
    names: list[str]
    questions: list[str]
    answers: list[_Number]

    @classmethod
    def of(cls, document: ClozeDocument) -> "_Row":
        return cls(
            document.name,
            document.source,
            [" ".join(sentence) for sentence in document.sentences],
            list(document.names),
            list(document.names.values()),
            [" ".join(question.tokens) for question in document.questions],
            [question.answer for question in document.questions],
        )

    def document(self) -> ClozeDocument:
        questions = zip(self.questions, self.answers, strict=True)
        return ClozeDocument(
            self.name,
            self.source,
            [sentence.split() for sentence in self.sentences],
            dict(zip(self.name_ids, self.names, strict=True)),
            [Question(tuple(tokens.split()), answer) for tokens, answer in questions],
        )


_ROWS = 512  # per batch of a Parquet file


def _pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as fault:
        raise MissingError("cloze sets need pyarrow", install_command("parquet")) from fault
    return pyarrow


@contextmanager
def document_writer(path: Path) -> Iterator[Callable[[ClozeDocument], None]]:
    """Write documents to a Parquet file, one row per document; the file appears when all are written."""
    pa = _pyarrow()
    kinds = {"name": pa.string(), "source": pa.string(), "name_ids": pa.list_(pa.int32())}
    kinds["answers"] = kinds["name_ids"]
    schema = pa.schema([(name, kinds.get(name, pa.list_(pa.string()))) for name in _Row.__struct_fields__])
    rows: list[dict[str, Any]] = []
    with atomic_file(path) as partial, pa.parquet.ParquetWriter(partial, schema, compression="zstd") as file:

        def flush() -> None:
            file.write_table(pa.Table.from_pylist(rows, schema=schema))
            rows.clear()

        def write(document: ClozeDocument) -> None:
            rows.append(msgspec.structs.asdict(_Row.of(document)))
            if len(rows) >= _ROWS:
                flush()

        yield write
        if rows:
            flush()


def read_documents(path: Path) -> Iterator[ClozeDocument]:
    """Yield the documents of a Parquet file, with a few hundred in memory at a time."""
    pa = _pyarrow()
    done = 0
    try:
        with pa.parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(_ROWS, columns=_Row.__struct_fields__):
                for values in batch.to_pylist():
                    yield msgspec.convert(values, _Row).document()
                    done += 1
    except (pa.ArrowException, OSError, ValueError) as fault:  # msgspec's errors are ValueErrors
        reason = (str(fault).splitlines() or [""])[0][:200]
        message = f"{path}: document {done} is not one of a cloze set ({reason})"
        raise FormatError(message, "build the set again") from fault


_BLOCKS = ("url", "document", "question", "answer", "names")
_NAME = re.compile(rf"@entity({_NUMBER}):(.*)")
_ENDS = frozenset((".", "!", "?"))
_CLOSERS = frozenset(('"', "'", "''", ")", "]"))


@dataclass(frozen=True, slots=True)
class QuestionFile:
    url: str
    document: str
    question: str
    answer: str
    names: tuple[tuple[int, str], ...]


def parse_question(data: bytes, where: str) -> QuestionFile:
    r"""Parse a `.question` file of five blocks.

    >>> parse_question(b"u\n\n@entity1 left .\n\n@placeholder left\n\n@entity1\n\n@entity1:Ann", "a").names
    ((1, 'Ann'),)
    """

    def malformed(reason: str) -> FormatError:
        return FormatError(f"{where} is not a question of the CNN set: {reason}")

    try:
        url, document, question, answer, named = data.decode().rstrip("\n").split("\n\n")
    except ValueError as fault:  # not five blocks, or not UTF-8
        raise malformed(f"expected {', '.join(_BLOCKS)}, with blank lines between them") from fault
    rows = [_NAME.fullmatch(row) for row in named.split("\n")]
    names = dict.fromkeys((int(row[1]), row[2]) for row in rows if row)
    numbers = {number for number, _ in names}
    if None in rows or len(numbers) < len(names):
        raise malformed("expected names as @entityN:Name, each N from 0 to 9999 once")
    if question.split().count(PLACEHOLDER_TOKEN) != 1:
        raise malformed(f"expected a question with one {PLACEHOLDER_TOKEN}")
    if entity_number(answer) not in numbers or answer not in document.split():  # no network can choose it
        raise malformed("expected an answer among the names, and in the document")
    return QuestionFile(url, document, question, answer, tuple(names))


def split_tokens(tokens: Sequence[str]) -> list[list[str]]:
    """Cut a document's tokens into sentences: the format has them on one line.

    >>> split_tokens("he left . ' why ? ' nobody knew".split())
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


def read_folder(folder: Path, source: str, progress: Progress = ignore_progress) -> Iterator[ClozeDocument]:
    """Yield a folder's documents with all of their questions; malformed files are left out with a warning.

    The questions of a document are anywhere in the folder, so all its files are read before the first document.
    """
    files = sorted(folder.glob("*.question"))
    documents: dict[bytes, ClozeDocument] = {}
    texts: dict[bytes, str] = {}
    for done, path in enumerate(files):
        progress("reading questions", done, len(files))
        try:
            file = parse_question(path.read_bytes(), str(path))
        except (OSError, FormatError) as fault:
            logging.getLogger("attar").warning("attar: left out: %s", fault)
            continue
        # Equal texts whose ids mean different names are different documents.
        key = hashlib.sha256(f"{file.url}\n{file.document}\n{sorted(file.names)}".encode()).digest()
        texts.setdefault(key, file.document)
        document = documents.setdefault(key, ClozeDocument(file.url, source, [], dict(file.names)))
        answer = int(file.answer.removeprefix("@entity"))
        document.questions.append(Question(tuple(file.question.split()), answer))
    if not documents:
        raise FormatError(f"there are no well-formed .question files in {folder}", "check the path")
    for key, document in documents.items():
        document.sentences = split_tokens(texts.pop(key).split())
        yield document
