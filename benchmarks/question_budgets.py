"""Accuracy against bytes per document: phrases within budgets, memories of fixed size, and names.

    python -m benchmarks.question_budgets squad2-dev.json.xz --questions 1000 --figure docs/figures/question-budgets.png

Each document is read once; a budget drops what is least likely to be asked about. A document that no budget this
small can hold, not even without phrases, counts as not answered. Memories of fixed size need a reader trained with
`--values`.
"""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from attar.errors import AttarError, OptionError
from attar.memory.budget import within_budget
from attar.memory.forms import Floats
from attar.memory.memory import Memory
from attar.reader.fixed_size import FixedSizeReader
from attar.reader.phrases import PhraseReader
from attar.reader.reader import Reader
from attar.training.questions.data import Passage, read_passages
from attar.training.questions.evaluation import AskedDocument, group_documents
from attar.training.questions.metrics import exact, f1
from benchmarks.command import run_command

BUDGETS = (500, 750, 1_000, 1_500, 2_000, 3_000, 4_000, 6_000, 8_000, 12_000, 16_000)
# The sums of a memory of fixed size alone take 8 kB.
FIXED_BUDGETS = (9_000, 10_000, 12_000, 16_384)
TICKS = (250, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000)
Row = dict[str, Any]


class KeyedReader(FixedSizeReader):
    """The same sums read out as the paper does, Cᵀ q, without the ridge: what the ridge is worth."""

    def look_up(self, memory: Memory, query: Floats) -> Floats:
        """Cᵀ q of length 1: without G, its size grows with the number of phrases."""
        both, size = memory.to_float32(), memory.size
        readout: Floats = query @ both[:, : both.shape[1] - size]
        return readout / max(float(np.linalg.norm(readout)), 1e-12)


def sample(passages: Sequence[Passage], questions: int, paragraphs: int | None) -> list[AskedDocument]:
    """Documents spread evenly over the file, with at least this number of answerable questions."""
    documents = group_documents(passages, paragraphs)
    total = sum(len([gold for gold in each.golds if gold]) for each in documents)
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
    ems, f1s = [], []
    for document, memory in zip(documents, memories, strict=True):
        pairs = [(q, gold) for q, gold in zip(document.questions, document.golds, strict=True) if gold]
        texts = [""] * len(pairs)
        if memory is not None and pairs:
            answers = _answers(reader, memory, [question for question, _ in pairs])
            texts = [next((each.text for each in own if not each.absent), "") for own in answers]
        ems += [exact(text, gold) for text, (_, gold) in zip(texts, pairs, strict=True)]
        f1s += [f1(text, gold) for text, (_, gold) in zip(texts, pairs, strict=True)]
    kept = [memory.nbytes for memory in memories if memory is not None]
    return {
        "memory": name,
        "budget": budget,
        "bytes": round(sum(kept) / max(1, len(kept))),
        "largest": max(kept, default=0),
        "documents": len(documents),
        "too_small": len(documents) - len(kept),
        "questions": len(ems),
        "em": round(sum(ems) / max(1, len(ems)), 4),
        "f1": round(sum(f1s) / max(1, len(f1s)), 4),
    }


def _answers(reader: Reader, memory: Memory, questions: Sequence[str]) -> list[Any]:
    """The answers to each question; a names reader refuses some for their grammar."""
    if isinstance(reader, PhraseReader):
        return reader.answer_many(memory, list(questions), top=2)
    found: list[Any] = []
    for question in questions:
        try:
            found.append(reader.answer(memory, question, top=2))
        except AttarError:
            found.append([])
    return found


def _cut(memory: Memory, budget: int) -> Memory | None:
    try:
        return within_budget(memory, budget)
    except OptionError:
        return None


def rows_of(
    reader: Reader, documents: Sequence[AskedDocument], *, names: bool, say: Callable[[str], None] = print
) -> list[Row]:
    """The rows of the table."""
    if not isinstance(reader, PhraseReader):
        raise OptionError.expected("--reader", "a reader for real questions", "a names reader")
    rows = []

    def add(row: Row) -> None:
        rows.append(row)
        say(json.dumps(row))

    memories = [reader.read(document.text) for document in documents]
    for budget in BUDGETS:
        cut = [_cut(memory, budget) for memory in memories]
        add(measure(reader, documents, cut, "phrases", budget))
        if all(memory is own for memory, own in zip(memories, cut, strict=True)):
            break
    else:
        add(measure(reader, documents, memories, "phrases", None))
    if reader.network.ridge is not None:
        for name, kind in (("keyed", KeyedReader), ("keyed, ridge", FixedSizeReader)):
            fixed = kind(reader.saved, quick=False)  # as the reader `fixed`
            whole = [fixed.read(each.text) for each in documents]
            for budget in FIXED_BUDGETS:
                add(measure(fixed, documents, [_cut(memory, budget) for memory in whole], name, budget))
    if names:
        other = Reader.load("names")
        add(measure(other, documents, [other.read(each.text) for each in documents], "names", None))
    return rows


def draw(rows: Sequence[Row], figure: Path) -> None:
    """The figure of the rows."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import NullLocator

    drawn, axes = plt.subplots(figsize=(7.5, 4))
    for name in dict.fromkeys(row["memory"] for row in rows):
        own = [row for row in rows if row["memory"] == name]
        for measure_of, style in (("f1", "o-"), ("em", "s--")):
            sizes, values = [row["bytes"] for row in own], [row[measure_of] for row in own]
            axes.plot(sizes, values, style, label=f"{name}, {measure_of.upper()}")
    axes.set(xscale="log", xlabel="bytes per document", ylabel="answerable questions", ylim=(0, None))
    sizes = [row["bytes"] for row in rows]
    axes.set_xticks([size for size in TICKS if min(sizes) / 2 <= size <= max(sizes) * 2])
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.grid(visible=True, alpha=0.3)
    axes.legend(loc="center left", bbox_to_anchor=(1.02, 0.5))  # beside the points
    drawn.tight_layout()
    figure.parent.mkdir(parents=True, exist_ok=True)
    drawn.savefig(figure, dpi=120)
    plt.close(drawn)


def _short(share: float) -> str:
    """A share as tables have it: .556."""
    return f"{share:.3f}".removeprefix("0")


def main(
    file: Annotated[Path, typer.Argument(help="Questions in SQuAD's format.")],
    reader: Annotated[str | None, typer.Option(help="A reader's folder.")] = None,
    questions: Annotated[int, typer.Option(min=1, help="About how many questions to ask.")] = 1_000,
    paragraphs: Annotated[int, typer.Option(min=1, help="Paragraphs per document.")] = 1,
    names: Annotated[bool, typer.Option(help="Measure the names reader, too.")] = True,
    figure: Annotated[Path | None, typer.Option(help="Draw a figure into this file.")] = None,
) -> None:
    """Accuracy against bytes per document."""
    documents = sample(read_passages(file), questions, paragraphs)
    rows = rows_of(Reader.load(reader), documents, names=names)
    if figure is not None:
        draw(rows, figure)
    print("| memory | budget | bytes per document | largest | EM | F1 |\n|---|---|---|---|---|---|")
    for row in rows:
        budget = "none" if row["budget"] is None else f"{row['budget']:,}"
        sizes = f"{row['bytes']:,} | {row['largest']:,}"
        print(f"| {row['memory']} | {budget} | {sizes} | {_short(row['em'])} | {_short(row['f1'])} |")


if __name__ == "__main__":
    run_command(main)
