"""Cloze documents with their questions, in tokens, and the Parquet file that they are stored in."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from attar.errors import FormatError
from attar.files import atomic_file

if TYPE_CHECKING:
    import pyarrow as pa

_ENTITY = "@entity"
# At most 9999: a reader has an embedding per number up to the highest. The CNN and Daily Mail sets use hundreds.
ENTITY_NUMBER = "0|[1-9][0-9]{0,3}"
_ROWS = 512  # per batch of a Parquet file
_MARK = re.compile(f"{_ENTITY}({ENTITY_NUMBER})")
_Number = Annotated[int, msgspec.Meta(ge=0, le=9999)]
# A few bytes of a Parquet file can stand for any number of repeated values. Rows are therefore read as references to
# distinct texts, and turned into documents as many at a time as make up about this many bytes.
_BATCH_BYTES = 2**26
# A document of more is refused: 30 times "War and Peace". So is a group of rows that claims more.
_DOCUMENT_BYTES = 2**27
_GROUP_BYTES = 2**32


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

    def text(self) -> str:
        r"""Return the text with its names put back, one sentence per paragraph; other words stay lower-case.

        >>> sentences = [["@entity1", "met", "@entity0", "."], ["it", "rained"]]
        >>> ClozeDocument("a", "", sentences, {1: "Ann Lee"}).text()
        'Ann Lee met @entity0 .\n\nit rained'
        """
        names = {f"{_ENTITY}{number}": name for number, name in self.names.items()}
        return "\n\n".join(" ".join(names.get(token, token) for token in row) for row in self.sentences)


def entity_number(token: str) -> int | None:
    """Return N for `@entityN`, N from 0 to 9999, and None for any other token.

    >>> entity_number("@entity12"), entity_number("@entity"), entity_number("@entity007"), entity_number("house")
    (12, None, None, None)
    """
    if not token.startswith(_ENTITY):
        return None
    mark = _MARK.fullmatch(token)
    return int(mark[1]) if mark else None


def count_names(sentences: Iterable[Sequence[str]]) -> Counter[int]:
    """Count how often each name occurs, in order of first mention."""
    numbers = (entity_number(token) for sentence in sentences for token in sentence)
    return Counter(entity for entity in numbers if entity is not None)


def _schema(note: str) -> "pa.Schema":
    import pyarrow as pa

    strings, numbers = pa.list_(pa.string()), pa.list_(pa.int32())
    columns: list[tuple[str, Any]] = [
        ("name", pa.string()),
        ("source", pa.string()),
        ("sentences", strings),
        ("name_ids", numbers),
        ("names", strings),
        ("questions", strings),
        ("answers", numbers),
    ]
    return pa.schema(columns, metadata={"attar": note})


def _row(document: ClozeDocument) -> dict[str, Any]:
    return {
        "name": document.name,
        "source": document.source,
        "sentences": [" ".join(sentence) for sentence in document.sentences],
        "name_ids": list(document.names),
        "names": list(document.names.values()),
        "questions": [" ".join(question.tokens) for question in document.questions],
        "answers": [question.answer for question in document.questions],
    }


class _Row(msgspec.Struct):
    """A row of the file: a null, another type, or a number out of range is refused."""

    name: str
    source: str
    sentences: list[str]
    name_ids: list[_Number]
    names: list[str]
    questions: list[str]
    answers: list[_Number]


def _document(values: dict[str, Any]) -> ClozeDocument:
    row = msgspec.convert(values, _Row)
    questions = zip(row.questions, row.answers, strict=True)
    return ClozeDocument(
        row.name,
        row.source,
        [sentence.split(" ") for sentence in row.sentences],
        dict(zip(row.name_ids, row.names, strict=True)),
        [Question(tuple(tokens.split(" ")), answer) for tokens, answer in questions],
    )


class DocumentWriter:
    """Writes documents to a Parquet file, one row per document; the file appears when all are written."""

    def __init__(self, path: Path, note: str = "") -> None:
        import pyarrow.parquet as pq

        self._stack = ExitStack()
        partial = self._stack.enter_context(atomic_file(path))
        self._schema = _schema(note)
        self._file = self._stack.enter_context(pq.ParquetWriter(partial, self._schema, compression="zstd"))
        self._rows: list[dict[str, Any]] = []

    def write(self, document: ClozeDocument) -> None:
        """Add one document."""
        self._rows.append(_row(document))
        if len(self._rows) >= _ROWS:
            self._flush()

    def _flush(self) -> None:
        import pyarrow as pa

        self._file.write_table(pa.Table.from_pylist(self._rows, schema=self._schema))
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
    import pyarrow as pa

    done, schema = 0, _schema("")
    with _open(path) as file:
        try:
            for batch in file.iter_batches(_ROWS):
                for part in _parts(batch.select(schema.names), f"{path}, document {done}"):
                    # As plain columns: Arrow turns references into Python objects one by one.
                    for row in pa.Table.from_batches([part]).cast(schema).to_pylist():
                        yield _document(row)
                        done += 1
        except FormatError:
            raise
        except (pa.ArrowException, OSError, ValueError) as fault:  # msgspec's errors are ValueErrors
            came = f"another ({str(fault).splitlines()[0][:200]})"
            expected = "a document of a cloze set"
            raise FormatError.expected(
                f"{path}, document {done}", expected, came, "build it again"
            ) from fault


def _parts(batch: "pa.RecordBatch", what: str) -> Iterator["pa.RecordBatch"]:
    """Cut a batch into parts whose texts fit into memory, repeated ones counted each time."""
    size = sum(map(_text_bytes, batch.columns))
    if batch.num_rows < 2:
        if size > _DOCUMENT_BYTES:
            raise FormatError.expected(what, f"at most {_DOCUMENT_BYTES:,} bytes of text", f"{size:,}")
        yield batch
    elif size <= _BATCH_BYTES:
        yield batch
    else:
        half = batch.num_rows // 2
        yield from _parts(batch.slice(0, half), what)
        yield from _parts(batch.slice(half), what)


def _text_bytes(column: Any) -> int:
    """How many bytes the texts of a column have once every reference is resolved."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(column, pa.ListArray):
        column = column.flatten()
    if not isinstance(column, pa.DictionaryArray):
        return 8 * len(column)
    of_distinct: Any = pc.call_function("binary_length", [column.dictionary])
    lengths = of_distinct.take(column.indices).cast(pa.int64())
    return int(pc.sum(lengths).as_py() or 0) + 8 * len(column)


