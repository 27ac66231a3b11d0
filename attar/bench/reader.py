"""`attar bench reader`: reading beside the bare GRUs, and questions answered a second, on one core."""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from torch import nn

from attar.bench.case import Case, Contender, Goal, Measurement, check, duel
from attar.bench.clocks import QUICK, Effort, WallClock
from attar.bench.machine import this_machine
from attar.bench.ops import Report, Tell, busy_notes, report_on
from attar.errors import FormatError
from attar.memory import Memory
from attar.reader import Reader
from attar.text import read_sources
from benchmarks.stories import tell_stories

# About 750 tokens, the paper's.
STORIES_A_DOCUMENT, LETTERS = 4, 4_000
TOGETHER = 32
QUESTIONS_A_SECOND = 12_000
# Whole batches are timed, of tens of milliseconds each.
EFFORT = Effort(budget=12.0, rounds=9)


def documents(sources: Sequence[Path], count: int) -> list[str]:
    """So many texts: the beginnings of files' documents, or made-up stories."""
    if not sources:
        stories = tell_stories(0, STORIES_A_DOCUMENT * count)
        return [" ".join(story.text for story in islice(stories, STORIES_A_DOCUMENT)) for _ in range(count)]
    texts = [document.text[:LETTERS] for document in islice(read_sources(sources), count)]
    if len(texts) < count:
        raise FormatError("--text", f"{count} documents", str(len(texts)), "give more files, or --documents")
    return texts


def cases(reader: Reader, texts: list[str], clock: WallClock) -> list[Case]:
    """The rows of reading and of answering."""
    share = Goal(0.8)
    found = [
        Case(
            f"reading {len(texts)} texts into memories, tokens a second",
            "the bare GRUs",
            share,
            lambda: beside_bare_grus(share, clock, reader, texts),
        )
    ]
    memories = reader.read_many(texts)
    asked = [question_about(memory) for memory in memories]
    goal = Goal(1)
    for what, top in (("the best answer", 1), ("ten answers", 10), ("all answers", None)):

        def answering(top: int | None = top) -> Measurement:
            return beside_rate(goal, clock, reader, memories, asked, top)

        row = f"text questions answered a second, {len(asked)} over as many documents at once, {what}"
        found.append(Case(row, f"{QUESTIONS_A_SECOND:,} a second", goal, answering))
    return found


def question_about(memory: Memory) -> str:
    """A question of 16 tokens that holds one of the document's names."""
    names = memory.names.names
    return (
        f"Who met {names[-1] if names else 'him'} that evening in the old house by the river before the war?"
    )


def beside_bare_grus(goal: Goal, clock: WallClock, reader: Reader, texts: list[str]) -> Measurement:
    """Text to memories, beside GRUs of the same sizes on embeddings of the same shape, ready and padded."""
    memories = reader.read_many(texts, batch=TOGETHER)
    tokens = [memory.tokens for memory in memories]
    grus = [each for each in reader.network.document_encoder.modules() if isinstance(each, nn.GRU)]
    if not grus:
        raise FormatError("reader", "an encoder of GRUs", reader.network.options.encoder)
    batches = [sorted(tokens)[at : at + TOGETHER] for at in range(0, len(tokens), TOGETHER)]
    width = reader.network.options.embedding
    inputs = [torch.randn(len(batch), max(batch), width) for batch in batches]

    @torch.inference_mode()
    def bare() -> None:
        for x in inputs:
            for gru in grus:
                gru(x)

    def error() -> float:
        return max(
            distance_between(one, reader.read(text)) for one, text in zip(memories[:3], texts, strict=False)
        )

    ours = Contender("attar.Reader.read_many", lambda: reader.read_many(texts, batch=TOGETHER), error, 1e-4)
    return duel(goal, ours, [Contender("the bare GRUs", bare, lambda: 0.0, 0.0)], clock)


def distance_between(one: Memory, other: Memory) -> float:
    """The largest difference of two memories' numbers; none is small enough if their names differ."""
    if one.names != other.names or one.numbers.shape != other.numbers.shape:
        return float("inf")
    return float(np.abs(one.array() - other.array()).max(initial=0))


def beside_rate(
    goal: Goal, clock: WallClock, reader: Reader, memories: list[Memory], asked: list[str], top: int | None
) -> Measurement:
    """Seconds a question beside those of the rate asked for."""

    def error() -> float:
        found = reader.answer_many(memories, asked, top=top)
        alone = [reader.answer(memory, question) for memory, question in zip(memories, asked, strict=True)]
        pairs = ((many[0], one[0]) for many, one in zip(found, alone, strict=True) if one)
        return max((abs(many.probability - one.probability) for many, one in pairs), default=0.0)

    ours = Contender(
        "attar.Reader.answer_many", lambda: reader.answer_many(memories, asked, top=top), error, 1e-4
    )
    check(ours)
    each = sorted(seconds / len(asked) for seconds in clock.race([ours])[0])
    wanted, middle = 1 / QUESTIONS_A_SECOND, each[len(each) // 2]
    note = f"{1 / middle:,.0f} questions/s"
    return Measurement(wanted / middle, wanted / each[-1], wanted / each[0], middle, wanted, "s", note=note)


def run(
    reader: Path | None = None,
    sources: Sequence[Path] = (),
    *,
    count: int = 256,
    only: str | None = None,
    quick: bool = False,
    tell: Tell = lambda done, total, what: None,
) -> Report:
    """Measure every row; `tell(done, total, what)` is called before each one."""
    machine = this_machine()
    torch.set_num_threads(1)
    loaded = Reader.load(reader)
    texts = documents(sources, 8 if quick else count)
    found = cases(loaded, texts, WallClock(QUICK if quick else EFFORT, threads=1))
    notes = [] if sources else ["The texts are made up: --text FILE… for real ones."]
    return report_on(machine, found, only, tell, [*notes, *busy_notes(machine)])
