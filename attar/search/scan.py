"""The signatures of all documents in rows, and their scores for a query: all are compared, in blocks.

Scores do not depend on the order of additions, nor on which other signatures are scanned with them: shards of a
library rank like the whole. The query is rounded to whole numbers of 30 bits, whose sums float64 holds exactly.
Many signatures are compared with a query in two bit planes first; who asks compares the best of them with the query
itself. `fast_scan` (numba, the extra `fast`) does the first in about a tenth of the time.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from attar.errors import RecordError
from attar.search.lexical import Lexical
from attar.search.signatures import SignatureRecord, Signer, signature_bytes
from attar.search.statistics import Floats
from attar.store.signatures import StampedSignature

Packed = NDArray[np.uint8]
Rows = NDArray[np.intp]
# Arrays get room for this many times their rows when they are full.
_GROWTH = 1.5
# Rows unpacked at a time, 8 MB: larger arrays are mapped anew each time, which takes longer than the products.
_BLOCK = 128
# From this many documents on, the first scan is by bit planes.
_MANY = 4_096
# At least this many of the best by bit planes are compared exactly.
CANDIDATES = 256
PLANES = 2
# Steps between the levels that lose least of a normally distributed number, in standard deviations (Max, 1960).
_STEP = 0.996
# What a query keeps of its largest number. Sums of up to 2^23 such numbers are exact in float64.
_BITS = 30


def scores(packed: Packed, queries: Floats, rows: Rows | None = None) -> Floats:
    """The score of each signature `[N, bytes]`, or of some rows, for each query `[m, numbers]`: `[m, N]`.

    >>> signatures = np.array([[0b101], [0b010]], np.uint8)
    >>> scores(signatures, np.array([[2.0, -1.0, 1.0]], np.float32)).tolist()
    [[4.0, -4.0]]
    """
    count, numbers = len(packed) if rows is None else len(rows), queries.shape[1]
    products = np.empty((len(queries), count), np.float32)
    whole, steps = _whole_numbers(queries)
    columns, totals = np.ascontiguousarray(whole.T), whole.sum(1)
    bits = np.empty((min(_BLOCK, count), numbers))
    for first in range(0, count, _BLOCK):
        block = slice(first, first + _BLOCK)
        signs = packed[block] if rows is None else packed[rows[block]]
        # Of signs 2 t − 1. The long side first, which BLAS is quicker at.
        bits[: len(signs)] = np.unpackbits(signs, axis=1, count=numbers, bitorder="little")
        products[:, block] = ((2 * (bits[: len(signs)] @ columns) - totals) * steps).T
    return products


def _whole_numbers(queries: Floats) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Queries as whole numbers `[m, numbers]`, and the steps `[m]`, powers of two, that they are multiples of.

    >>> whole, steps = _whole_numbers(np.array([[0.75, -1.0]], np.float32))
    >>> (whole * steps[:, None]).tolist()
    [[0.75, -1.0]]
    """
    _, exponents = np.frexp(np.abs(queries).max(1, initial=0.0))
    steps = np.ldexp(1.0, exponents.astype(np.int64) - _BITS)
    return np.rint(queries / steps[:, None]), steps


def is_rounded(documents: int) -> bool:
    """Whether the first scan of this many documents rounds scores, so that the best are compared again."""
    return documents >= _MANY


def near_scores(packed: Packed, queries: Floats, rounded: bool, rows: Rows | None = None) -> Floats:
    """The scores of all signatures or of some rows; `rounded` ones differ a little, and are there sooner."""
    return rounded_scores(packed, queries, rows) if rounded else scores(packed, queries, rows)


