"""`python -m benchmarks.ask_all squad2-dev.json.xz`: questions to all documents, compared with the document given.

Every passage becomes a document of one library. Each answerable question is asked of its own document, and of all.
"""

import tempfile
import time
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from attar.cli.output import progress_bar
from attar.library.library import Library
from attar.results import Answer
from attar.training.data import read_passages
from attar.training.evaluation import score, to_given
from benchmarks.command import ReaderFolder, run_command


def figures(answers: list[list[Answer]], golds: list[tuple[str, ...]]) -> dict[str, float | None]:
    """Exact match, F1, and whether the quote holds the answer, of the best phrase, whether it is refused or not."""
    given = [to_given(found) for found in answers]
    scores = score(given, golds)
    refused = float(np.mean([each.refused for each in given]))
    return {"em": scores.em, "f1": scores.f1, "quote": scores.sentence, "refused": refused}


def main(
    file: Annotated[Path, typer.Argument(help="Questions in SQuAD's JSON, or lines of JSON.")],
    reader: ReaderFolder = None,
    questions: Annotated[int, typer.Option(help="Questions, drawn at random; 0: all.", min=0)] = 0,
) -> None:
    """Ask all documents, and compare with the document given."""
    passages = read_passages(file)
    asked = [
        (f"{at:05}", q.text, tuple(p.text[a:b] for a, b in q.answers))
        for at, p in enumerate(passages)
        for q in p.questions
        if q.answers
    ]
    if 0 < questions < len(asked):
        chosen = np.random.default_rng(0).choice(len(asked), questions, replace=False)
        asked = [asked[at] for at in sorted(chosen)]
    names, texts, golds = ([*each] for each in zip(*asked, strict=True))
    answers, seconds = [], []
    with (
        progress_bar() as progress,
        tempfile.TemporaryDirectory() as folder,
        Library(folder, str(reader) if reader else None) as library,
    ):
        documents = ((f"{at:05}", passage.text) for at, passage in enumerate(passages))
        library.add_many(documents, progress=progress)
        library.make_signatures()
        given = figures(library.ask_many(names, texts, top=2), golds)
        for at, question in enumerate(texts):
            progress("all documents", at, len(texts))
            began = time.perf_counter()
            answers.append(library.ask_all(question, top=2))
            seconds.append(time.perf_counter() - began)
    best = [next((answer.document for answer in ranked if not answer.absent), None) for ranked in answers]
    found = figures(answers, golds)
    found["document"] = float(np.mean([a == b for a, b in zip(best, names, strict=True)]))
    found["seconds"] = float(np.median(seconds))
    print(f"{len(asked):,} questions to {len(passages):,} documents")
    for title, values in (("document given", given), ("all documents", found)):
        print(f"{title:<16}" + ", ".join(f"{name} {value:.3f}" for name, value in values.items()))
    print(
        f"{(found['em'] or 0) / max(1e-9, given['em'] or 0):.1%} of the exact match with the document given"
    )


if __name__ == "__main__":
    run_command(main)
