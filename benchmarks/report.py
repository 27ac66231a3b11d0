"""Reports: the machine and its measured rows, as a table or as JSON."""

from collections.abc import Sequence

import msgspec
from rich.console import Console

from attar.errors import OptionError
from attar.paper.timing import Machine, print_plain, print_table, quantity
from attar.progress import Progress, ignore_progress
from benchmarks.comparison import Case, Row, measure

COLUMNS = ["what", "ours", "against", "theirs", "ratio", "spread", "target", ""]


class Report(msgspec.Struct, frozen=True):
    """All rows, the machine, and notes, for example on what could not be measured."""

    machine: Machine
    rows: list[Row]
    notes: list[str]

    @property
    def correct(self) -> bool:
        """Whether no row is wrong or failed."""
        return not any(row.verdict in ("wrong", "failed") for row in self.rows)


def run_cases(
    machine: Machine,
    cases: Sequence[Case],
    only: str | None = None,
    progress: Progress = ignore_progress,
    notes: Sequence[str] = (),
    *,
    judged: bool = True,
) -> Report:
    """Measure the cases whose text contains `only`; with `judged=False` none is compared with its target."""
    chosen = choose(cases, only)
    rows = []
    for done, case in enumerate(chosen):
        progress("measuring", done, len(chosen))
        rows.append(measure(case, judged=judged))
    return Report(machine, rows, list(notes))


def choose(cases: Sequence[Case], only: str | None) -> list[Case]:
    """The cases whose text contains `only`, ignoring case."""
    chosen = [c for c in cases if only is None or only.casefold() in f"{c.what} {c.against}".casefold()]
    if not chosen:
        names = "; ".join(dict.fromkeys(case.what for case in cases))
        raise OptionError.expected("--only", "part of a row's name", repr(only), f"rows: {names}")
    return chosen


def print_report(report: Report, console: Console) -> None:
    """Print the machine, the table and the notes."""
    print_plain(console, f"{report.machine}\n")
    print_table(console, COLUMNS, [_cells(row) for row in report.rows])
    notes = [f"{row.what}: {row.note}" for row in report.rows if row.note] + report.notes
    print_plain(console, "".join(f"\n- {note}" for note in notes))


def _cells(row: Row) -> list[str]:
    spread = "–" if row.low is None or row.high is None else f"{row.low:.3g} … {row.high:.3g}"
    ratio = "–" if row.ratio is None else f"{row.ratio:.3g} ×"
    ours, theirs = quantity(row.ours, row.unit), quantity(row.theirs, row.unit)
    target, verdict = str(row.goal), str(row.verdict)
    if row.verdict == "not judged":
        target, verdict = "–", "not judged at this size"
    return [row.what, ours, row.against, theirs, ratio, spread, target, verdict]


def report_json(report: Report) -> str:
    """{"machine": …, "rows": [{what, against, ratio, target, met, …}], "notes": […]}."""
    data = msgspec.to_builtins(report)
    for written, row in zip(data["rows"], report.rows, strict=True):
        written["met"] = row.met
    return msgspec.json.format(msgspec.json.encode(data), indent=2).decode()
