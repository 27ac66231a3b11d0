"""Signatures: a document's token states as one vector of fixed size, to rank documents by.

    y_t = f(h_t)                     a learned map of the token's state, if the reader has one (`StateMap`)
    x_t = Λ^-½ Pᵀ (y_t / |y_t| − μ)  unit length, centred, projected to k dimensions of equal variance
    C   = Σ_t w_t x_t x_tᵀ           w_t the weight (IDF^1.5) of the word piece: a memory, as in the paper
    S   = C^½ / |C^½|                matrix root: a few strong directions do not outweigh all others
    score(document, query) = ⟨S, S'⟩

C is symmetric, so its triangle counts, k (k + 1) / 2 numbers. Of a document only their signs are kept, and compared
with a query in float. Sums C add and subtract exactly (up to float32's rounding); signatures do not, because of the
root.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache, reduce
from operator import add
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from attar.errors import RecordError, ShapeError
from attar.progress import one_thread
from attar.reader.windows import PARAGRAPH, WindowedText
from attar.search.statistics import Floats, Projection, Statistics, unit_points

if TYPE_CHECKING:
    from attar.reader.reader import Reader

# The rows of a signature's matrix, k, unless a library chooses others: 1,032 bytes.
DEFAULT_SIZE = 128
# A document of more tokens keeps its sums, so that appending and merging need not read it again: C takes 33 kB.
LONG_DOCUMENT = 2_048


def triangle_numbers(size: int) -> int:
    """The numbers of a triangle of `size` rows."""
    return size * (size + 1) // 2


def signature_bytes(size: int) -> int:
    """The bytes of a signature of `size` rows: a bit per number.

    >>> signature_bytes(128)
    1032
    """
    return -(-triangle_numbers(size) // 8)


@dataclass(frozen=True, eq=False)
class Sums:
    """What a document adds up to, before the root is taken: sums of two documents are added, or subtracted again.

    `triangle` is C, `pieces` and `counts` are the word pieces and how often each occurs.
    """

    triangle: Floats
    tokens: int
    pieces: NDArray[np.uint16]
    counts: NDArray[np.int64]
    root: Floats | None = None  # of `triangle`, if it is known

    @classmethod
    def empty(cls, projection: Projection) -> "Sums":
        """The sums of no tokens."""
        pieces, counts = np.zeros(0, np.uint16), np.zeros(0, np.int64)
        return cls(np.zeros(triangle_numbers(projection.size), np.float32), 0, pieces, counts)

    @classmethod
    def of(cls, ids: NDArray[np.int64], states: Floats, projection: Projection) -> "Sums":
        """The sums of tokens: word pieces `[n]` and their states `[n, d]`."""
        centred = unit_points(ids, states, projection.state_size, projection.map) - projection.mean
        with one_thread():
            points = centred @ projection.directions
            weighted = points * projection.scales * np.sqrt(projection.weights[ids])[:, None]
            product = weighted.T @ weighted
        counts = np.bincount(ids)
        pieces = np.flatnonzero(counts)
        triangle = product[triangle_of(projection.size)].astype(np.float32)
        return cls(triangle, len(ids), pieces.astype(np.uint16), counts[pieces])

    def __add__(self, other: "Sums") -> "Sums":
        return self._combined(other, 1)

    def __sub__(self, other: "Sums") -> "Sums":
        return self._combined(other, -1)

    def _combined(self, other: "Sums", sign: int) -> "Sums":
        if len(self.triangle) != len(other.triangle):
            expected, got = (f"{len(sums.triangle)} numbers" for sums in (self, other))
            raise ShapeError.expected("sums", expected, got)
        pieces, where = np.unique(np.concatenate((self.pieces, other.pieces)), return_inverse=True)
        counts = np.zeros(len(pieces), np.int64)
        np.add.at(counts, where, np.concatenate((self.counts, sign * other.counts)))
        nonzero = counts != 0
        with np.errstate(over="ignore", invalid="ignore"):
            triangle = self.triangle + np.float32(sign) * other.triangle
        if not np.isfinite(triangle).all():
            raise RecordError("the sums of a signature are too large to add: no real text has them")
        return Sums(triangle, self.tokens + sign * other.tokens, pieces[nonzero], counts[nonzero])

    def signature(self) -> Floats:
        """The root of C with Frobenius norm 1, as a triangle; zeros for no tokens."""
        return root_of(self.triangle) if self.root is None else self.root


@cache
def triangle_of(size: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rows and columns of a triangle's numbers."""
    rows, columns = np.triu_indices(size)
    return rows, columns


@cache
def _repeats(size: int) -> Floats:
    """How often a matrix holds each number of its triangle: once on the diagonal, else twice."""
    rows, columns = triangle_of(size)
    return np.where(rows == columns, 1.0, 2.0).astype(np.float32)


