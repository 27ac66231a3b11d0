"""What measurements are printed with: the machine, tables, and quantities with their units."""

import datetime
import importlib.metadata
import os
import platform
from collections.abc import Sequence
from pathlib import Path

import msgspec
import torch
from rich.console import Console
from rich.table import Table


class Machine(msgspec.Struct, frozen=True):
    """What a measurement was made on, without the machine's name."""

    cpu: str
    cores: int
    gpu: str | None
    python: str
    torch: str
    triton: str | None
    fla: str | None
    load: float
    date: str

    def __str__(self) -> str:
        parts = [f"{self.cpu}, {self.cores} cores", self.gpu or "no GPU", f"Python {self.python}"]
        for name, version in (("torch", self.torch), ("triton", self.triton), ("fla", self.fla)):
            parts += [f"{name} {version}"] if version else []
        return "; ".join([*parts, f"load {self.load:.1f}", self.date])

    def busy_notes(self, advice: str = "do not trust the times.") -> list[str]:
        """A line of advice if other programs were running; the benchmark itself adds about one to the load."""
        if self.load <= max(1.0, 0.75 * self.cores):
            return []
        return [f"The machine was busy (load {self.load} on {self.cores} cores): {advice}"]


def this_machine() -> Machine:
    """The machine that runs this, and its load now."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    models = [" ".join(line.split(":", 1)[1].split()) for line in lines if line.startswith("model name")]
    return Machine(
        cpu=models[0] if models else platform.processor() or platform.machine(),
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        gpu=torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        python=platform.python_version(),
        torch=str(torch.__version__),
        triton=_version_of("triton"),
        fla=_version_of("flash-linear-attention"),
        load=round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else 0.0,
        date=datetime.date.today().isoformat(),
    )


def _version_of(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def print_plain(console: Console, text: str) -> None:
    """Print text without highlighting or line breaks of rich's own."""
    console.print(text, highlight=False, markup=False, soft_wrap=True)


def print_table(console: Console, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table, or Markdown if the output is not a terminal."""
    if not console.is_terminal:
        print(markdown(columns, rows), file=console.file)
        return
    table = Table(header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*row)
    console.print(table)


def markdown(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The table in Markdown, with aligned columns.

    >>> print(markdown(["n", "time"], [["10", "1 s"]]))
    | n  | time |
    |----|------|
    | 10 | 1 s  |
    """
    widths = [max(len(cell) for cell in column) for column in zip(columns, *rows, strict=True)]

    def line(cells: Sequence[str]) -> str:
        return f"| {' | '.join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))} |"

    rule = "|".join("-" * (width + 2) for width in widths)
    return "\n".join([line(columns), f"|{rule}|", *map(line, rows)])


def quantity(amount: float | None, unit: str) -> str:
    """Seconds, bytes or a share with three digits and a prefix.

    >>> quantity(0.00000312, "s"), quantity(0.25, "s"), quantity(9_600_000, "B"), quantity(None, "s")
    ('3.12 µs', '250 ms', '9.6 MB', '–')
    """
    if amount is None:
        return "–"
    scales = {
        "s": ((1, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")),
        "%": ((1e-2, "%"),),
        "B": ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1, "B")),
    }[unit]
    scale, name = next(((s, name) for s, name in scales if amount >= s), scales[-1])
    return f"{amount / scale:.3g} {name}"
