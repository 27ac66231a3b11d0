"""`attar bench store`: the store beside stored hidden states, its own limits, and reading alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from attar.bench.case import Case
from attar.bench.clocks import QUICK, Effort, WallClock
from attar.bench.machine import this_machine
from attar.bench.ops import Report, busy_notes, report_on
from attar.bench.store_filling import Piles, Sizes, Tell
from attar.bench.store_rows import store_cases
from attar.errors import OptionError
from attar.ops import COMPILED, product_in_use
from attar.store import compile_lookups

LOOKUPS_AT_ONCE = 256
DOCUMENTS_ADDED = 64
DTYPES = ("float32", "float16", "int8")
# Long enough that a commit's wait for the disk, which is no work, is averaged over several.
ADDING = Effort(budget=8.0, rounds=6)


@dataclass(frozen=True)
class Wanted:
    """What is measured: how large a store, of what, where, and with which reader on which data."""

    documents: int = 10_000
    dtype: str = "float32"
    synthetic: bool = False
    place: Path | None = None
    data: Sequence[Path] = ()
    reader: Path | None = None
    quick: bool = False

    def sizes(self) -> Sizes:
        """The sizes of the made-up memories."""
        if self.dtype not in DTYPES:
            raise OptionError("--dtype", " or ".join(DTYPES), repr(self.dtype))
        if self.quick:
            return Sizes(min(self.documents, 40), tokens=60, size=20, dtype=self.dtype)
        return Sizes(self.documents, dtype=self.dtype)


def cases(wanted: Wanted, piles: Piles) -> tuple[list[Case], list[str]]:
    """Every row that was asked for, and a line for each that was not measured."""
    effort = QUICK if wanted.quick else Effort()
    many = min(LOOKUPS_AT_ONCE, piles.sizes.documents)
    found, notes = store_cases(piles, WallClock(effort, threads=1), many), list[str]()
    if wanted.synthetic:
        return found, notes
    from attar.bench.store_reading import accuracy_cases, adding_case

    clock = WallClock(QUICK if wanted.quick else ADDING, threads=1)
    found.append(adding_case(wanted.reader, piles.folder, clock, 2 if wanted.quick else DOCUMENTS_ADDED))
    if wanted.data:
        found += accuracy_cases(wanted.data, wanted.reader)
    else:
        notes.append("What rounding costs in right answers needs a cloze set: --data DIR.")
    return found, notes


def run(wanted: Wanted, *, only: str | None = None, tell: Tell = lambda done, total, what: None) -> Report:
    """Measure every row; `tell(done, total, what)` is called before each one, and while a store is filled."""
    machine = this_machine()  # before the first row adds to its load
    compile_lookups()  # what is measured is a program that has asked often enough
    COMPILED.now()
    torch.manual_seed(0)
    with Piles(wanted.sizes(), wanted.place, tell) as piles:
        found, notes = cases(wanted, piles)
        notes.append(f"Packed memories were multiplied by: {product_in_use()}.")
        return report_on(machine, found, only, tell, [*notes, *busy_notes(machine)])
