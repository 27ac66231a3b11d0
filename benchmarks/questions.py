"""`python -m benchmarks.questions`: the default reader on one core and `attar ask`, compared with targets."""

import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Annotated

import torch
import typer

from attar.errors import OptionError
from attar.library.library import Library
from attar.memory.memory import Memory
from attar.paper.table1 import this_machine
from attar.reader.reader import Reader
from attar.store.records import DocumentEntry, Record
from benchmarks.command import Only, Quick, run_command
from benchmarks.comparison import Case, Comparison, Goal, at_most, compare_with_limit, run_cases
from benchmarks.stories import tell_stories
from benchmarks.timing import QUICK, Contender, Effort, Timer

# Questions per second of one core, by sentences read again.
PER_SECOND = {0: 900, 1: 90}
# Of `attar ask`, by sentences read again (None: as many as by default): processor seconds, bytes of memory.
COMMAND_LIMITS = {None: (2.0, 400e6), 0: (1.0, 130e6)}
EFFORT = Effort(budget=6.0, rounds=7)
TOLERANCE = 1e-3
# Runs a command from a small process: the peak memory that Linux reports includes that of the parent at the fork.
_USAGE = """
import os, subprocess, sys, time
began = time.perf_counter()
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
_, status, usage = os.wait4(process.pid, 0)
print(usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, time.perf_counter() - began)
sys.exit(os.waitstatus_to_exitcode(status))
"""


@dataclass(frozen=True)
class Data:
    """Made-up texts, and a question about each."""

    texts: list[str]
    questions: list[str]

    @classmethod
    def of(cls, count: int) -> "Data":
        texts = [story.text for story in tell_stories(0, count)]
        asked = [
            f"Who met {text.split()[0]} number {at} that evening by the river?"
            for at, text in enumerate(texts)
        ]
        return cls(texts, asked)


def in_process(reader: Reader, data: Data, memories: list[Memory], timer: Timer) -> list[Case]:
    """Questions to documents of their own, asked together in this process."""
    asked, count = data.questions, len(data.questions)

    def together(look: int) -> object:
        return reader.answer_many(memories, asked, top=5, texts=data.texts, look=look)

    def error() -> float:
        """The largest difference in probability between questions asked together and alone."""
        many = reader.answer_many(memories, asked, top=1)
        alone = [
            reader.answer(memory, text, top=1) for memory, text in zip(memories[:32], asked, strict=False)
        ]
        return max(abs(a[0].probability - b[0].probability) for a, b in zip(many, alone, strict=False))

    def per_second(look: int, least: float) -> Comparison:
        ours = Contender("Reader.answer_many", partial(together, look), error, TOLERANCE, amount=count)
        result = compare_with_limit(ours, 1 / least, timer)
        return replace(result, note=f"{1 / median(result.ours):,.0f} questions per second")

    name = f"{count} questions to {count} documents in one call"
    return [
        Case(f"{name}, look {look}", f"{least} per second", Goal(1), partial(per_second, look, least))
        for look, least in PER_SECOND.items()
    ]


def cost_of_command(*words: str) -> tuple[float, float, float]:
    """What `attar` with these words takes: processor seconds, bytes of memory at its peak, seconds of wall time."""
    command = [sys.executable, "-m", "attar", *words]
    run = subprocess.run([sys.executable, "-c", _USAGE, *command], stdout=subprocess.PIPE, text=True)
    if run.returncode:
        raise OptionError.expected(f"attar {words[0]}", "an answer", f"exit code {run.returncode}")
    processor, peak, wall = map(float, run.stdout.split())
    return processor, peak, wall


def of_command(folder: Path, data: Data, rounds: int, look: int | None) -> list[Case]:
    """`attar ask` from start to answer: processor seconds and peak memory."""
    options = [] if look is None else ["--look", str(look)]
    costs: list[tuple[float, float, float]] = []

    def limited(which: int, limit: float, unit: str) -> Comparison:
        while len(costs) < rounds:
            costs.append(cost_of_command("ask", str(folder), "text 0", data.questions[0], *options))
        note = f"{median(wall for *_, wall in costs):.2f} s from start to end"
        return Comparison([cost[which] for cost in costs], [limit] * rounds, unit, note=note)

    name, (seconds, peak) = " ".join(["attar ask", *options]), COMMAND_LIMITS[look]
    less = at_most(1)
    return [
        Case(f"{name}, processor time", f"{seconds:g} s", less, lambda: limited(0, seconds, "s")),
        Case(f"{name}, peak memory", f"{peak / 1e6:g} MB", less, lambda: limited(1, peak, "B")),
    ]


def main(
    documents: Annotated[int, typer.Option(min=1, help="How many texts, with a question each.")] = 256,
    only: Only = None,
    quick: Quick = False,
) -> None:
    """Compare the default reader with targets, in one thread, by processor time."""
    machine = this_machine()
    torch.set_num_threads(1)
    reader = Reader.load()
    asked = Data.of(8 if quick else documents)
    timer = Timer(QUICK if quick else EFFORT, threads=1, clock="cpu")
    with tempfile.TemporaryDirectory(prefix="attar-bench-") as place:
        folder = Path(place) / "library"
        memories = reader.read_many(asked.texts)
        with Library(folder, reader) as library:
            for at, memory in enumerate(memories):
                record = Record.of(DocumentEntry(name=f"text {at}"), memory, text=asked.texts[at])
                with library.store.transaction() as changes:
                    changes.put(record, reader=reader.fingerprint)
        cases = [
            *in_process(reader, asked, memories, timer),
            *(case for look in COMMAND_LIMITS for case in of_command(folder, asked, 1 if quick else 5, look)),
        ]
        run_cases(machine, cases, only=only, quick=quick, notes=machine.busy_notes())


if __name__ == "__main__":
    run_command(main)
