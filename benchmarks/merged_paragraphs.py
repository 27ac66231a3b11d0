"""Paragraphs that were read apart, merged into one memory of fixed size, and one of them taken out again.

    python -m benchmarks.merged_paragraphs squad2-dev.json.xz

Each question is about one paragraph. With M paragraphs per memory, all are asked of memories merged from M; then the
last paragraph is subtracted from each, and the questions are asked again: of the rest, and of the removed paragraph,
next to memories that never had it. Intervals are over the draws of paragraphs.
"""

import operator
from collections.abc import Sequence
from functools import reduce
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import typer

from attar.errors import OptionError
from attar.memory.memory import Memory
from attar.paper.recall import estimate
from attar.reader.reader import Reader
from attar.training.data import Passage, read_passages
from attar.training.evaluation import exact
from benchmarks.command import run_command

MERGED = (1, 2, 4, 8, 16, 32)


class Asked(NamedTuple):
    """A paragraph, its memory, and one question about it with its answers."""

    passage: str
    memory: Memory
    question: str
    golds: list[str]


class Row(NamedTuple):
    """Exact match with so many paragraphs per memory; None where nothing can be subtracted.

    A memory that had to drop phrases to stay within its bytes refuses to subtract: `subtracted` is the share that did.
    """

    merged: float
    at_once: float
    bytes: float
    subtracted: float | None = None
    rest: float | None = None
    rest_never: float | None = None
    removed: float | None = None
    removed_never: float | None = None


def draw(passages: Sequence[Passage], count: int, seed: int, reader: Reader) -> list[Asked]:
    """Paragraphs from all over the file, each with one of its questions."""
    rng = np.random.default_rng(seed)
    chosen = [passages[place] for place in rng.permutation(len(passages))[:count]]
    memories = reader.read_many([passage.text for passage in chosen])
    asked = []
    for passage, memory in zip(chosen, memories, strict=True):
        known = [question for question in passage.questions if question.answers]
        question = known[int(rng.integers(len(known)))]
        golds = [passage.text[start:end] for start, end in question.answers]
        asked.append(Asked(passage.text, memory, question.text, golds))
    return asked


def right(reader: Reader, memories: Sequence[Memory], asked: Sequence[Asked]) -> float:
    """Exact match of the best phrase, one memory per question."""
    ranked = reader.answer_many(memories, [each.question for each in asked], top=2)
    texts = [next((answer.text for answer in answers if not answer.absent), "") for answers in ranked]
    return float(np.mean([exact(text, each.golds) for text, each in zip(texts, asked, strict=True)]))


def measure(reader: Reader, asked: Sequence[Asked], count: int) -> Row:
    """One row of one draw."""
    groups = [asked[first : first + count] for first in range(0, len(asked), count)]
    whole = [_sum(group) for group in groups]
    at_once = reader.read_many(["\n\n".join(each.passage for each in group) for group in groups])
    of_each = [memory for memory in whole for _ in range(count)]
    found = Row(
        right(reader, of_each, asked),
        right(reader, [memory for memory in at_once for _ in range(count)], asked),
        float(np.mean([memory.nbytes for memory in whole])),
    )
    if count == 1:
        return found
    pairs = [(_difference(memory, group), group) for memory, group in zip(whole, groups, strict=True)]
    parts = [(without, group) for without, group in pairs if without is not None]
    found = found._replace(subtracted=len(parts) / len(groups))
    if not parts:
        return found
    rest, removed = [each for _, group in parts for each in group[:-1]], [group[-1] for _, group in parts]
    never = [_sum(group[:-1]) for _, group in parts]
    without = [memory for memory, _ in parts]
    return found._replace(
        rest=right(reader, [memory for memory in without for _ in range(count - 1)], rest),
        rest_never=right(reader, [memory for memory in never for _ in range(count - 1)], rest),
        removed=right(reader, without, removed),
        removed_never=right(reader, never, removed),
    )


def _difference(memory: Memory, group: Sequence[Asked]) -> Memory | None:
    try:
        return memory - group[-1].memory
    except OptionError:
        return None


def _sum(group: Sequence[Asked]) -> Memory:
    return reduce(operator.add, [each.memory for each in group])


def main(
    file: Annotated[Path, typer.Argument(help="Questions in SQuAD's format.")],
    paragraphs: Annotated[
        int, typer.Option(min=2, help="Paragraphs per draw; a multiple of those per memory.")
    ] = 192,
    draws: Annotated[int, typer.Option(min=1, help="Draws of paragraphs.")] = 3,
) -> None:
    """Exact match of memories merged from many paragraphs, and after one was subtracted."""
    passages = [each for each in read_passages(file) if any(question.answers for question in each.questions)]
    if paragraphs > len(passages):
        raise OptionError.expected("--paragraphs", f"a number up to {len(passages)}", str(paragraphs))
    loaded = Reader.load("fixed")
    drawn = [draw(passages, paragraphs, seed, loaded) for seed in range(draws)]
    titles = "| paragraphs | bytes | merged | read at once | subtracted | rest | never read | removed | never read |"
    print(titles + "\n" + "|---" * 9 + "|")
    for count in [count for count in MERGED if paragraphs % count == 0]:
        rows = [measure(loaded, asked, count) for asked in drawn]
        cells = [
            [getattr(row, name) for row in rows]
            for name in ("merged", "at_once", "subtracted", "rest", "rest_never", "removed", "removed_never")
        ]
        known = [[share for share in cell if share is not None] for cell in cells]
        shares = [str(estimate(cell)) if cell else "–" for cell in known]
        size = f"{np.mean([row.bytes for row in rows]):,.0f}"
        print(f"| {' | '.join([str(count), size, *shares])} |", flush=True)


if __name__ == "__main__":
    run_command(main)
