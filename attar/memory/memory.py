"""Memory: what is kept of a document. It can be queried, merged, extended and stored. It has one of two forms.

    form        numbers         lookup                  contents
    phrases     [count, k]      C q                     one vector per phrase, one score per phrase
    ridge       [k, d + k]      Cᵀ (G + λI)⁻¹ q         C = Σ key valueᵀ of phrases, next to G = Σ key keyᵀ

Numbers are kept in int8 with one scale per row, its largest |x_ij|: x_ij ≈ scale_i Q_ij / 127. As bytes, little-endian:

    at      bytes   contents
    0       1       form: phrases 0, ridge 1
    1       1       0
    2       2       r, the length of the reader's fingerprint
    4       4       k
    8       4       the other dimension of the numbers: phrases, or d + k
    12      8       number of tokens
    20      36      0, for later fields
    56              numbers, int8, row by row
            4 each  scales, float32, one per row
            r       the reader's fingerprint, UTF-8
            …       the index of phrases, as `PhraseIndex.to_bytes` writes it

A memory and every value of a store lie in an envelope, which says what it is, with one checksum:

    0       4       `Attr`
    4       2       the format's version, 1
    6       2       the kind, `m` for a memory (`attar.store.records` has the others), and 0
    8       4       CRC-32 of the other bytes of the envelope, and of the payload
    12      4       the payload's length
"""

import struct
import zlib
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from attar.errors import DtypeError, OptionError, RecordError, ShapeError, quoted
from attar.memory import algebra
from attar.memory.phrases import PhraseIndex

Buffer = bytes | bytearray | memoryview
Floats = NDArray[np.float32]
Form = Literal["phrases", "ridge"]

# The position is the code in a record.
FORMS: tuple[Form, ...] = ("phrases", "ridge")
# The largest |Q_ij|.
_LEVELS = 127
# λ of the ridge, compared with the mean of G's diagonal.
RIDGE = 0.1


def quantize(numbers: Floats) -> tuple[NDArray[np.int8], Floats]:
    """Rows in int8, and their scales.

    >>> [array.tolist() for array in quantize(np.array([[4.0, -2.0], [0.0, 0.0]], np.float32))]
    [[[127, -64], [0, 0]], [4.0, 0.0]]
    """
    scales = np.abs(numbers).max(-1, keepdims=True, initial=0.0)
    levels = np.divide(numbers, scales, out=np.zeros_like(numbers), where=scales > 0) * _LEVELS
    return np.rint(levels).astype(np.int8), scales.reshape(-1)


def dequantize(numbers: NDArray[np.int8], scales: Floats) -> Floats:
    """Rows in float32.

    >>> dequantize(np.array([[127, -127]], np.int8), np.array([3.0], np.float32)).tolist()
    [[3.0, -3.0]]
    """
    floats: Floats = numbers * (scales[:, None] / np.float32(_LEVELS))
    return floats


def solve_ridge(sums: Floats) -> NDArray[np.float64]:
    """(G + λI)⁻¹ C `[k, d]`, of C `[k, d]` next to G `[k, k]`; zeros if nothing was written.

    >>> solve_ridge(np.array([[3.0, 0.9, 0.0], [5.0, 0.0, 0.9]], np.float32)).round(2)
    array([[3.03],
           [5.05]])
    """
    k = len(sums)
    C, G = sums[:, :-k].astype(np.float64), sums[:, -k:].astype(np.float64)
    ridge = RIDGE * np.trace(G) / k
    if ridge <= 0:
        return np.zeros_like(C)
    solved: NDArray[np.float64] = np.linalg.solve(G + ridge * np.eye(k), C)
    return solved


