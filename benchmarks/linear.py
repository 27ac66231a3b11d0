"""`python -m benchmarks.linear`: how many more instructions each step takes for 4 MB than for 1 MB of the worst texts.

They are counted by Valgrind (`instructions.py`), which takes about an hour. Steps of the network are those
of a tiny reader, which reads as many windows as the default one.
"""

import shutil

import typer

from attar.errors import AttarError
from benchmarks.command import run_command
from tests.text.instructions import Sizes, growths

# How many times as much four times the text may take.
_MOST = 5.0
# Characters of the shorter texts and files, documents, and documents that are added.
SIZES = Sizes(1_000_000, 2_000, 500)


def main() -> None:
    """Print the millions of instructions of every step; exit with code 1 if one takes more than 5 × for 4 ×."""
    if shutil.which("valgrind") is None:
        raise AttarError(
            "instructions are counted by Valgrind, which is not here", "apt-get install valgrind"
        )
    worst = 0.0
    print(f"{'text':32}{'step':12}{'1 ×':>12}{'4 ×':>12}{'ratio':>8}")
    for growth in growths(SIZES):
        worst = max(worst, growth.ratio)
        verdict = "" if growth.ratio <= _MOST else "  missed"
        millions = f"{growth.once / 1e6:12,.1f}{growth.more / 1e6:12,.1f}"
        print(f"{growth.text:32}{growth.step:12}{millions}{growth.ratio:8.2f}{verdict}", flush=True)
    print(f"\nat most {worst:.2f} × ({_MOST:g})")
    if worst > _MOST:
        raise typer.Exit(1)


if __name__ == "__main__":
    run_command(main)
