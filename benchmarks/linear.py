"""`python -m benchmarks.linear`: how much longer each step takes for 4 MB than for 1 MB of the worst texts known.

CPU time, the least of some runs: machines in the cloud count no instructions. Steps of the network are those of a tiny
reader, which takes as many windows as the default one.
"""

import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from attar.documents.sources import read_bytes
from benchmarks.command import run_command
from benchmarks.tiny_reader import load_tiny_reader
from tests.text.worst_texts import MARKUP, TEXTS, Growth, growth, library_steps, text_steps

# How much longer four times as much may take.
_MOST = 5.0


def growths(size: int, whole: int) -> Iterator[tuple[str, str, Growth]]:
    """Yield the text, the step, and its seconds for one and four times as many characters."""
    with tempfile.TemporaryDirectory() as folder:
        reader = load_tiny_reader(Path(folder))
        for text, make in TEXTS.items():
            short, long = make(size), make(4 * size)
            for step, work in text_steps(reader).items():
                yield text, step, growth(partial(work, short), partial(work, long), _MOST)
            with library_steps(reader, make(whole)) as once, library_steps(reader, make(4 * whole)) as more:
                for step in once:
                    yield text, step, growth(once[step], more[step], _MOST)
    for text, make_file in MARKUP.items():
        (name, short), (_, long) = make_file(size), make_file(4 * size)
        yield text, "read", growth(partial(_read, name, short), partial(_read, name, long), _MOST)


def _read(name: str, markup: str) -> None:
    for _ in read_bytes(name, markup.encode()):
        pass


def main(
    size: Annotated[int, typer.Option(min=1_000, help="Characters of the shorter text.")] = 1_000_000,
    whole: Annotated[int, typer.Option(min=1_000, help="The same for steps that need a network.")] = 100_000,
) -> None:
    """Print the steps by how much longer they take; exit with code 1 if one takes more than 5 × for 4 ×."""
    worst = 0.0
    print(f"{'text':32}{'step':12}{'1 ×':>9}{'4 ×':>9}{'ratio':>8}")
    for text, step, found in growths(size, whole):
        worst = max(worst, found.ratio)
        verdict = "" if found.ratio <= _MOST else "  missed"
        times = f"{found.once:9.3f}{found.more:9.3f}{found.ratio:8.2f}"
        print(f"{text:32}{step:12}{times}{verdict}", flush=True)
    print(f"\nat most {worst:.2f} × ({_MOST:g})")
    if worst > _MOST:
        raise typer.Exit(1)


if __name__ == "__main__":
    run_command(main)