VERSION = 1
# Nobody has written a memory or a text of 4 GB; the length has four bytes.
MOST_BYTES = 2**32 - 4096
# Magic, version, kind; then the checksum and the length.
_START = struct.Struct("<4sHcx")
_ENVELOPE = struct.Struct("<8sII")
# What is before the payload.
ENVELOPE_BYTES = _ENVELOPE.size
_MAGIC = b"Attr"
_LENGTH_AT = 12
KIND = b"m"
_HEADER = struct.Struct("<BxHIIQ36x")
_FLOAT = np.dtype("<f4")
# The largest k of a memory without phrases, whose k no bytes vouch for.
_LARGEST_EMPTY = 2**14
# A record has two bytes for the length of the fingerprint.
_LONGEST_FINGERPRINT = 2**16 - 1


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Memory:
    """What was read of a document: numbers in one of two forms (`attar.memory.memory`), and the index of its phrases.

    Immutable: its arrays are read-only.

    >>> index = PhraseIndex.of("Ann left.", [(0, 3, 0, 1.5)], [(0, 9)], [[5, 7]])
    >>> vectors = np.array([[1.0, -1.0]], np.float32)
    >>> a = Memory.quantized(vectors, form="phrases", phrases=index, tokens=3, reader="r")
    >>> a
    <Memory: phrases, size 2, 3 tokens, 1 phrases>
    >>> a.lookup(np.array([[3.0, 0.5]])).tolist()
    [[2.5]]
    >>> (a + a).dequantized.tolist()
    [[1.0, -1.0], [1.0, -1.0]]
    >>> Memory.from_bytes(a.to_bytes()) == a
    True
    """

    form: Form
    numbers: NDArray[np.int8]
    scales: Floats  # one per row
    phrases: PhraseIndex
    tokens: int
    reader: str  # its fingerprint

    def __post_init__(self) -> None:
        self._check()
        for name in ("numbers", "scales"):
            array = getattr(self, name).view()
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    def _check(self) -> None:
        """Refuse values that are out of range, and arrays whose shape or type does not fit the form."""
        if self.form not in FORMS:
            raise OptionError.expected("form", " or ".join(FORMS), repr(self.form))
        if self.tokens < 0:
            raise OptionError.expected("tokens", "0 or more", str(self.tokens))
        if len(self.reader.encode()) > _LONGEST_FINGERPRINT:
            expected = f"a fingerprint of at most {_LONGEST_FINGERPRINT} bytes"
            raise OptionError.expected("reader", expected, "a longer one")
        if self.numbers.dtype != np.int8 or self.scales.dtype != np.float32:
            dtypes = f"{self.numbers.dtype} and {self.scales.dtype}"
            raise DtypeError.expected(
                "numbers and scales", "int8 and float32", dtypes, "use Memory.quantized"
            )
        shape = self.numbers.shape
        if len(shape) != 2 or not self.size or (self.form == "ridge" and shape[1] <= shape[0]):
            expected = "[count, k]" if self.form == "phrases" else "[k, d + k]"
            raise ShapeError.expected("numbers", f"{expected} for {self.form}", str(list(shape)))
        if self.scales.shape != shape[:1]:
            raise ShapeError.expected("scales", str([shape[0]]), str(list(self.scales.shape)))
        if self.form == "phrases" and len(self.phrases) != len(self.numbers):
            expected = f"an index of {len(self.numbers)} phrases"
            raise ShapeError.expected("phrases", expected, str(len(self.phrases)))
        if not np.isfinite(self.scales).all():
            # Every answer from it would be NaN.
            raise OptionError.expected("memory", "finite numbers", "NaN or infinity")

    @classmethod
    def quantized(
        cls, numbers: Floats, *, form: Form, phrases: PhraseIndex, tokens: int, reader: str
    ) -> "Memory":
        """The memory of numbers in float32, which are rounded to int8."""
        rows, scales = quantize(numbers)
        return cls(form=form, numbers=rows, scales=scales, phrases=phrases, tokens=tokens, reader=reader)

    def with_numbers(self, numbers: Floats, *, phrases: PhraseIndex, tokens: int) -> "Memory":
        """A memory of the same form and reader with other numbers, which are rounded to int8."""
        return Memory.quantized(numbers, form=self.form, phrases=phrases, tokens=tokens, reader=self.reader)

    @property
    def size(self) -> int:
        """The dimension k of queries."""
        return int(self.numbers.shape[1 if self.form == "phrases" else 0])

    @cached_property
    def dequantized(self) -> Floats:
        """The numbers in float32, computed once."""
        return dequantize(self.numbers, self.scales)

    @property
    def nbytes(self) -> int:
        """The bytes of the numbers, their scales and the index, as they are stored."""
        return self.numbers.nbytes + self.scales.nbytes + len(self.phrases.to_bytes())

    @property
    def decoded_bytes(self) -> int:
        """The bytes that it takes in working memory once it was asked."""
        decoded = 5 * self.numbers.nbytes + self.scales.nbytes + self.phrases.decoded_bytes
        if self.form == "phrases":
            return decoded
        values = int(self.numbers.shape[1]) - self.size
        return decoded + 8 * self.size * values + 4 * len(self.phrases) * values

    @cached_property
    def solved(self) -> NDArray[np.float64]:
        """(G + λI)⁻¹ C of the form ridge `[k, d]`, computed once."""
        return solve_ridge(self.dequantized)

    @cached_property
    def computed(self) -> dict[str, Floats]:
        """What its reader has computed of it for a question, kept for the next ones."""
        return {}

    def lookup(self, queries: NDArray[Any]) -> Floats:
        """The readout of each query `[m, k]`: scores of phrases `[m, count]`, or Cᵀ (G + λI)⁻¹ q `[m, d]`."""
        q = np.ascontiguousarray(queries, np.float32)
        if q.ndim != 2 or q.shape[1] != self.size:
            raise ShapeError.expected("queries", f"[m, {self.size}]", str(list(q.shape)))
        if self.form == "ridge":
            readouts: Floats = (q @ self.solved).astype(np.float32)
            return readouts
        scores: Floats = q @ self.dequantized.T
        return scores

    def __add__(self, other: "Memory") -> "Memory":
        return algebra.add(self, other) if isinstance(other, Memory) else NotImplemented

    def __radd__(self, zero: object) -> "Memory":
        # sum() starts with 0.
        return self if type(zero) is int and zero == 0 else NotImplemented

    def __sub__(self, part: "Memory") -> "Memory":
        return algebra.subtract(self, part) if isinstance(part, Memory) else NotImplemented

    def to_bytes(self) -> bytes:
        """The memory as bytes, with a checksum; made once: a budget measures them before they are written."""
        return self._bytes

    @cached_property
    def _bytes(self) -> bytes:
        reader = self.reader.encode()
        count = self.numbers.shape[0 if self.form == "phrases" else 1]
        parts = (
            _HEADER.pack(FORMS.index(self.form), len(reader), self.size, count, self.tokens),
            self.numbers.tobytes(),
            self.scales.astype(_FLOAT, copy=False).tobytes(),
            reader,
            self.phrases.to_bytes(),
        )
        return wrap(KIND, b"".join(parts), "memory")

    @classmethod
    def from_bytes(cls, buffer: Buffer, name: str = "") -> "Memory":
        """The memory in a buffer; everything that the bytes claim is checked. `name` is its document's, for errors.

        Its arrays share the memory of a read-only buffer.
        """
        payload = unwrap(KIND, buffer, "memory", name)
        try:
            form_code, reader_length, size, count, tokens = _HEADER.unpack_from(payload)
            form = FORMS[form_code]
            rows, columns = (count, size) if form == "phrases" else (size, count)
            if not count and size > _LARGEST_EMPTY:
                raise ValueError(f"a size of {size} without numbers")
            scales_at = _HEADER.size + rows * columns
            reader_at = scales_at + 4 * rows
            index_at = reader_at + reader_length
            numbers = np.frombuffer(payload, np.int8, rows * columns, _HEADER.size)
            return cls(
                form=form,
                numbers=numbers.reshape(rows, columns),
                # Copied: they need not be aligned.
                scales=np.frombuffer(payload, _FLOAT, rows, scales_at).astype(np.float32),
                phrases=PhraseIndex.from_bytes(payload[index_at:]),
                tokens=tokens,
                reader=str(payload[reader_at:index_at], "utf-8"),
            )
        except (ValueError, IndexError, OverflowError, struct.error, DtypeError) as fault:
            raise RecordError(f"{called('memory', name)} is damaged: {fault}") from fault

    def __getstate__(self) -> dict[str, Any]:
        """For other processes: without what was computed of it, but with its bytes if they are made already."""
        kept = {*(field.name for field in fields(self)), "_bytes"}
        return {name: value for name, value in vars(self).items() if name in kept}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Memory):
            return NotImplemented
        return (
            (self.form, self.tokens, self.reader) == (other.form, other.tokens, other.reader)
            and np.array_equal(self.numbers, other.numbers)
            and np.array_equal(self.scales, other.scales)
            and self.phrases == other.phrases
        )

    __hash__ = None  # type: ignore[assignment]  # compared by its arrays

    def __repr__(self) -> str:
        return f"<Memory: {self.form}, size {self.size}, {self.tokens} tokens, {len(self.phrases)} phrases>"


