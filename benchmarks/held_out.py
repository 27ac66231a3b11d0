"""The questions that training holds out of one of its files, for `attar evaluate-questions`.

    python -m benchmarks.held_out squad-train-part.jsonl.xz squadshifts-train.jsonl.xz … --of squadshifts-train.jsonl.xz
        --exclude squad2-dev.json.xz --out held-out.jsonl

The files and `--exclude` are those of the run: which articles are held out depends on all of them.
"""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from attar.training.data import Passage, hold_out, read_passages, word_runs
from benchmarks.command import run_command


def without_overlap(passages: Iterable[Passage], test: Sequence[Passage]) -> list[Passage]:
    """The passages that share no 13 words in a row with a test set."""
    seen: set[int] = set().union(*(word_runs(passage.text) for passage in test))
    return [passage for passage in passages if seen.isdisjoint(word_runs(passage.text))]


def to_line(passage: Passage) -> str:
    """A passage with the questions whose answers are known, as a line of a file of questions."""
    questions = [
        {
            "question": question.text,
            "answers": [{"text": passage.text[start:end], "start": start} for start, end in question.answers],
        }
        for question in passage.questions
        if question.labelled
    ]
    return json.dumps({"title": passage.article, "context": passage.text, "questions": questions}) + "\n"


def main(
    data: Annotated[list[Path], typer.Argument(help="The files of the run, in order.")],
    of: Annotated[Path, typer.Option(help="The one whose held-out questions are wanted.")],
    out: Annotated[Path, typer.Option(help="The file to write, .jsonl.")],
    exclude: Annotated[Path | None, typer.Option(help="The test set that the run left out.")] = None,
) -> None:
    """Write the held-out questions of a file."""
    passages = [passage for path in data for passage in read_passages(path)]
    if exclude is not None:
        passages = without_overlap(passages, read_passages(exclude))
    own = set(read_passages(of))
    held = [passage for passage in hold_out(passages)[1] if passage in own]
    out.write_text("".join(map(to_line, held)), encoding="utf-8")
    asked = sum(question.labelled for passage in held for question in passage.questions)
    print(f"{out}: {len(held):,} passages, {asked:,} questions")


if __name__ == "__main__":
    run_command(main)
