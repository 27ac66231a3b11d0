"""Memory: what is kept of a document. It can be queried, merged, extended and stored.

As bytes, in the envelope of `attar.memory.forms`, little-endian:

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
"""

import struct
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attar.errors import DtypeError, OptionError, RecordError, ShapeError
from attar.memory import algebra
from attar.memory.envelope import Buffer, unwrap, wrap
from attar.memory.forms import FORMS, Floats, Form, dequantize, quantize, solve_ridge
from attar.memory.phrases import PhraseIndex

KIND = b"m"
_HEADER = struct.Struct("<BxHIIQ36x")
_FLOAT = np.dtype("<f4")
# The largest k of a memory without phrases, whose k no bytes vouch for.
_LARGEST_EMPTY = 2**14
# A record has two bytes for the length of the fingerprint.
_LONGEST_FINGERPRINT = 2**16 - 1


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Memory:
    """What was read of a document: numbers in one of two forms (`attar.memory.forms`), and the index of its phrases.

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
        dtypes = f"{self.numbers.dtype} and {self.scales.dtype}"
        if dtypes != "int8 and float32":
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
    def from_bytes(cls, buffer: Buffer, what: str = "memory") -> "Memory":
        """The memory in a buffer; everything that the bytes claim is checked. `what` names it in errors.

        Its arrays are those of the buffer, if that is read-only.
        """
        payload = unwrap(KIND, buffer, what)
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
                scales=np.frombuffer(bytes(payload[scales_at:reader_at]), _FLOAT, rows).astype(np.float32),
                phrases=PhraseIndex.from_bytes(payload[index_at:]),
                tokens=tokens,
                reader=str(payload[reader_at:index_at], "utf-8"),
            )
        except (ValueError, IndexError, OverflowError, struct.error, DtypeError) as fault:
            raise RecordError(f"{what} is damaged: {fault}") from fault

    def __reduce__(self) -> tuple[Any, ...]:
        return Memory.from_bytes, (self.to_bytes(),)

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
