"""`python -m benchmarks.fuzz --seconds 3600`: every target in turn, with new examples, for a set time."""

import random
import re
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Annotated

import torch
import typer

from attar.errors import OptionError
from benchmarks.command import run_command
from benchmarks.fuzz.documents import command_target, documents_target, uploads_target
from benchmarks.fuzz.folders import import_target, reader_target
from benchmarks.fuzz.http import http_target
from benchmarks.fuzz.reading import library_target, text_target
from benchmarks.fuzz.records import envelope_target, memory_target, signature_target, store_target
from benchmarks.fuzz.target import Target, run

TARGETS = {
    "memory": memory_target,
    "envelope": envelope_target,
    "signatures": signature_target,
    "store": store_target,
    "import": import_target,
    "reader": reader_target,
    "documents": documents_target,
    "uploads": uploads_target,
    "command": command_target,
    "text": text_target,
    "library": library_target,
    "http": http_target,
}
# Examples in one turn of a target: those in forks and over HTTP take longer.
_EXAMPLES = {"store": 40, "import": 40, "reader": 40}
_EXAMPLES |= {"command": 10, "library": 60, "text": 60, "http": 60, "uploads": 40}


def fuzz(name: str, folder: Path, examples: int, seed: int | None) -> tuple[int, str]:
    """Run one target; the number of examples, and what failed, in a few lines."""
    checked = 0
    folder.mkdir()
    try:
        with TARGETS[name](folder) as target:

            def check(example: object) -> None:
                nonlocal checked
                checked += 1
                target.check(example)

            run(Target(target.inputs, check), examples, seed)
    except Exception as fault:
        notes = "\n".join(getattr(fault, "__notes__", []))
        return checked, f"{type(fault).__name__}: {str(fault)[:1500]}\n{notes[:3000]}"
    return checked, ""


def main(
    seconds: Annotated[float, typer.Option(min=0, help="How long; new examples every time.")] = 60.0,
    examples: Annotated[
        int, typer.Option(min=0, help="Instead of a time: examples per target, the same every time.")
    ] = 0,
    only: Annotated[str, typer.Option(help=f"Some of {', '.join(TARGETS)}; all by default.")] = "",
    seed: Annotated[int, typer.Option(help="Seed of the first turn; 0: a random one.")] = 0,
) -> None:
    """Fuzz everything that enters; exit with code 1 if anything failed."""
    names = only.split(",") if only else list(TARGETS)
    if unknown := set(names) - TARGETS.keys():
        raise OptionError.expected("--only", ", ".join(TARGETS), ", ".join(sorted(unknown)))
    torch.set_num_threads(1)
    seeds = random.Random(seed or time.time_ns())
    end, checked, failures = time.monotonic() + seconds, Counter[str](), dict[str, str]()
    turn = 0
    with tempfile.TemporaryDirectory(prefix="attar-fuzz-") as folder:
        while turn < len(names) or (not examples and time.monotonic() < end):
            name = names[turn % len(names)]
            own = None if examples else seeds.getrandbits(32)
            count, failed = fuzz(name, Path(folder) / str(turn), examples or _EXAMPLES.get(name, 200), own)
            checked[name] += count
            if failed:
                # Numbers differ between examples of one failure.
                kind = re.sub(r"\d+", "N", failed.splitlines()[0])[:120]
                if f"{name}: {kind}" not in failures:
                    failures[f"{name}: {kind}"] = failed
                    print(f"FAILED {name} (seed {own}): {failed}\n", flush=True)
            turn += 1
    for name in names:
        failed_here = sum(each.startswith(f"{name}:") for each in failures)
        print(f"{name:<14}{checked[name]:>9,} examples{failed_here:>6} failures")
    if failures:
        sys.exit(1)


if __name__ == "__main__":
    run_command(main)