def rounded_scores(packed: Packed, queries: Floats, rows: Rows | None = None) -> Floats:
    """`scores` of queries that are rounded to four levels: bit planes, ANDed with the signs and counted.

    With q ≈ a + b Σ_p 2^p q_p, where q_p are bits, Σ_i q_i s_i over signs s_i = 2 t_i − 1 follows from the counts of
    t AND q_p. Two planes are four levels: the scores correlate by .975 with the exact ones. Of 5,000 passages, the ten
    best are among the 80 best by two planes, and by three among 40.
    """
    rows = np.arange(len(packed)) if rows is None else rows
    numbers = queries.shape[1]
    words = -(-numbers // 64)
    most = 2**PLANES - 1
    step = np.maximum(_STEP * queries.std(1), np.float32(1e-30))
    low = queries.mean(1) - most / 2 * step
    levels = np.clip(np.rint((queries - low[:, None]) / step[:, None]), 0, most).astype(np.uint8)
    planes = np.stack([_words((levels >> plane) & 1, words) for plane in range(PLANES)], axis=1)
    (ones,) = _words(np.ones((1, numbers), np.uint8), words)
    products = np.empty((len(queries), len(rows)), np.float32)
    try:
        from attar.search.fast_scan import count_bits as count  # numba takes a second to load
    except ImportError:  # not installed
        count = count_bits
    count(
        _padded(packed, words),
        rows,
        planes,
        ones,
        products,
        levels.sum(1, dtype=np.int64),
        low,
        step,
        numbers,
    )
    return products


def _words(bits: NDArray[np.uint8], words: int) -> NDArray[np.uint64]:
    return _padded(np.packbits(bits, axis=1, bitorder="little"), words)


def _padded(packed: Packed, words: int) -> NDArray[np.uint64]:
    """Rows of bytes as rows of 64-bit words."""
    if packed.shape[1] != 8 * words or not packed.flags.c_contiguous:
        padded = np.zeros((len(packed), 8 * words), np.uint8)
        padded[:, : packed.shape[1]] = packed
        packed = padded
    return packed.view(np.uint64)


def count_bits(
    signs: NDArray[np.uint64],
    rows: Rows,
    planes: NDArray[np.uint64],
    ones: NDArray[np.uint64],
    products: Floats,
    totals: NDArray[np.int64],
    low: Floats,
    step: Floats,
    numbers: int,
) -> None:
    """Fill `products [m, N]`: 2 Σ q_i t_i − Σ q_i of each row, of the rounded query."""
    for first in range(0, len(rows), _BLOCK):
        block = signs[rows[first : first + _BLOCK]]
        positive = np.bitwise_count(block & ones).sum(1, dtype=np.int64)
        for query, (low_bits, high_bits) in enumerate(planes):
            ones_in_low, ones_in_high = (
                np.bitwise_count(block & bits).sum(1, dtype=np.int64) for bits in (low_bits, high_bits)
            )
            inner = ones_in_low + 2 * ones_in_high
            signed = float(step[query]) * (2 * inner - totals[query])
            products[query, first : first + _BLOCK] = signed + float(low[query]) * (2 * positive - numbers)


class SignatureTable:
    """The signature and the words of each document, in rows that are appended and removed, never changed or moved."""

    def __init__(self, signer: Signer, room: int = 0) -> None:
        self._signer = signer
        self._keys: list[bytes] = []
        self._row_of: dict[bytes, int] = {}
        self._changed = np.zeros(room, np.int64)
        self._packed = np.zeros((room, signature_bytes(signer.size)), np.uint8)
        # What the projection keeps of each document's variance, and the whole.
        self._energies = np.zeros((room, 2))
        self._is_live = np.zeros(room, np.bool_)
        self._live: Rows | None = None
        self.words = Lexical(signer.pieces)

    def __len__(self) -> int:
        """The documents: rows that are not removed."""
        return len(self._row_of)

    def __contains__(self, key: bytes) -> bool:
        return key in self._row_of

    @property
    def keys(self) -> list[bytes]:
        """The key of each row, also of removed ones."""
        return self._keys

    @property
    def packed(self) -> NDArray[np.uint8]:
        """The signs of each row."""
        return self._packed[: len(self._keys)]

    @property
    def live(self) -> Rows:
        """The rows of all documents; one array for all queries until something changes."""
        if self._live is None:
            self._live = np.flatnonzero(self._is_live)
        return self._live

    def changed(self, row: int) -> int:
        """The time of change of the document that a row was made of."""
        return int(self._changed[row])

    def append(self, signatures: Iterable[StampedSignature]) -> None:
        """Add signatures as the next rows; those made with other statistics are left out."""
        accepted = []
        for signature in signatures:
            try:
                record = SignatureRecord.from_bytes(signature.data, self._signer.size)
            except RecordError:  # it is made again
                continue
            pieces, counts = record.word_counts
            known = not len(pieces) or pieces.max() < self._signer.pieces
            if known and record.statistics == self._signer.projection.digest:
                accepted.append((signature, record, (pieces, counts)))
        if not accepted:
            return
        self.words.append([counts for _, _, counts in accepted])
        first, last = len(self._keys), len(self._keys) + len(accepted)
        self._make_room(last)
        keys = [signature.key for signature, _, _ in accepted]
        self._row_of |= zip(keys, range(first, last), strict=True)
        self._keys += keys
        self._changed[first:last] = [signature.changed for signature, _, _ in accepted]
        joined = b"".join(record.signature for _, record, _ in accepted)
        self._packed[first:last] = np.frombuffer(joined, np.uint8).reshape(len(accepted), -1)
        self._energies[first:last] = [(record.kept, record.whole) for _, record, _ in accepted]
        self._is_live[first:last] = True
        self._live = None

    def _make_room(self, rows: int) -> None:
        if rows > len(self._packed):
            room = max(rows, int(_GROWTH * len(self._packed))) - len(self._packed)
            self._packed = np.concatenate((self._packed, np.zeros((room, self._packed.shape[1]), np.uint8)))
            self._changed = np.concatenate((self._changed, np.zeros(room, np.int64)))
            self._energies = np.concatenate((self._energies, np.zeros((room, 2))))
            self._is_live = np.concatenate((self._is_live, np.zeros(room, np.bool_)))

    def remove(self, key: bytes) -> None:
        """Remove a document's row, if there is one."""
        row = self._row_of.pop(key, None)
        if row is not None:
            self._is_live[row] = False
            self._live = None
            self.words.remove(row)

    @property
    def drift(self) -> float:
        """How much less of the documents' variance the projection keeps than of what it was fitted on, 0 to 1."""
        kept, whole = self._energies[self._is_live].sum(0)
        share = float(kept) / max(float(whole), 1e-30)
        return max(0.0, 1.0 - share / self._signer.projection.kept) if len(self) else 0.0
