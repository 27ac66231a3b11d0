"""Memories added and taken apart: reading two texts apart and adding is reading both.

    linear, gated       C + C', C − C'; states beside states while they are fewer numbers than the triangle
    keyed               C + C', C − C'
    named               name by name, C_e + C'_e, C_e − C'_e, whatever the ids; each one's company likewise
    softmax             H beside H'; nothing can be taken out again
    none                the later state; nothing can be taken out again
    decayed, adaptive   how much of the first is left depends on the second's words: only reading on is exact

A sum is float32. What is written with ids can be added only where an id means one name in both.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from attar.errors import OptionError, ShapeError
from attar.memory.forms import Floats, stays_states
from attar.text import NameTable

if TYPE_CHECKING:
    from attar.memory.memory import Memory

FORGETFUL = ("decayed", "adaptive")
SUBTRACTIVE = ("linear", "gated", "keyed", "named")


def added(earlier: "Memory", later: "Memory") -> "Memory":
    """The memory of both texts; reading goes on where the later one ended."""
    check_alike("a + b", earlier, later)
    if earlier.mechanism in FORGETFUL:
        came, remedy = repr(earlier.mechanism), "read on with extend(a, text of b)"
        raise OptionError("a + b", "a mechanism that forgets nothing", came, remedy)
    names, places = joined_names(earlier, later)
    tokens = earlier.tokens + later.tokens
    last = later if later.tokens else earlier
    if earlier.form == "last":
        return replace(last, tokens=tokens, names=names)
    whole: dict[str, Any] = {"tokens": tokens, "names": names, "state": last.state, "scales": None}
    if earlier.form == "names":
        numbers = with_room(earlier.widened(), len(names))
        # Two of the later names may be parts of one here.
        np.add.at(numbers, places, later.widened())
        company = earlier.company
        if company is not None and later.company is not None:
            company = company.added(later.company, places, len(names))
        return replace(earlier, numbers=numbers, company=company, **whole)
    if earlier.form == "hidden" or stay_states(earlier, later):
        return replace(earlier, numbers=np.concatenate((earlier.widened(), later.widened())), **whole)
    form, a, b = summands(earlier, later)
    return replace(earlier, form=form, numbers=a + b, **whole)


def subtracted(whole: "Memory", part: "Memory") -> "Memory":
    """The memory without what the part wrote; names and the state to read on from stay the whole's."""
    check_alike("a - b", whole, part)
    if whole.mechanism not in SUBTRACTIVE:
        wanted = "a mechanism that sums: " + ", ".join(SUBTRACTIVE)
        raise OptionError("a - b", wanted, repr(whole.mechanism), "read what should stay again")
    if part.tokens > whole.tokens:
        raise OptionError("a - b", f"a part of the {whole.tokens} tokens of a", f"{part.tokens} tokens")
    left: dict[str, Any] = {"tokens": whole.tokens - part.tokens, "scales": None}
    if whole.form == "names":
        places = found_names(whole, part)
        numbers = with_room(whole.widened(), len(whole.names))
        np.subtract.at(numbers, places, part.widened())
        company = whole.company
        if company is not None and part.company is not None:
            company = company.subtracted(part.company, places)
        return replace(whole, numbers=numbers, company=company, **left)
    check_one_table("a - b", whole.names.agrees_with(part.names))
    form, a, b = summands(whole, part)
    return replace(whole, form=form, numbers=a - b, **left)


def check_alike(what: str, a: "Memory", b: "Memory") -> None:
    """Refuse memories of different readers, mechanisms or sizes."""
    if a.reader != b.reader:
        remedy = "read both texts with one reader"
        raise OptionError(what, f"memories of reader {a.reader!r}", f"one of {b.reader!r}", remedy)
    if a.mechanism != b.mechanism:
        raise OptionError(what, f"two {a.mechanism} memories", f"{a.mechanism} and {b.mechanism}")
    if a.size != b.size:
        raise ShapeError(what, f"memories of size {a.size}", f"one of size {b.size}")
    if a.form == "rectangle" and a.numbers.shape != b.numbers.shape:
        raise ShapeError(what, str(list(a.numbers.shape)), str(list(b.numbers.shape)), "one size of values")
    if (a.company is None) != (b.company is None):
        remedy = "read both texts with one reader"
        raise OptionError(what, "company in both memories or in neither", "one with and one without", remedy)


def check_one_table(what: str, alike: bool) -> None:
    """Refuse memories written with ids that do not mean the same names."""
    if not alike:
        remedy = "read the documents together: Reader.read_many(texts, together=True)"
        raise OptionError(what, "memories read under one table of names", "two tables that differ", remedy)


def joined_names(earlier: "Memory", later: "Memory") -> tuple[NameTable, list[int]]:
    """One table for both, and the ids that the later one's names have in it."""
    by_name = earlier.form == "names"
    if by_name:
        check_rows(later)
    if later.names == earlier.names:
        return earlier.names, list(range(len(earlier.names)))
    check_one_table("a + b", by_name or earlier.names.agrees_with(later.names))
    table = earlier.names.copy()
    found = table.learn_all(later.names)
    places = [place for place in found if place is not None]
    if len(places) < len(found):
        came = f"{len(found) - len(places)} more"
        raise OptionError("a + b", f"at most {table.limit} names", came, "ask the documents apart")
    check_one_table("a + b", by_name or places == list(range(len(places))))
    return table, places


def found_names(whole: "Memory", part: "Memory") -> list[int]:
    """The ids in the whole of the part's names."""
    check_rows(part)
    found = [whole.names.resolve(name.split()) for name in part.names.names]
    missing = [name for name, place in zip(part.names.names, found, strict=True) if place is None]
    if missing:
        raise OptionError("a - b", "a part whose names are all in a", f"{missing[0]!r}, which is not")
    return [place for place in found if place is not None]


def check_rows(memory: "Memory") -> None:
    """Refuse vectors that do not belong to one name each."""
    rows, names = len(memory.numbers), len(memory.names)
    if rows != names:
        raise ShapeError("numbers", f"one vector for each of {names} names", str(rows))


def with_room(rows: Floats, count: int) -> Floats:
    """A copy of the rows, and rows of zeros behind them up to so many."""
    wide = np.zeros((max(count, len(rows)), rows.shape[1]), np.float32)
    wide[: len(rows)] = rows
    return wide


def stay_states(a: "Memory", b: "Memory") -> bool:
    """Whether both are states, and together still fewer numbers than the triangle."""
    return a.form == b.form == "states" and stays_states(len(a.numbers) + len(b.numbers), a.size)


def summands(a: "Memory", b: "Memory") -> tuple[str, Floats, Floats]:
    """Both in one form whose numbers can be added."""
    if "states" in (a.form, b.form):
        a, b = a.to_form("triangle"), b.to_form("triangle")
    return a.form, a.widened(), b.widened()
