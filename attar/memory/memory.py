"""Memory: what is kept of a document. It can be queried, merged, extended, converted and stored."""

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attar.errors import DtypeError, OptionError, RecordError, ShapeError
from attar.memory import algebra, forms, record
from attar.memory.cooccurrence import Cooccurrence
from attar.memory.forms import FORMS_OF, PRECISIONS, Floats
from attar.memory.phrases import PhraseIndex
from attar.text.name_table import NameTable

# A record has two bytes for the length of the fingerprint.
_LONGEST_FINGERPRINT = 2**16 - 1


@dataclass(frozen=True, eq=False, repr=False)
class Memory:
    """What was read of a document: numbers in one of eight forms (`attar.memory.forms`), names, and the encoder state.

    Immutable: its arrays are read-only, and its names are copied before more are learned.

    >>> a = Memory.of("linear", [[1.0, 2.0], [2.0, 5.0]], tokens=3, reader="r")
    >>> a
    <Memory: linear triangle, size 2, 3 tokens, 0 names, 12 bytes of float32>
    >>> a.lookup(np.array([[1.0, 0.0]])).tolist()
    [[1.0, 2.0]]
    >>> (a + a).matrix().tolist(), a + a - a == a
    ([[2.0, 4.0], [4.0, 10.0]], True)
    >>> Memory.from_bytes(a.to_bytes()) == a
    True
    """

    form: str
    numbers: NDArray[Any]
    scales: Floats | None  # for int8 only
    tokens: int  # read so far
    size: int  # k
    state: Floats  # [s]: the encoder state to extend from; [0] if there is none
    names: NameTable  # decoded on first use
    mechanism: str
    reader: str  # its fingerprint
    # For the form names only. A default factory, as a class attribute would prevent decoding on first use.
    cooccurrence: Cooccurrence | None = field(default_factory=lambda: None)
    # For the forms phrases and ridge only, and always.
    phrases: PhraseIndex | None = field(default_factory=lambda: None)

    def __post_init__(self) -> None:
        self._check()
        self.__dict__["numbers"] = _read_only(self.numbers, self.numbers.dtype)
        self.__dict__["state"] = _read_only(self.state, np.dtype(np.float32))
        if self.scales is not None:
            self.__dict__["scales"] = _read_only(self.scales, np.dtype(np.float32))

    def _check(self) -> None:
        """Refuse values that are out of range, and arrays whose shape or type does not fit the form."""
        _check_mechanism(self.mechanism)
        if self.form not in FORMS_OF[self.mechanism]:
            expected = " or ".join(FORMS_OF[self.mechanism])
            raise OptionError.expected("form", f"{expected} for {self.mechanism}", repr(self.form))
        for name, lowest in (("size", 1), ("tokens", 0)):
            if getattr(self, name) < lowest:
                raise OptionError.expected(name, f"an integer of at least {lowest}", str(getattr(self, name)))
        if len(self.reader.encode()) > _LONGEST_FINGERPRINT:
            expected = f"a fingerprint of at most {_LONGEST_FINGERPRINT} bytes"
            raise OptionError.expected("reader", expected, "a longer one")
        if self.state.ndim != 1:
            raise ShapeError.expected("state", "[s]", str(list(self.state.shape)))
        if self.dtype not in PRECISIONS:
            remedy = "convert them, or use Memory.of"
            raise DtypeError.expected("numbers", " or ".join(PRECISIONS), self.dtype, remedy)
        shape = self.numbers.shape
        fitting = forms.shape_for(self.form, self.size, forms.count_in(self.form, shape))
        if shape != fitting:
            raise ShapeError.expected("numbers", f"{list(fitting)} for {self.form}", str(list(shape)))
        needed = [forms.scale_count(self.form, self.size, shape)] if self.dtype == "int8" else None
        scales = None if self.scales is None else list(self.scales.shape)
        if scales != needed:
            raise ShapeError.expected("scales", f"{needed or 'none'} for {self.dtype}", str(scales or "none"))
        if self.cooccurrence is not None and self.form != "names":
            raise OptionError.expected("cooccurrence", "a memory with one vector per name", self.form)
        if (self.form in forms.INDEXED) != (self.phrases is not None) or (
            self.phrases is not None and self.form == "phrases" and len(self.phrases) != len(self.numbers)
        ):
            raise OptionError.expected(
                "phrases", "an index of the form's phrases", f"another, or none for {self.form}"
            )
        if self.cooccurrence is not None and len(self.cooccurrence) != len(self.numbers):
            expected, came = f"counts of {len(self.numbers)} names", f"those of {len(self.cooccurrence)}"
            raise ShapeError.expected("cooccurrence", expected, came)

    @classmethod
    def of(
        cls,
        mechanism: str,
        numbers: ArrayLike,
        *,
        tokens: int,
        reader: str,
        names: NameTable | None = None,
        state: ArrayLike = (),
        cooccurrence: Cooccurrence | None = None,
    ) -> "Memory":
        """A memory of one document's row of `attar.nn.Memories.state`, copied.

        `[k, k]` is packed. Of softmax's states `[n, k]` only the first `tokens` are kept, the rest is padding. The
        vectors of names `[count, k]`, and their co-occurrence counts, are cut or padded to the names of the table.

        >>> Memory.of("softmax", np.zeros((9, 2)), tokens=7, reader="r").numbers.shape
        (7, 2)
        """
        _check_mechanism(mechanism)
        form, table = FORMS_OF[mechanism][0], NameTable() if names is None else names.copy()
        array = np.asarray(numbers, np.float32)
        if array.ndim != (1 if form == "last" else 2) or array.shape[-1] == 0:
            expected = "[k, k]" if form == "triangle" else "[k]" if form == "last" else "[rows, k]"
            raise ShapeError.expected("numbers", f"{expected} of {mechanism}", str(list(array.shape)))
        size = array.shape[0 if form in ("triangle", "rectangle") else -1]
        if form == "triangle":
            if array.shape != (size, size):
                raise ShapeError.expected("numbers", "[k, k]", str(list(array.shape)))
            array = forms.triangle_of(array)
        elif form == "names":
            array = forms.pad_rows(array[: len(table)], len(table))
        else:
            array = np.array(array[:tokens] if form == "hidden" else array)
        counts = None if cooccurrence is None else cooccurrence.pad(len(table))
        last = np.array(state, np.float32)
        return cls(form, array, None, tokens, size, last, table, mechanism, reader, counts)

    @classmethod
    def of_matrix(
        cls,
        matrix: ArrayLike,
        *,
        tokens: int,
        reader: str,
        mechanism: str = "gated",
        names: NameTable | None = None,
        state: ArrayLike = (),
    ) -> "Memory":
        """A memory of C `[k, k]`; its lower triangle is kept."""
        _check_mechanism(mechanism)
        if FORMS_OF[mechanism][0] != "triangle":
            expected = "a mechanism whose memory is C [k, k]"
            raise OptionError.expected("mechanism", expected, repr(mechanism), "use Memory.of for the others")
        return cls.of(mechanism, matrix, tokens=tokens, reader=reader, names=names, state=state)

    @classmethod
    def of_states(
        cls,
        states: ArrayLike,
        *,
        reader: str,
        mechanism: str = "gated",
        tokens: int | None = None,
        names: NameTable | None = None,
        state: ArrayLike = (),
    ) -> "Memory":
        """A memory of F `[n, k]`, the vectors written per token: F itself, or FᵀF if that is smaller.

        >>> Memory.of_states([[1.0, 2.0, 3.0]], reader="r").form, Memory.of_states([[1.0]], reader="r").form
        ('states', 'triangle')
        """
        F = np.array(states, np.float32)
        if F.ndim != 2 or F.shape[1] == 0:
            raise ShapeError.expected("states", "[n, k] with k ≥ 1", str(list(F.shape)))
        (n, k), table = F.shape, NameTable() if names is None else names.copy()
        count = n if tokens is None else tokens
        memory = cls("states", F, None, count, k, np.array(state, np.float32), table, mechanism, reader)
        return memory if forms.states_are_smaller(n, k) else memory.to_form("triangle")

    @property
    def dtype(self) -> str:
        """The precision of the numbers: float32, float16 or int8."""
        return self.numbers.dtype.name

    @property
    def nbytes(self) -> int:
        """How many bytes the numbers, their scales, the co-occurrence counts and the index of phrases take."""
        parts = (self.scales, self.cooccurrence, self.phrases)
        optional = (part.nbytes for part in parts if part is not None)
        return self.numbers.nbytes + sum(optional)

    def lookup(self, queries: NDArray[Any]) -> Floats:
        """The readout of each query `[m, k]`, not scaled by length: `[m, k]`, `[m, d]` or `[m, count]`."""
        q = np.ascontiguousarray(queries, np.float32)
        if q.ndim != 2 or q.shape[1] != self.size:
            raise ShapeError.expected("queries", f"[m, {self.size}]", str(list(q.shape)))
        return forms.look_up(self.form, self.numbers, self.scales, q)

    def to_float32(self) -> Floats:
        """The numbers in float32, in the same form."""
        return forms.to_float32(self.form, self.numbers, self.scales)

    def matrix(self) -> Floats:
        """C `[k, k]` of a triangle or of states."""
        if self.form == "triangle":
            return forms.matrix_of(self.to_float32(), self.size)
        if self.form == "states":
            F = self.to_float32()
            return F.T @ F
        raise OptionError.expected(
            "matrix", "a memory of form triangle or states", self.form, "use Memory.array"
        )

    def array(self) -> Floats:
        """A new array that `attar.nn` can extend: the matrix, or the numbers in float32."""
        return self.matrix() if self.form in ("triangle", "states") else self.to_float32().copy()

    def astype(self, dtype: str) -> "Memory":
        """The memory with its numbers in float32, float16 or int8."""
        if dtype == self.dtype:
            return self
        if dtype == "float16" and self.form in forms.INDEXED:
            return self.astype("int8")  # a store's default; phrases lose nothing that can be measured in int8
        numbers, scales = forms.to_precision(self.form, self.to_float32(), dtype)
        return replace(self, numbers=numbers, scales=scales)

    def to_form(self, form: str) -> "Memory":
        """The memory in another form: only states can be converted, to a triangle in float32."""
        if form == self.form:
            return self
        if (self.form, form) != ("states", "triangle"):
            raise OptionError.expected("form", f"{self.form}, or triangle for states", repr(form))
        return replace(self, form=form, numbers=forms.triangle_of(self.matrix()), scales=None)

    def __add__(self, other: "Memory") -> "Memory":
        return algebra.add(self, other) if isinstance(other, Memory) else NotImplemented

    def __radd__(self, zero: object) -> "Memory":
        # sum() starts with 0.
        return self if type(zero) is int and zero == 0 else NotImplemented

    def __sub__(self, part: "Memory") -> "Memory":
        return algebra.subtract(self, part) if isinstance(part, Memory) else NotImplemented

    def to_bytes(self) -> bytes:
        """The memory as bytes, in the layout of `attar.memory.record`."""
        names = self.names.to_bytes() if "names" in self.__dict__ else self.__dict__["written_names"]
        return record.write_record(self, names)

    @classmethod
    def from_bytes(cls, buffer: record.Bytes, *, check: bool = True) -> "Memory":
        """The memory in a buffer, its arrays not copied; `check=False` skips the checksum."""
        memory = cls.__new__(cls)
        memory.__dict__.update(record.read_record(buffer, check))
        for name in ("cooccurrence", "phrases") if check else ():
            if name not in memory.__dict__:
                memory._decode(name, check)
        return memory

    def is_finite(self) -> bool:
        """Whether there is neither NaN nor infinity in it."""
        parts = (self.numbers, self.state) if self.scales is None else (self.scales, self.state)
        return all(bool(np.isfinite(part).all()) for part in parts)

    def check_contents(self) -> None:
        """Raise `RecordError` for what a record can hold and reading a text cannot produce; decodes all of it."""
        if not self.is_finite():
            raise RecordError.expected("memory", "finite numbers", "NaN or infinity", "the record is damaged")
        self.names.check_contents()
        if self.form == "names" and len(self.names) != len(self.numbers):
            expected = f"the names of {len(self.numbers)} vectors"
            raise RecordError.expected(
                "memory", expected, f"{len(self.names)} names", "the record is damaged"
            )

    if not TYPE_CHECKING:  # a type checker would accept any attribute

        def __getattr__(self, name: str) -> Any:
            """Decode the names and the co-occurrence counts of a record on first use: most lookups need neither."""
            if f"written_{name}" not in self.__dict__:
                raise AttributeError(f"'Memory' object has no attribute {name!r}")
            return self._decode(name)

    def _decode(self, name: str, check: bool = False) -> Any:
        written = self.__dict__[f"written_{name}"]
        decoded: NameTable | Cooccurrence | PhraseIndex
        if name == "names":
            decoded = NameTable.from_bytes(written)
        elif name == "phrases":
            decoded = PhraseIndex.from_bytes(written)
            if self.form == "phrases" and len(decoded) != len(self.numbers):
                expected = f"an index of {len(self.numbers)} phrases"
                raise RecordError.expected(
                    "memory", expected, f"one of {len(decoded)}", "the record is damaged"
                )
        else:
            decoded = Cooccurrence.from_bytes(written, check=check)
            if len(decoded) != len(self.numbers):
                expected = f"co-occurrence counts of {len(self.numbers)} names"
                raise RecordError.expected(
                    "memory", expected, f"those of {len(decoded)}", "the record is damaged"
                )
        # If two threads decode it at once, both use the first result.
        return self.__dict__.setdefault(name, decoded)

    def __reduce__(self) -> tuple[Any, ...]:
        return Memory.from_bytes, (self.to_bytes(),)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Memory):
            return NotImplemented
        fields = ("form", "dtype", "tokens", "size", "mechanism", "reader")
        return (
            all(getattr(self, name) == getattr(other, name) for name in fields)
            and np.array_equal(self.numbers, other.numbers)
            and (self.scales is None or np.array_equal(self.scales, other.scales))  # type: ignore[arg-type]
            and np.array_equal(self.state, other.state)
            and self.names == other.names
            and self.cooccurrence == other.cooccurrence
            and self.phrases == other.phrases
        )

    __hash__ = None  # type: ignore[assignment]  # compared by its arrays

    def __repr__(self) -> str:
        count = f"{len(self.names)} names" if self.form != "phrases" else f"{len(self.numbers)} phrases"
        contents = f"size {self.size}, {self.tokens} tokens, {count}"
        contents += "" if self.cooccurrence is None else " with co-occurrence"
        return f"<Memory: {self.mechanism} {self.form}, {contents}, {self.nbytes} bytes of {self.dtype}>"


def _check_mechanism(mechanism: str) -> None:
    if mechanism not in FORMS_OF:
        raise OptionError.expected("mechanism", "one of " + ", ".join(FORMS_OF), repr(mechanism))


def _read_only(array: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """A contiguous read-only view or copy of the array in the dtype."""
    view = np.ascontiguousarray(array, dtype).view()
    view.flags.writeable = False
    return view
