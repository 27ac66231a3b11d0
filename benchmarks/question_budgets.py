"""Accuracy against bytes per document: phrases within budgets, and memories of fixed size.

    python -m benchmarks.question_budgets squad2-dev.json.xz --questions 1000 --figure docs/figures/question-budgets.png

Each document is read once; a budget drops what is least likely to be asked about. A document that no budget this
small can hold, not even without phrases, counts as not answered.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import typer

from attar.errors import OptionError
from attar.memory.algebra import within_budget
from attar.memory.memory import Floats, Memory
from attar.paper.compare import load_pyplot
from attar.reader.fixed_size import FixedSizeReader
from attar.reader.reader import Reader
from attar.results import Answer
from attar.training.data import Passage, read_passages
from attar.training.evaluation import AskedDocument, Given, group_documents, score, to_given
from benchmarks.command import run_command

BUDGETS = (500, 750, 1_000, 1_500, 2_000, 3_000, 4_000, 6_000, 8_000, 12_000, 16_000)
# The sums of a memory of fixed size alone take 8 kB.
FIXED_BUDGETS = (9_000, 10_000, 12_000, 16_384)
TICKS = (250, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000)


class Row(NamedTuple):
    """A form of memory within a budget: its bytes per document, and its accuracy."""

    memory: str
    budget: int | None
    bytes: int
    largest: int
    em: float
    f1: float


class KeyedReader(FixedSizeReader):
    """The same sums read out as the paper does, Cᵀ q, without the ridge: what the ridge is worth."""

    def look_up(self, memory: Memory, query: Floats) -> Floats:
        """Cᵀ q of length 1: without G, its size grows with the number of phrases."""
        both, size = memory.dequantized, memory.size
        readout: Floats = query @ both[:, : both.shape[1] - size]
        return readout / max(float(np.linalg.norm(readout)), 1e-12)


def sample(passages: Sequence[Passage], questions: int) -> list[AskedDocument]:
    """Documents spread evenly over the file, with at least this number of answerable questions."""
    documents = group_documents(passages, 1)
    total = sum(len([gold for gold in document.golds if gold]) for document in documents)
    step = max(1, total // max(1, questions))
    return documents[::step]


def measure(
    reader: Reader,
    documents: Sequence[AskedDocument],
    memories: Sequence[Memory | None],
    name: str,
    budget: int | None,
) -> Row:
    """The accuracy of a reader on answerable questions, and the mean bytes of the memories."""
    given: list[Given] = []
    golds: list[Sequence[str]] = []
    for document, memory in zip(documents, memories, strict=True):
        pairs = [(q, gold) for q, gold in zip(document.questions, document.golds, strict=True) if gold]
        ranked: list[list[Answer]] = [[]] * len(pairs)
        if memory is not None and pairs:
            ranked = reader.answer_many([memory] * len(pairs), [question for question, _ in pairs], top=2)
        given += map(to_given, ranked)
        golds += [gold for _, gold in pairs]
    sizes = [memory.nbytes for memory in memories if memory is not None] or [0]
    scores = score(given, golds)
    return Row(name, budget, round(float(np.mean(sizes))), max(sizes), scores.em or 0.0, scores.f1 or 0.0)


def _cut(memory: Memory, budget: int) -> Memory | None:
    try:
        return within_budget(memory, budget)
    except OptionError:
        return None


def rows_of(reader: Reader, documents: Sequence[AskedDocument]) -> Iterator[Row]:
    """The rows of the table."""
    memories = [reader.read(document.text) for document in documents]
    for budget in BUDGETS:
        cut = [_cut(memory, budget) for memory in memories]
        yield measure(reader, documents, cut, "phrases", budget)
        if all(memory is within for memory, within in zip(memories, cut, strict=True)):
            break
    else:
        yield measure(reader, documents, memories, "phrases", None)
    for name, kind in (("keyed", KeyedReader), ("keyed, ridge", FixedSizeReader)):
        fixed = kind(reader.parts)
        whole = [fixed.read(document.text) for document in documents]
        for budget in FIXED_BUDGETS:
            yield measure(fixed, documents, [_cut(memory, budget) for memory in whole], name, budget)


def draw(rows: Sequence[Row], figure: Path) -> None:
    """The figure of the rows."""
    pyplot = load_pyplot()
    drawn, axes = pyplot.subplots(figsize=(7.5, 4))
    for name in dict.fromkeys(row.memory for row in rows):
        line = [row for row in rows if row.memory == name]
        axes.plot([row.bytes for row in line], [row.f1 for row in line], "o-", label=f"{name}, F1")
        axes.plot([row.bytes for row in line], [row.em for row in line], "s--", label=f"{name}, EM")
    axes.set(xscale="log", xlabel="bytes per document", ylabel="answerable questions", ylim=(0, None))
    sizes = [row.bytes for row in rows]
    axes.set_xticks([size for size in TICKS if min(sizes) / 2 <= size <= max(sizes) * 2])
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.minorticks_off()
    axes.grid(visible=True, alpha=0.3)
    axes.legend(loc="center left", bbox_to_anchor=(1.02, 0.5))  # beside the points
    drawn.tight_layout()
    figure.parent.mkdir(parents=True, exist_ok=True)
    drawn.savefig(figure, dpi=120)
    pyplot.close(drawn)


def main(
    file: Annotated[Path, typer.Argument(help="Questions in SQuAD's format.")],
    questions: Annotated[int, typer.Option(min=1, help="About how many questions to ask.")] = 1_000,
    figure: Annotated[Path | None, typer.Option(help="Draw a figure into this file.")] = None,
) -> None:
    """Accuracy against bytes per document."""
    documents = sample(read_passages(file), questions)
    print("| memory | budget | bytes per document | largest | EM | F1 |\n|---|---|---|---|---|---|")
    rows = []
    for row in rows_of(Reader.load(), documents):
        rows.append(row)
        budget = "none" if row.budget is None else f"{row.budget:,}"
        sizes = f"{row.bytes:,} | {row.largest:,}"
        print(f"| {row.memory} | {budget} | {sizes} | {row.em:.3f} | {row.f1:.3f} |", flush=True)
    if figure is not None:
        draw(rows, figure)


if __name__ == "__main__":
    run_command(main)