def root_of(triangle: Floats) -> Floats:
    """The root of a positive semi-definite matrix, with Frobenius norm 1; matrix and root as triangles.

    >>> root_of(np.array([16, 0, 9], np.float32)).tolist()
    [0.800000011920929, 0.0, 0.6000000238418579]
    """
    size = size_of(len(triangle))
    where = triangle_of(size)
    matrix = np.zeros((size, size), np.float32)
    # Its size does not count, and the largest numbers would overflow.
    matrix[where] = triangle / max(float(np.abs(triangle).max()), 1e-30)
    with one_thread():
        # Only the upper triangle is read.
        values, vectors = np.linalg.eigh(matrix, UPLO="U")
        values = np.sqrt(np.maximum(values, 0.0))
        norm = float(np.sqrt(np.square(values).sum()))
        root: Floats = ((vectors * (values / max(norm, 1e-12))) @ vectors.T)[where].astype(np.float32)
    return root


def size_of(numbers: int) -> int:
    """k of a triangle of k (k + 1) / 2 numbers."""
    size = int((np.sqrt(8 * numbers + 1) - 1) // 2)
    if triangle_numbers(size) != numbers or not numbers:
        raise ShapeError.expected("triangle", "k (k + 1) / 2 numbers", str(numbers))
    return size


def query_of(signature: Floats) -> Floats:
    """A query: a vector whose product with a signature is that of their matrices, so that any vector index fits."""
    query: Floats = signature * _repeats(size_of(signature.shape[-1]))
    return query


def pack(signatures: Floats) -> NDArray[np.uint8]:
    """The signs of signatures `[..., numbers]`, eight per byte, the lowest bit first.

    >>> pack(np.array([[0.5, -0.5, 0.25]], np.float32)).tolist()
    [[5]]
    """
    return np.packbits(signatures > 0, axis=-1, bitorder="little")


class SignatureRecord(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """What search keeps of a document: its signature, its word pieces with their counts, and perhaps its sums.

    `statistics` names what it was made with. Counts have one byte each, or four with sums. Arrays are little-endian.
    """

    statistics: bytes
    size: int
    tokens: int
    signature: bytes
    pieces: bytes
    counts: bytes
    triangle: bytes = b""

    @classmethod
    def of(cls, sums: Sums, statistics: bytes, size: int, *, keep_sums: bool) -> "SignatureRecord":
        counts = sums.counts.astype("<u4") if keep_sums else np.minimum(sums.counts, 255).astype(np.uint8)
        return cls(
            statistics,
            size,
            sums.tokens,
            pack(sums.signature()).tobytes(),
            sums.pieces.astype("<u2").tobytes(),
            counts.tobytes(),
            sums.triangle.astype("<f4").tobytes() if keep_sums else b"",
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
        triangle = np.frombuffer(self.triangle, "<f4")
        if not np.isfinite(triangle).all():
            raise RecordError("the sums of a signature are not finite")
        return Sums(triangle, self.tokens, pieces.copy(), counts.astype(np.int64))


_records = msgspec.msgpack.Decoder(SignatureRecord)


def merged_signature(signatures: Sequence[bytes | None]) -> bytes | None:
    """The record of documents joined, from the sums of each; None unless all keep theirs, of the same statistics."""
    try:
        records = [SignatureRecord.from_bytes(data) for data in signatures if data is not None]
        all_sums = [sums for record in records if (sums := record.sums()) is not None]
        if len(all_sums) < len(signatures) or len({record.statistics for record in records}) > 1:
            return None
        joined = reduce(add, all_sums)
    except RecordError:  # of a damaged or a forged one: it is made from the text when it is needed
        return None
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

    def finish(self) -> None:
        """Called when all texts are read."""

    def of(self, number: int = 0) -> Sums:
        """The sums of a text."""
        return self.sums.get(number) or Sums.empty(self.projection)


@dataclass(frozen=True)
class Signer:
    """Makes signatures of documents and of queries with one projection; a store keeps the statistics that it is of."""

    reader: "Reader"
    statistics: Statistics
    projection: Projection

    @classmethod
    def of(cls, reader: "Reader", statistics: Statistics) -> "Signer":
        """A signer of a reader's states, with the statistics of a corpus."""
        return cls(reader, statistics, statistics.projection(min(DEFAULT_SIZE, statistics.size)))

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

    def words(self, text: str) -> Sums:
        """The word pieces of a text, without states: by these a document is found until its signature is made."""
        ((ids, _),) = self.reader.tokenizer.read_sentences([text])
        pieces, counts = np.unique(ids, return_counts=True)
        empty = Sums.empty(self.projection)
        return replace(empty, tokens=len(ids), pieces=pieces.astype(np.uint16), counts=counts)

    def query(self, text: str) -> Floats:
        """A text as a query (`query_of`), by the states of its windows."""
        tokenizer, collector = self.reader.tokenizer, Collector(self.projection)
        ((pieces, _),) = tokenizer.read_sentences([text])
        windows = [pieces]
        if not 0 < len(pieces) <= PARAGRAPH:  # so few are always one window
            windows = [window.ids for window in WindowedText.of(text, tokenizer).windows]
        # Several threads round in another way, and a query must rank documents alike in every process.
        with one_thread():
            for ids in windows:
                collector(0, ids, self.reader.query_states(ids))
        return query_of(collector.of().signature())
