"""`python -m benchmarks.reader`: reading texts compared with the bare GRUs, and questions per second."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Annotated

import numpy as np
import torch
import typer
from torch import nn

from attar.bench.cost import QUICK, Contender, Effort, Timer
from attar.bench.report import this_machine
from attar.cli.output import progress_bar
from attar.documents.workers import read_sources
from attar.errors import FormatError, OptionError
from attar.memory.memory import Memory
from attar.progress import Progress, ignore_progress
from attar.reader.names import NamesReader
from attar.reader.reader import Reader
from benchmarks.command import Json, Only, Quick, ReaderFolder, run_command, show
from benchmarks.comparison import Case, Comparison, Goal, compare, compare_with_limit
from benchmarks.report import Report, run_cases
from benchmarks.stories import story_texts

CHARACTERS = 4_000  # about 750 tokens, as in the paper
BATCH = 32
QUESTIONS_PER_SECOND = 12_000
# Whole batches of tens of milliseconds each are timed.
EFFORT = Effort(budget=12.0, rounds=9)
TOLERANCE = 1e-4


def run(
    reader: Path | None = None,
    sources: Sequence[Path] = (),
    *,
    count: int = 256,
    only: str | None = None,
    quick: bool = False,
    progress: Progress = ignore_progress,
) -> Report:
    """Measure every row on one thread."""
    machine = this_machine()
    torch.set_num_threads(1)
    texts = load_texts(sources, 8 if quick else count)
    cases = reader_cases(names_reader(reader), texts, Timer(QUICK if quick else EFFORT, threads=1))
    notes = [] if sources else ["The texts are made up: --text FILE… for real ones."]
    return run_cases(machine, cases, only, progress, [*notes, *machine.busy_notes()], judged=not quick)


def load_texts(sources: Sequence[Path], count: int) -> list[str]:
    """`count` texts: the beginnings of documents in files, or made-up stories."""
    if not sources:
        return story_texts(count)
    texts = [document.text[:CHARACTERS] for document in islice(read_sources(sources), count)]
    if len(texts) < count:
        raise FormatError.expected(
            "--text", f"{count} documents", str(len(texts)), "give more files, or --documents"
        )
    return texts


def names_reader(path: Path | None) -> NamesReader:
    """The reader whose recurrent encoders are measured."""
    reader = Reader.load(path or "names")
    if not isinstance(reader, NamesReader):
        raise OptionError.expected("reader", "one that answers with names", "another")
    return reader


def reader_cases(reader: NamesReader, texts: list[str], timer: Timer) -> list[Case]:
    """The cases of reading and of answering."""
    memories = reader.read_many(texts)
    questions = [question_about(memory) for memory in memories]

    def answering(name: str, top: int | None) -> Case:
        what = f"questions per second, {len(questions)} to as many documents in one call, {name}"
        against = f"{QUESTIONS_PER_SECOND:,} per second"
        return Case(what, against, Goal(1), lambda: answer_rate(timer, reader, memories, questions, top))

    reading = f"reading {len(texts)} texts into memories, tokens per second"
    return [
        Case(reading, "the bare GRUs", Goal(0.8), lambda: reading_vs_grus(timer, reader, texts)),
        answering("the best answer", 1),
        answering("ten answers", 10),
        answering("all answers", None),
    ]


def question_about(memory: Memory) -> str:
    """A question of 16 tokens with one of the document's names."""
    names = memory.names.names
    name = names[-1] if names else "him"
    return f"Who met {name} that evening in the old house by the river before the war?"


def reading_vs_grus(timer: Timer, reader: NamesReader, texts: list[str]) -> Comparison:
    """From text to memories, compared with GRUs of the same sizes on padded random embeddings."""
    memories = reader.read_many(texts, batch_size=BATCH)
    grus = [each for each in reader.network.document_encoder.modules() if isinstance(each, nn.GRU)]
    if not grus:
        raise FormatError.expected("reader", "an encoder of GRUs", reader.network.options.encoder)
    lengths = sorted(memory.tokens for memory in memories)
    batches = [lengths[at : at + BATCH] for at in range(0, len(lengths), BATCH)]
    width = reader.network.options.embedding_size
    inputs = [torch.randn(len(batch), max(batch), width) for batch in batches]

    @torch.inference_mode()
    def bare() -> None:
        for x in inputs:
            for gru in grus:
                gru(x)

    def error() -> float:
        alone = [reader.read(text) for text in texts[:3]]
        return max(map(largest_difference, memories[:3], alone))

    def read() -> object:
        return reader.read_many(texts, batch_size=BATCH)

    ours = Contender("attar.Reader.read_many", read, error, TOLERANCE)
    return compare(ours, [Contender("the bare GRUs", bare)], timer)


def largest_difference(one: Memory, other: Memory) -> float:
    """The largest difference between the numbers of two memories; infinite if their names differ."""
    if one.names != other.names or one.numbers.shape != other.numbers.shape:
        return float("inf")
    return float(np.abs(one.array() - other.array()).max(initial=0))


def answer_rate(
    timer: Timer, reader: NamesReader, memories: list[Memory], questions: list[str], top: int | None
) -> Comparison:
    """Seconds per question, compared with those of a fixed rate."""

    def answer() -> object:
        return reader.answer_many(memories, questions, top=top)

    def error() -> float:
        batched = reader.answer_many(memories, questions, top=top)
        alone = [
            reader.answer(memory, question) for memory, question in zip(memories, questions, strict=True)
        ]
        pairs = ((many[0], one[0]) for many, one in zip(batched, alone, strict=True) if one)
        return max((abs(many.probability - one.probability) for many, one in pairs), default=0.0)

    ours = Contender("attar.Reader.answer_many", answer, error, TOLERANCE, amount=len(questions))
    result = compare_with_limit(ours, 1 / QUESTIONS_PER_SECOND, timer)
    return replace(result, note=f"{1 / median(result.ours):,.0f} questions/s")


def main(
    reader: ReaderFolder = None,
    text: Annotated[list[Path] | None, typer.Option(help="Real texts; by default made-up stories.")] = None,
    documents: Annotated[int, typer.Option(min=1, help="How many texts.")] = 256,
    only: Only = None,
    json: Json = False,
    quick: Quick = False,
) -> None:
    """Compare reading with the bare GRUs, and answering with a fixed rate, on one core."""
    with progress_bar() as progress:
        report = run(reader, text or (), count=documents, only=only, quick=quick, progress=progress)
    show(report, json)


if __name__ == "__main__":
    run_command(main)