def called(what: str, name: str) -> str:
    """What an error calls a value of a document, or of the store itself."""
    return f"{what} of {quoted(name)}" if name else what


def wrap(kind: bytes, payload: Buffer, what: str, name: str = "") -> bytes:
    """Put a payload into an envelope; `what` and the name of its document are for an error message.

    >>> bytes(unwrap(b"f", wrap(b"f", b"an entry", "entry"), "entry"))
    b'an entry'
    """
    if len(payload) > MOST_BYTES:
        expected = f"at most {MOST_BYTES:,} bytes"
        raise OptionError.expected(called(what, name), expected, f"{len(payload):,}", "split the document")
    start, length = _START.pack(_MAGIC, VERSION, kind), len(payload).to_bytes(4, "little")
    checksum = zlib.crc32(payload, zlib.crc32(start + length))
    return b"".join((start, checksum.to_bytes(4, "little"), length, payload))


def unwrap(kind: bytes, value: Buffer, what: str, name: str = "") -> memoryview:
    """Return the payload of an envelope, without copying, its checksum verified."""
    view = memoryview(value)
    if len(view) < _ENVELOPE.size:
        raise _unreadable(what, name, f"damaged: {len(view)} bytes are left")
    start, checksum, length = _ENVELOPE.unpack_from(view)
    magic, version, written_kind = _START.unpack(start)
    if magic != _MAGIC:
        raise _unreadable(what, name, "damaged, or not a record of Attar")
    if zlib.crc32(view[_LENGTH_AT:], zlib.crc32(start)) != checksum or length != len(view) - _ENVELOPE.size:
        raise _unreadable(what, name, "damaged: its checksum is wrong")
    if version != VERSION:
        message = f"{called(what, name)} was written by a newer Attar, in version {version}"
        raise RecordError(message, "update attar")
    if written_kind != kind:
        raise _unreadable(what, name, "a record of another kind")
    return view[_ENVELOPE.size :]


def _unreadable(what: str, name: str, fault: str) -> RecordError:
    remedy = "add the document again, or restore the store from a copy"
    return RecordError(f"{called(what, name)} is {fault}", remedy)
