"""A report of measured rows: as a table, as JSON, as a plot."""

from pathlib import Path

import msgspec
from rich.console import Console

from attar.bench.case import Row
from attar.bench.ops import Report
from attar.bench.tables import print_table, quantity

COLUMNS = ["what", "ours", "against", "theirs", "ratio", "spread", "target", ""]


def print_report(report: Report, console: Console) -> None:
    """The machine, the table, and under it what needs more words than a cell."""
    console.print(str(report.machine), highlight=False, soft_wrap=True)
    console.print()
    print_table(console, COLUMNS, [cells(row) for row in report.rows])
    notes = [f"{row.what}: {row.note}" for row in report.rows if row.note] + report.notes
    if notes:
        console.print()
    for note in notes:
        console.print(f"- {note}", highlight=False, markup=False, soft_wrap=True)


def cells(row: Row) -> list[str]:
    """A row as text; where the result was wrong there is no timing, only the word."""
    spread = "–" if row.low is None or row.high is None else f"{row.low:.3g} … {row.high:.3g}"
    return [
        row.what,
        quantity(row.ours, row.unit),
        row.against,
        quantity(row.theirs, row.unit),
        "–" if row.ratio is None else f"{row.ratio:.3g} ×",
        spread,
        str(row.goal),
        row.verdict,
    ]


def to_json(report: Report) -> bytes:
    """{"machine": …, "rows": [{what, against, ratio, target, met, …}], "notes": […]}."""
    data = msgspec.to_builtins(report)
    for written, row in zip(data["rows"], report.rows, strict=True):
        written["met"] = row.met
    return msgspec.json.format(msgspec.json.encode(data), indent=2)


def draw(report: Report, file: Path) -> None:
    """Horizontal bars of what was reached over what was asked: the line at 1 is the target."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    measured = [row for row in report.rows if row.ratio is not None][::-1]
    figure, axes = pyplot.subplots(figsize=(10, 1.2 + 0.55 * max(1, len(measured))), layout="constrained")
    for place, row in enumerate(measured):
        assert row.ratio is not None
        share = row.ratio / row.target if row.at_least else row.target / max(row.ratio, 1e-12)
        # Black and white must be enough: what missed its target is hatched.
        fill, hatch = ("0.35", "") if row.met else ("white", "///")
        axes.barh(place, share, color=fill, edgecolor="black", hatch=hatch)
        axes.annotate(
            f"{row.ratio:.3g} × ({row.goal})",
            (share, place),
            xytext=(5, 0),
            textcoords="offset points",
            va="center",
        )
    axes.axvline(1, color="black", linestyle="--")
    axes.set_yticks(
        range(len(measured)), [f"{row.what}\nagainst {row.against}" for row in measured], fontsize=8
    )
    axes.margins(x=0.25)
    axes.set_xlabel("reached / target (right of the dashed line: met; hatched: missed)")
    axes.set_title(f"attar bench ops, {report.machine.date}", fontsize=10)
    figure.savefig(file, dpi=150)
    pyplot.close(figure)