def read_note(path: Path) -> str:
    """Return the note that the file was written with."""
    with _open(path) as file:
        return bytes((file.schema_arrow.metadata or {}).get(b"attar", b"")).decode(errors="replace")


@contextmanager
def _open(path: Path) -> Iterator[Any]:
    """Open a file and check its columns, and what it says of its size."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            _check_columns(path, file)
            leaves = [file.schema.column(at) for at in range(len(file.schema.names))]
            texts = [leaf.path for leaf in leaves if leaf.physical_type == "BYTE_ARRAY"]
        file = pq.ParquetFile(path, read_dictionary=texts)
    except FormatError:
        raise
    except (pa.ArrowException, OSError, ValueError) as fault:
        came = "no such file" if isinstance(fault, FileNotFoundError) else "another or an incomplete file"
        raise FormatError.expected(str(path), "a cloze set's Parquet file", came, "build it again") from fault
    with file:
        yield file


def _check_columns(path: Path, file: Any) -> None:
    """Refuse other columns or types, and groups of rows larger than any set has."""
    found = file.schema_arrow
    for column in _schema(""):
        if found.names.count(column.name) != 1:
            came = repr(", ".join(found.names))[1:-1][:200]  # on one line
            raise FormatError.expected(str(path), f"a cloze set's columns, such as {column.name}", came)
        kind = found.field(column.name).type
        if kind != column.type:
            what = f"{path}, column {column.name}"
            raise FormatError.expected(what, str(column.type), repr(str(kind))[1:-1][:200], "build it again")
    for number in range(file.metadata.num_row_groups):
        # Not the columns' own sizes: pyarrow aborts the process where their metadata is malformed.
        size = file.metadata.row_group(number).total_byte_size
        if not 0 <= size <= _GROUP_BYTES:
            expected = f"groups of rows of at most {_GROUP_BYTES:,} bytes"
            raise FormatError.expected(str(path), expected, f"one of {size:,}", "build it again")
