"""`python -m benchmarks.questions`: the default reader on one core and `attar ask`, compared with targets.

The bare encoders are the reader's own, on batches of 32 padded texts or questions that are ready: no tokens to
find, no phrases to choose, nothing to rank.
"""

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Annotated

import numpy as np
import torch
import typer
from numpy.typing import NDArray

from attar.errors import OptionError
from attar.library.library import Library
from attar.memory.memory import Memory
from attar.paper.timing import QUICK, Contender, Effort, Timer, this_machine
from attar.reader.reader import Reader
from attar.reader.windows import WindowedText
from attar.store.records import DocumentEntry, Record
from attar.training.data import read_passages
from benchmarks.command import Only, Quick, run_command
from benchmarks.comparison import Case, Comparison, Goal, at_most, compare, compare_with_limit, run_cases
from benchmarks.stories import tell_stories

# Seconds for one question without a second look; questions per second of one core, by sentences read again.
ALONE, PER_SECOND = 0.005, {0: 900, 1: 90}
BARE_SHARE, READING = 0.8, 1.3
# Of `attar ask`, by sentences read again (None: as many as by default): processor seconds, bytes of memory.
COMMAND_LIMITS = {None: (2.0, 400e6), 0: (1.0, 130e6)}
BATCH = 32
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
    """Texts, and questions with the number of their text."""

    texts: list[str]
    questions: list[tuple[int, str]]


def load_data(file: Path | None, count: int) -> Data:
    """`count` questions and their passages from a file of questions, or made up, one per story."""
    if file is None:
        stories = list(tell_stories(0, count))
        asked = [
            f"Who met {story.text.split()[0]} number {at} that evening by the river?"
            for at, story in enumerate(stories)
        ]
        return Data([story.text for story in stories], list(enumerate(asked)))
    passages = [each for each in read_passages(file) if each.questions]
    # Passages from all over the file: those of an article are alike.
    chosen = np.random.default_rng(0).permutation(len(passages))[:count]
    if len(chosen) < count:
        raise OptionError.expected("--data", f"{count} passages with questions", str(len(chosen)))
    texts = [passages[at].text for at in chosen]
    return Data(texts, [(row, passages[at].questions[0].text) for row, at in enumerate(chosen)])


def in_process(reader: Reader, data: Data, memories: list[Memory], timer: Timer) -> list[Case]:
    """Reading and answering in this process."""
    asked = [question for _, question in data.questions]
    about = [memories[at] for at, _ in data.questions]
    texts = [data.texts[at] for at, _ in data.questions]
    few = range(min(32, len(asked)))

    def alone() -> object:
        return [reader.answer(about[at], asked[at], top=5, text=texts[at], look=0) for at in few]

    def together(look: int) -> object:
        return reader.answer_many(about, asked, top=5, texts=texts, look=look)

    def error() -> float:
        """The largest difference in probability between questions asked together and alone."""
        many, one = (
            reader.answer_many(about, asked, top=1),
            [reader.answer(about[at], asked[at], top=1) for at in few],
        )
        return max(abs(a[0].probability - b[0].probability) for a, b in zip(many, one, strict=False))

    tokens = sum(memory.tokens for memory in memories)
    windows = [
        window.ids for text in data.texts for window in WindowedText.of(text, reader.tokenizer).windows
    ]
    pieces = [each.astype(np.int64) for each in reader.tokenizer.read_questions(asked)]
    batches, short = padded(windows), padded(pieces)
    quick = reader.parts.quick()
    assert quick is not None  # the default reader has one

    @torch.inference_mode()
    def bare_texts() -> None:
        for ids, mask in batches:
            reader.parts.network().encoder(ids, mask)

    @torch.inference_mode()
    def bare_questions() -> None:
        for ids, mask in short:
            quick(reader.parts.network().encoder, ids, mask)

    def read() -> object:
        return reader.read_many(data.texts)

    def rate(result: Comparison, amount: float, what: str) -> Comparison:
        per_second = amount / median(result.ours)
        bare = f", bare encoder {amount / median(result.theirs):,.0f}" if result.theirs else ""
        return replace(result, note=f"{per_second:,.0f} {what} per second{bare}")

    count, name = len(asked), f"{len(asked)} questions to {len(texts)} documents in one call"

    def answering(look: int) -> Contender:
        return Contender("Reader.answer_many", partial(together, look), error, TOLERANCE)

    def per_question(look: int) -> Comparison:
        return compare_with_limit(replace(answering(look), amount=count), 1 / PER_SECOND[look], timer)

    single = Contender("Reader.answer", alone, amount=len(few))
    reading = f"reading {len(data.texts)} texts of {tokens // len(data.texts)} tokens"
    less, encoder = at_most(1), Contender("bare", bare_questions)
    of_texts = Contender("read", read), [Contender("bare", bare_texts)]
    return [
        Case("one question alone, look 0", "5 ms", less, lambda: compare_with_limit(single, ALONE, timer)),
        *(
            Case(f"{name}, look {look}", f"{each} per second", Goal(1), partial(per_question, look))
            for look, each in PER_SECOND.items()
        ),
        Case(
            f"{name}, look 0",
            "the bare question encoder",
            Goal(BARE_SHARE),
            lambda: rate(compare(answering(0), [encoder], timer), count, "questions"),
        ),
        Case(
            reading,
            "the bare encoder",
            Goal(READING),
            lambda: rate(compare(*of_texts, timer), tokens, "tokens"),
        ),
    ]


def padded(rows: Sequence[NDArray[np.int64]]) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Ids and masks in batches of similar length."""
    ordered = sorted(rows, key=len)
    made = []
    for first in range(0, len(ordered), BATCH):
        batch = ordered[first : first + BATCH]
        lengths = np.array([len(row) for row in batch])
        mask = np.arange(lengths[-1]) < lengths[:, None]
        ids = np.zeros(mask.shape, np.int64)
        ids[mask] = np.concatenate(batch)
        made.append((torch.from_numpy(ids), torch.from_numpy(mask)))
    return made


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
    at, question = data.questions[0]
    options = [] if look is None else ["--look", str(look)]
    costs: list[tuple[float, float, float]] = []

    def limited(which: int, limit: float, unit: str) -> Comparison:
        while len(costs) < rounds:
            costs.append(cost_of_command("ask", str(folder), f"text {at}", question, *options))
        note = f"{median(wall for *_, wall in costs):.2f} s from start to end"
        return Comparison([cost[which] for cost in costs], [limit] * rounds, unit, note=note)

    name, (seconds, peak) = " ".join(["attar ask", *options]), COMMAND_LIMITS[look]
    less = at_most(1)
    return [
        Case(f"{name}, processor time", f"{seconds:g} s", less, lambda: limited(0, seconds, "s")),
        Case(f"{name}, peak memory", f"{peak / 1e6:g} MB", less, lambda: limited(1, peak, "B")),
    ]


def main(
    data: Annotated[
        Path | None, typer.Option(help="A file of questions, as for `attar train-questions`.")
    ] = None,
    documents: Annotated[int, typer.Option(min=1, help="How many texts, with a question each.")] = 256,
    only: Only = None,
    quick: Quick = False,
) -> None:
    """Compare the default reader with the bare encoders and with targets, in one thread, by processor time."""
    machine = this_machine()
    torch.set_num_threads(1)
    reader = Reader.load()
    asked = load_data(data, 8 if quick else documents)
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
        notes = [] if data else ["Texts and questions are made up: --data FILE for real ones."]
        notes += machine.busy_notes()
        run_cases(machine, cases, only=only, quick=quick, notes=notes)


if __name__ == "__main__":
    run_command(main)
