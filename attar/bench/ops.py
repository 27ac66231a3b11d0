"""`attar bench ops`: the operations beside what people use today, all rows in one run."""

from collections.abc import Callable, Sequence

import msgspec
import torch

from attar.bench.case import Case, Row, measure
from attar.bench.clocks import QUICK, DeviceClock, Effort
from attar.bench.cpu import cpu_cases
from attar.bench.machine import Machine, this_machine
from attar.errors import OptionError

Tell = Callable[[int, int, str], None]


class Report(msgspec.Struct, frozen=True):
    """All rows, the machine that they were measured on, and what could not be measured there."""

    machine: Machine
    rows: list[Row]
    notes: list[str]


def cases(*, quick: bool = False) -> tuple[list[Case], str]:
    """Every row that this machine can measure, and a line on those that it cannot."""
    found = cpu_cases(QUICK if quick else Effort(), quick=quick)
    if not torch.cuda.is_available():
        return found, "GPU rows need a CUDA device; there is none here."
    # Short rounds: a launch queue holds about a thousand kernels.
    return found + gpu_cases(QUICK if quick else Effort(round_seconds=0.004), quick=quick), ""


def gpu_cases(effort: Effort, *, quick: bool = False) -> list[Case]:
    """The rows that need a GPU."""
    from attar.bench.gpu_bank import bank_cases
    from attar.bench.gpu_encode import encode_cases
    from attar.bench.gpu_scan import scan_cases

    clock = DeviceClock(effort)
    shape = (16, 96, 128) if quick else (512, 750, 128)
    documents = 10_000 if quick else 1_000_000
    copied = 2**26 if quick else 2**31
    return [
        *encode_cases(clock, shape),
        *scan_cases(clock, shape),
        *bank_cases(clock, documents, 128, copied=copied),
        *bank_cases(clock, documents, 128, dtype=torch.int8, copied=copied),
    ]


def chosen(rows: Sequence[Case], only: str | None) -> list[Case]:
    """The rows whose text holds `only`, in any case of letters."""
    if only is None:
        return list(rows)
    kept = [row for row in rows if only.casefold() in f"{row.what} {row.against}".casefold()]
    if not kept:
        names = "; ".join(dict.fromkeys(row.what for row in rows))
        raise OptionError("--only", "part of a row's name", repr(only), f"there are: {names}")
    return kept


def report_on(
    machine: Machine, found: Sequence[Case], only: str | None, tell: Tell, notes: Sequence[str] = ()
) -> Report:
    """Measure the rows that are wanted; `tell(done, total, what)` is called before each one."""
    kept = chosen(found, only)
    rows = []
    for done, case in enumerate(kept):
        tell(done, len(kept), f"{case.what}, against {case.against}")
        rows.append(measure(case))
    return Report(machine, rows, list(notes))


def busy_notes(machine: Machine, advice: str = "times are not to be trusted.") -> list[str]:
    """What to think of the numbers where others were at work."""
    if not machine.busy:
        return []
    return [f"The machine was busy (load {machine.load} on {machine.cores} cores): {advice}"]


def run(
    *,
    quick: bool = False,
    only: str | None = None,
    tell: Tell = lambda done, total, what: None,
) -> Report:
    """Measure every row."""
    found, note = cases(quick=quick)
    machine = this_machine()  # before the first row adds to its load
    torch.manual_seed(0)
    advice = "rows of several threads are not to be trusted, since threads wait for each other."
    notes = [*([note] if note else []), *busy_notes(machine, advice)]
    return report_on(machine, found, only, tell, notes)
