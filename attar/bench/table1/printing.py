"""Table 1 for people, in four parts and a list of predictions, and for programs, as JSON."""

from collections.abc import Sequence

import msgspec
from rich.console import Console

from attar.bench.table1.costs import READING, Costs
from attar.bench.table1.findings import Cost, Exponent, Finding, in_m, in_n, names_in, quickest_softmax
from attar.bench.table1.slopes import short
from attar.bench.table1.table import Table1
from attar.bench.table1.turns import Point
from attar.bench.tables import print_table, quantity

TITLES: dict[Cost, str] = {
    "asking": "a) Query time: seconds a question, {a_call} a call, to a document that is encoded already",
    "keeping": "b) Document compression: bytes kept",
    "encoding": "c) Encoding time: the GRU, which softmax needs as well, and what is added to it",
    "sharing": "d) m questions in one call to a document of {tokens:,} tokens, its memory or index made first",
}
UNITS: dict[Cost, str] = {"asking": "s", "keeping": "B", "encoding": "s", "sharing": "s"}
PREDICTIONS = ["predicted and measured", "by Table 1", "counted", "measured"]


def print_table1(table: Table1, console: Console) -> None:
    """The machine, the four parts, the predictions, the notes."""
    console.print(str(table.machine), highlight=False, soft_wrap=True)
    a_call = "one" if table.sizes.together == 1 else f"{table.sizes.together:,}"
    for cost, title in TITLES.items():
        words = title.format(a_call=a_call, tokens=table.sizes.tokens)
        console.print(f"\n{words}\n", highlight=False, soft_wrap=True)
        print_table(console, *part_of(table, cost))
    console.print()
    print_table(console, PREDICTIONS, [finding_cells(finding) for finding in table.findings])
    console.print()
    for note in table.notes:
        console.print(f"- {note}", highlight=False, markup=False, soft_wrap=True)


def part_of(table: Table1, cost: Cost) -> tuple[list[str], list[list[str]]]:
    """One part's columns and rows, its exponents last."""
    points: list[Point] = getattr(table.costs, cost)
    size, letter = (in_m, "m") if cost == "sharing" else (in_n, "n")
    ways = names_in(points)
    lines = {line.way: line for line in table.exponents if line.cost == cost}
    rows = [[f"{size(point):,}", *cost_cells(point, ways, UNITS[cost])] for point in points]
    rows.append(["predicted exponent", *(predicted_cell(lines.get(way)) for way in ways)])
    rows.append(["measured exponent", *(measured_cell(lines.get(way)) for way in ways)])
    columns = [letter, *(f"+ {way}" if cost == "encoding" and way != READING else way for way in ways)]
    if cost != "encoding":
        columns.append("softmax / linear")
        ratios = [ratio_cell(table.costs, point) for point in points]
        rows = [[*row, cell] for row, cell in zip(rows, [*ratios, "", ""], strict=True)]
    return columns, rows


def cost_cells(point: Point, ways: Sequence[str], unit: str) -> list[str]:
    """A size's costs; what was wrong or refused has none."""
    return [quantity(point.costs[way].middle, unit) if way in point.costs else "–" for way in ways]


def predicted_cell(line: Exponent | None) -> str:
    """What theory says."""
    return "–" if line is None else f"{line.predicted:.2g}"


def measured_cell(line: Exponent | None) -> str:
    """What was fitted, where there were points enough."""
    return "–" if line is None or line.measured is None else str(line.measured)


def ratio_cell(costs: Costs, point: Point) -> str:
    """How many times a linear memory's cost the quickest softmax takes."""
    softmax = quickest_softmax(costs, point)
    if softmax is None or "linear" not in point.costs:
        return "–"
    return f"{short(softmax.middle / point.costs['linear'].middle)} ×"


def finding_cells(finding: Finding) -> list[str]:
    """A finding as text."""
    predicted = ["–" if x is None else short(x) for x in (finding.by_table, finding.by_count)]
    return [finding.what, *predicted, finding.shown]


def to_json(table: Table1) -> bytes:
    """{"machine": …, "costs": {"asking": [{"tokens", "questions", "costs": {way: …}}], …}, "findings": […], …}."""
    return msgspec.json.format(msgspec.json.encode(table), indent=2)
