"""Cloze documents with their questions, in tokens, and the Parquet file that they are stored in."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any

import msgspec

from attar.errors import FormatError, MissingError, install_command
from attar.files import atomic_file

_ENTITY = "@entity"
# At most 9999: a network has an embedding per number up to the highest. The CNN and Daily Mail sets use hundreds.
ENTITY_NUMBER = "0|[1-9][0-9]{0,3}"
_MARK = re.compile(f"{_ENTITY}({ENTITY_NUMBER})")
_ROWS = 512  # per batch of a Parquet file
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
    if not token.startswith(_ENTITY):
        return None
    mark = _MARK.fullmatch(token)
    return int(mark[1]) if mark else None


def count_names(sentences: Iterable[Sequence[str]]) -> Counter[int]:
    """How often each name occurs, in order of first mention."""
    numbers = (entity_number(token) for sentence in sentences for token in sentence)
    return Counter(entity for entity in numbers if entity is not None)


class _Row(msgspec.Struct):
    """A row of the file, one per document; in reading, nulls, other types and numbers out of range are refused."""

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


def _schema() -> Any:
    pa = _pyarrow()
    kinds = {"name": pa.string(), "source": pa.string(), "name_ids": pa.list_(pa.int32())}
    kinds["answers"] = kinds["name_ids"]
    return pa.schema([(name, kinds.get(name, pa.list_(pa.string()))) for name in _Row.__struct_fields__])


def _pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as fault:
        raise MissingError("cloze sets need pyarrow", install_command("parquet")) from fault
    return pyarrow


class DocumentWriter:
    """Writes documents to a Parquet file, one row per document; the file appears when all are written."""

    def __init__(self, path: Path) -> None:
        self._pa, self._schema = _pyarrow(), _schema()
        self._stack = ExitStack()
        partial = self._stack.enter_context(atomic_file(path))
        writer = self._pa.parquet.ParquetWriter(partial, self._schema, compression="zstd")
        self._file = self._stack.enter_context(writer)
        self._rows: list[dict[str, Any]] = []

    def write(self, document: ClozeDocument) -> None:
        """Add one document."""
        self._rows.append(msgspec.structs.asdict(_Row.of(document)))
        if len(self._rows) >= _ROWS:
            self._flush()

    def _flush(self) -> None:
        self._file.write_table(self._pa.Table.from_pylist(self._rows, schema=self._schema))
        self._rows.clear()

    def __enter__(self) -> "DocumentWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._stack.__exit__(kind, fault, trace)
            return
        with self._stack:
            if self._rows:
                self._flush()


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
