"""A document's signature as the store keeps it, and how it is made: while the document is read, or from its text."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from attar.errors import FormatError, RecordError
from attar.search.signatures import DEFAULT_SIZE, LONG_DOCUMENT, Sums, pack, signature_bytes, triangle_numbers
from attar.search.state_map import Floats, one_thread
from attar.search.statistics import Projection, Statistics

# Loaded where it is used: torch takes seconds, and merging or listing documents needs none of it.
if TYPE_CHECKING:
    from attar.reader.reader import Reader


class SignatureRecord(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """What search keeps of a document: its signature, its word pieces with their counts, and perhaps its sums.

    `statistics` names what it was made with. Counts have one byte each, or four with sums. Arrays are little-endian.
    """

    statistics: bytes
    size: int
    tokens: int
    kept: float
    whole: float
    signature: bytes
    pieces: bytes
    counts: bytes
    triangle: bytes = b""
    total: bytes = b""

    @classmethod
    def of(cls, sums: Sums, statistics: bytes, size: int, *, keep_sums: bool) -> "SignatureRecord":
        counts = sums.counts.astype("<u4") if keep_sums else np.minimum(sums.counts, 255).astype(np.uint8)
        return cls(
            statistics,
            size,
            sums.tokens,
            sums.kept,
            sums.whole,
            pack(sums.signature()).tobytes(),
            sums.pieces.astype("<u2").tobytes(),
            counts.tobytes(),
            sums.triangle.astype("<f4").tobytes() if keep_sums else b"",
            sums.total.astype("<f4").tobytes() if keep_sums else b"",
        )

    def to_bytes(self) -> bytes:
        return msgspec.msgpack.encode(self)

    @classmethod
    def from_bytes(cls, data: bytes, size: int | None = None) -> "SignatureRecord":
        """Read a record; one of another size, if given, or whose parts do not agree, is refused."""
        try:
            record = _records.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError) as fault:
            raise RecordError(f"the signature cannot be read: {fault}") from fault
        agree = (
            record.size == (record.size if size is None else size) >= 1
            and len(record.signature) == signature_bytes(record.size)
            and len(record.pieces) == len(record.counts) * (2 if not record.triangle else 0.5)
            and len(record.triangle) in (0, 4 * triangle_numbers(record.size))
            and bool(record.total) == bool(record.triangle)
            and len(record.total) % 4 == 0
        )
        if not agree:
            raise RecordError("the signature has another size, or its parts do not agree")
        return record

    @property
    def word_counts(self) -> tuple[NDArray[np.uint16], NDArray[Any]]:
        """The document's word pieces, and how often each occurs; 255 at most unless sums are kept."""
        return np.frombuffer(self.pieces, "<u2"), np.frombuffer(self.counts, "<u4" if self.triangle else "u1")

    def sums(self) -> Sums | None:
        """The sums before the root, if they are kept."""
        if not self.triangle:
            return None
        pieces, counts = self.word_counts
        triangle, total = np.frombuffer(self.triangle, "<f4"), np.frombuffer(self.total, "<f4")
        if not (np.isfinite(triangle).all() and np.isfinite(total).all()):
            raise RecordError("the sums of a signature are not finite")
        return Sums(
            triangle, total, self.kept, self.whole, self.tokens, pieces.copy(), counts.astype(np.int64)
        )


_records = msgspec.msgpack.Decoder(SignatureRecord)


def merged(signatures: Sequence[bytes]) -> bytes | None:
    """The record of documents joined, from the sums of each; None unless all keep theirs, of the same statistics."""
    records = [SignatureRecord.from_bytes(data) for data in signatures]
    all_sums = [sums for record in records if (sums := record.sums()) is not None]
    if not all_sums or len(all_sums) < len(records) or len({record.statistics for record in records}) > 1:
        return None
    joined = reduce(add, all_sums)
    return SignatureRecord.of(joined, records[0].statistics, records[0].size, keep_sums=True).to_bytes()


@dataclass
class Collector:
    """Adds up the sums of texts while a reader reads them: `reader.read_many(texts, on_states=collector)`."""

    projection: Projection
    sums: dict[int, Sums] = field(default_factory=dict)

    def __call__(self, number: int, ids: NDArray[np.int64], states: Floats) -> None:
        """Add one window of the text `number`."""
        window = Sums.of(ids, states, self.projection)
        self.sums[number] = self.sums[number] + window if number in self.sums else window

    def of(self, number: int = 0) -> Sums:
        """The sums of a text."""
        return self.sums.get(number) or Sums.empty(self.projection)


class _Fitted(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """What a store keeps so that all processes make the same signatures: statistics, and the size k of signatures."""

    statistics: bytes
    size: int


@dataclass(frozen=True)
class Signer:
    """Makes signatures of documents and of queries, with one projection; `data` is what a store keeps of it."""

    reader: "Reader"
    statistics: Statistics
    projection: Projection
    data: bytes

    @classmethod
    def of(cls, reader: "Reader", statistics: Statistics, size: int | None = None) -> "Signer":
        """A signer of a reader's states, with the statistics of a corpus."""
        size = default_size(statistics) if size is None else size
        return cls._made(reader, statistics, size, msgspec.msgpack.encode(_Fitted(statistics.data, size)))

    @classmethod
    def _made(cls, reader: "Reader", statistics: Statistics, size: int, data: bytes) -> "Signer":
        # Named with its size: sums and signatures of another one are not compared.
        projection = replace(statistics.projection(size), digest=Statistics.digest_of(data))
        return cls(reader, statistics, projection, data)

    @classmethod
    def from_bytes(cls, data: bytes, reader: "Reader") -> "Signer":
        """The signer that a store keeps; anything else is refused."""
        try:
            fitted = msgspec.msgpack.decode(data, type=_Fitted)
        except (msgspec.DecodeError, UnicodeDecodeError) as fault:
            raise FormatError(
                f"the statistics of search cannot be read: {fault}", "fit them again"
            ) from fault
        statistics = Statistics.from_bytes(fitted.statistics)
        if not 1 <= fitted.size <= len(statistics.total):
            raise FormatError("the statistics of search have another size than signatures", "fit them again")
        return cls._made(reader, statistics, fitted.size, data)

    @property
    def size(self) -> int:
        """k, the rows of a signature's matrix."""
        return self.projection.size

    @property
    def pieces(self) -> int:
        """The word pieces that the reader knows."""
        return self.reader.options.encoder.vocabulary

    def record(self, sums: Sums, *, text_kept: bool) -> bytes:
        """A document's record; the sums stay in it if the document is long, or its text is not kept."""
        keep_sums = sums.tokens > LONG_DOCUMENT or not text_kept
        record = SignatureRecord.of(sums, self.projection.digest, self.size, keep_sums=keep_sums)
        return record.to_bytes()

    def sums(self, text: str) -> Sums:
        """The sums of a text, read only for them."""
        collector = Collector(self.projection)
        self.reader.token_states([text], collector)
        return collector.of()

    def query(self, text: str) -> Sums:
        """The sums of a query."""
        collector = Collector(self.projection)
        # Several threads round in another way, and a query must rank documents alike in every process.
        with one_thread():
            self.reader.query_states(text, collector)
        return collector.of()


def default_size(statistics: Statistics) -> int:
    """The size of signatures unless another is chosen."""
    return min(DEFAULT_SIZE, len(statistics.total))
