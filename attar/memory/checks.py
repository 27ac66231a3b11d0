"""What a memory must be before it is one: its form its mechanism's, its numbers its form's."""

from typing import TYPE_CHECKING

from attar.errors import DtypeError, OptionError, ShapeError
from attar.memory.forms import FORMS_OF, count_in, shape_for
from attar.memory.precision import PRECISIONS, scale_count

if TYPE_CHECKING:
    from attar.memory.memory import Memory

# A record has two bytes for its length.
LONGEST_READER = 2**16 - 1


def check_memory(memory: "Memory") -> None:
    """Refuse what does not fit together."""
    check_mechanism(memory.mechanism)
    if memory.form not in FORMS_OF[memory.mechanism]:
        wanted = " or ".join(FORMS_OF[memory.mechanism])
        raise OptionError("form", f"{wanted} for {memory.mechanism}", repr(memory.form))
    if memory.size < 1:
        raise OptionError("size", "a whole number from 1 up", str(memory.size))
    if memory.tokens < 0:
        raise OptionError("tokens", "a whole number from 0 up", str(memory.tokens))
    if len(memory.reader.encode()) > LONGEST_READER:
        raise OptionError("reader", f"a fingerprint of up to {LONGEST_READER} bytes", "a longer one")
    if memory.state.ndim != 1:
        raise ShapeError("state", "[s]", str(list(memory.state.shape)))
    check_numbers(memory)
    check_company(memory)


def check_mechanism(mechanism: str) -> None:
    """Refuse a mechanism that is none of the family's."""
    if mechanism not in FORMS_OF:
        raise OptionError("mechanism", "one of " + ", ".join(FORMS_OF), repr(mechanism))


def check_numbers(memory: "Memory") -> None:
    """Refuse numbers, or scales, of another shape or type than the form has."""
    if memory.dtype not in PRECISIONS:
        remedy = "convert them, or use Memory.of"
        raise DtypeError("numbers", " or ".join(PRECISIONS), memory.dtype, remedy)
    came = memory.numbers.shape
    shape = shape_for(memory.form, memory.size, count_in(memory.form, came))
    if came != shape:
        raise ShapeError("numbers", f"{list(shape)} for {memory.form}", str(list(came)))
    wanted = (scale_count(memory.form, memory.size, shape),) if memory.dtype == "int8" else None
    scales = None if memory.scales is None else memory.scales.shape
    if scales != wanted:
        expected, found = ("none" if side is None else str(list(side)) for side in (wanted, scales))
        raise ShapeError("scales", f"{expected} for {memory.dtype}", found)


def check_company(memory: "Memory") -> None:
    """Refuse company in a form without names, or of another number of names."""
    if memory.company is None:
        return
    if memory.form != "names":
        raise OptionError("company", "a memory of one vector a name", memory.form)
    rows, known = len(memory.numbers), len(memory.company)
    if rows != known:
        raise ShapeError("company", f"that of each of {rows} names", f"that of {known}")
