"""Memory: the value that a document becomes, to look up, add, convert and keep."""

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attar.errors import OptionError, ShapeError
from attar.memory import algebra, forms, precision, record
from attar.memory.checks import check_mechanism, check_memory
from attar.memory.company import Company
from attar.memory.forms import FORMS_OF, Floats
from attar.text import NameTable


@dataclass(frozen=True, eq=False, repr=False)
class Memory:
    """What was read of a document: numbers in one of six forms (`attar.memory.forms`), and whose they are.

    A value: its arrays cannot be written, and its names are copied before more are learnt.

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
    scales: Floats | None  # int8 has them
    tokens: int  # read so far
    size: int  # k
    state: Floats  # [s], the encoder's, to read on from; [0] where there is none
    names: NameTable  # decoded when it is first asked for
    mechanism: str
    reader: str  # its fingerprint
    # Of each name, where the form is names. A factory: a class that has the attribute would not decode a record's.
    company: Company | None = field(default_factory=lambda: None)

    def __post_init__(self) -> None:
        check_memory(self)
        self.__dict__["numbers"] = sealed(self.numbers, self.numbers.dtype)
        self.__dict__["state"] = sealed(self.state, np.dtype(np.float32))
        if self.scales is not None:
            self.__dict__["scales"] = sealed(self.scales, np.dtype(np.float32))

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
        company: Company | None = None,
    ) -> "Memory":
        """A memory of what the mechanism wrote of one document: a row of `attar.nn`'s `Memories.state`, copied.

        `[k, k]` is packed; of softmax's states `[n, k]` those behind `tokens` are padding and left; vectors of
        names `[count, k]` are cut or filled up with zeros to the table's count, their company filled up too.

        >>> Memory.of("softmax", np.zeros((9, 2)), tokens=7, reader="r").numbers.shape
        (7, 2)
        """
        check_mechanism(mechanism)
        form, table = FORMS_OF[mechanism][0], NameTable() if names is None else names.copy()
        array = np.asarray(numbers, np.float32)
        if array.ndim != (1 if form == "last" else 2) or array.shape[-1] == 0:
            wanted = "[k, k]" if form == "triangle" else "[k]" if form == "last" else "[rows, k]"
            raise ShapeError("numbers", f"{wanted} of {mechanism}", str(list(array.shape)))
        size = array.shape[0 if form in ("triangle", "rectangle") else -1]
        if form == "triangle":
            if array.shape != (size, size):
                raise ShapeError("numbers", "[k, k]", str(list(array.shape)))
            array = forms.triangle_of(array)
        elif form == "names":
            array = algebra.with_room(array[: len(table)], len(table))
        else:
            array = np.array(array[:tokens] if form == "hidden" else array)
        known = None if company is None else company.with_room(len(table))
        last = np.array(state, np.float32)
        return cls(form, array, None, tokens, size, last, table, mechanism, reader, known)

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
        """A memory of C `[k, k]`, of which the lower triangle is kept."""
        check_mechanism(mechanism)
        if FORMS_OF[mechanism][0] != "triangle":
            wanted = "a mechanism whose memory is C [k, k]"
            raise OptionError("mechanism", wanted, repr(mechanism), "Memory.of takes the others")
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
        """A memory of F `[n, k]`, what is written of each token: F itself, or FᵀF where that is less.

        >>> Memory.of_states([[1.0, 2.0, 3.0]], reader="r").form, Memory.of_states([[1.0]], reader="r").form
        ('states', 'triangle')
        """
        F = np.array(states, np.float32)
        if F.ndim != 2 or F.shape[1] == 0:
            raise ShapeError("states", "[n, k] with k ≥ 1", str(list(F.shape)))
        (n, k), table = F.shape, NameTable() if names is None else names.copy()
        read = n if tokens is None else tokens
        memory = cls("states", F, None, read, k, np.array(state, np.float32), table, mechanism, reader)
        return memory if forms.stays_states(n, k) else memory.to_form("triangle")

    @property
    def dtype(self) -> str:
        """The type of the numbers: float32, float16 or int8."""
        return self.numbers.dtype.name

    @property
    def nbytes(self) -> int:
        """How many bytes the numbers, their scales and the names' company take."""
        more = (part.nbytes for part in (self.scales, self.company) if part is not None)
        return self.numbers.nbytes + sum(more)

    def lookup(self, queries: NDArray[Any]) -> Floats:
        """The readout of every query `[m, k]`, not divided by any scale: `[m, k]`, `[m, d]` or `[m, count]`."""
        q = np.ascontiguousarray(queries, np.float32)
        if q.ndim != 2 or q.shape[1] != self.size:
            raise ShapeError("queries", f"[m, {self.size}]", str(list(q.shape)))
        if self.form == "triangle" and self.scales is not None:
            # C = S Q S / 127: the query and the readout are scaled, k numbers each, and not the triangle.
            Q = self.numbers.astype(np.float32)
            return forms.look_up_triangle(Q, q * self.scales) * (self.scales / np.float32(precision.LEVELS))
        return forms.LOOKUPS[self.form](self.widened(), q)

    def widened(self) -> Floats:
        """The numbers in float32, in the form that they have."""
        return precision.widened(self.form, self.numbers, self.scales)

    def matrix(self) -> Floats:
        """C `[k, k]`, of a triangle or of states."""
        if self.form == "triangle":
            return forms.matrix_of(self.widened(), self.size)
        if self.form == "states":
            F = self.widened()
            return F.T @ F
        raise OptionError("matrix", "a memory that is a triangle or states", self.form, "see Memory.array")

    def array(self) -> Floats:
        """What `attar.nn` reads on from, in a new array: the matrix, or the numbers as they are in float32."""
        return self.matrix() if self.form in ("triangle", "states") else self.widened().copy()

    def astype(self, dtype: str) -> "Memory":
        """The same with its numbers in float32, float16 or int8."""
        if dtype == self.dtype:
            return self
        numbers, scales = precision.narrowed(self.form, self.widened(), dtype)
        return replace(self, numbers=numbers, scales=scales)

    def to_form(self, form: str) -> "Memory":
        """The same in another form; states can become a triangle, in float32."""
        if form == self.form:
            return self
        if (self.form, form) != ("states", "triangle"):
            raise OptionError("form", f"{self.form}, or triangle for states", repr(form))
        return replace(self, form=form, numbers=forms.triangle_of(self.matrix()), scales=None)

    def __add__(self, later: "Memory") -> "Memory":
        return algebra.added(self, later) if isinstance(later, Memory) else NotImplemented

    def __radd__(self, nothing: object) -> "Memory":
        # What sum() begins with.
        return self if type(nothing) is int and nothing == 0 else NotImplemented

    def __sub__(self, part: "Memory") -> "Memory":
        return algebra.subtracted(self, part) if isinstance(part, Memory) else NotImplemented

    def to_bytes(self) -> bytes:
        """The memory as a record, laid out as `attar.memory.record` says."""
        names = self.names.to_bytes() if "names" in self.__dict__ else self.__dict__["written_names"]
        return record.write_record(self, names)

    @classmethod
    def from_bytes(cls, buffer: record.Bytes, *, check: bool = True) -> "Memory":
        """The memory of a record, over the buffer's own bytes; `check=False` does not verify its checksum."""
        memory = cls.__new__(cls)
        memory.__dict__.update(record.read_record(buffer, check))
        return memory

    if not TYPE_CHECKING:  # a type checker would take any name for an attribute

        def __getattr__(self, name: str) -> Any:
            """Decode a record's names or their company when they are first asked for: most lookups never do."""
            written = self.__dict__.get(f"written_{name}")
            if written is None:
                raise AttributeError(f"'Memory' object has no attribute {name!r}")
            found = (
                NameTable.from_bytes(written) if name == "names" else record.company_in(written, self.numbers)
            )
            # Two threads may both decode it; what the first made is the memory's.
            return self.__dict__.setdefault(name, found)

    def __reduce__(self) -> tuple[Any, ...]:
        return Memory.from_bytes, (self.to_bytes(),)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Memory):
            return NotImplemented
        words = ("form", "dtype", "tokens", "size", "mechanism", "reader")
        return (
            all(getattr(self, word) == getattr(other, word) for word in words)
            and np.array_equal(self.numbers, other.numbers)
            and (self.scales is None or np.array_equal(self.scales, other.scales))  # type: ignore[arg-type]
            and np.array_equal(self.state, other.state)
            and self.names == other.names
            and self.company == other.company
        )

    __hash__ = None  # type: ignore[assignment]  # equal by its numbers, which are many

    def __repr__(self) -> str:
        read = f"size {self.size}, {self.tokens} tokens, {len(self.names)} names"
        read += "" if self.company is None else " with company"
        return f"<Memory: {self.mechanism} {self.form}, {read}, {self.nbytes} bytes of {self.dtype}>"


def sealed(array: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """The array in order and in the type, as a view that cannot be written."""
    view = np.ascontiguousarray(array, dtype).view()
    view.flags.writeable = False
    return view
