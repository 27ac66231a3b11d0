"""Cloze documents in Parquet: one row a document, written whole or not at all, read as a stream."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from attar.cloze.document import ClozeDocument, Question
from attar.errors import FormatError

if TYPE_CHECKING:
    import pyarrow as pa

ROWS = 512


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


def _document(row: dict[str, Any]) -> ClozeDocument:
    questions = zip(row["questions"], row["answers"], strict=True)
    return ClozeDocument(
        row["name"],
        row["source"],
        [sentence.split(" ") for sentence in row["sentences"]],
        dict(zip(row["name_ids"], row["names"], strict=True)),
        [Question(tuple(tokens.split(" ")), answer) for tokens, answer in questions],
    )


class DocumentWriter:
    """Writes documents beside the file's place, and moves them there once all are written."""

    def __init__(self, path: Path, note: str = "") -> None:
        import pyarrow.parquet as pq

        self._path = path
        self._partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
        self._schema = _schema(note)
        self._file = pq.ParquetWriter(self._partial, self._schema, compression="zstd")
        self._rows: list[dict[str, Any]] = []
        self.documents = 0
        self.questions = 0

    def write(self, document: ClozeDocument) -> None:
        """Add one document."""
        self._rows.append(_row(document))
        self.documents += 1
        self.questions += len(document.questions)
        if len(self._rows) >= ROWS:
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
        try:
            try:
                if kind is None and self._rows:
                    self._flush()
            finally:
                self._file.close()
            # Not before all of it is written: a file that is there is taken for whole.
            if kind is None:
                os.replace(self._partial, self._path)
        finally:
            self._partial.unlink(missing_ok=True)


def read_documents(path: Path) -> Iterator[ClozeDocument]:
    """Yield a file's documents, holding a few hundred at a time."""
    with _opened(path) as file:
        for batch in file.iter_batches(ROWS):
            yield from map(_document, batch.to_pylist())


def count_documents(path: Path) -> int:
    """Tell how many documents a file holds without reading them."""
    with _opened(path) as file:
        return int(file.metadata.num_rows)


def read_note(path: Path) -> str:
    """Give the note that the file was written with."""
    with _opened(path) as file:
        return bytes((file.schema_arrow.metadata or {}).get(b"attar", b"")).decode()


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Any]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(path)
    except (pa.ArrowInvalid, OSError) as fault:
        came = "no such file" if isinstance(fault, FileNotFoundError) else "another file, or a cut one"
        raise FormatError(str(path), "a cloze set's Parquet file", came, "build it again") from fault
    with file:
        if not {"sentences", "name_ids", "names", "questions", "answers"} <= set(file.schema_arrow.names):
            raise FormatError(str(path), "a cloze set's columns", ", ".join(file.schema_arrow.names))
        yield file
