"""`python -m benchmarks.ask_all squad2-dev.json.xz`: questions to all documents, compared with the document given.

Every passage becomes a document of one library. Each answerable question is asked of its own document, of all as the
library does it, and of all by one index over the vectors of all phrases (FAISS, exact), which finds the documents.
"""

import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import typer

from attar.cli.output import progress_bar
from attar.library.library import Library
from attar.progress import Progress, ignore_progress
from attar.reader.answers import combined, total_of
from attar.results import Answer
from attar.training.data import read_passages
from attar.training.metrics import exact, f1, holds
from benchmarks.command import Json, ReaderFolder, run_command

# Phrases that the index of phrases finds, and documents that answer.
_PHRASES, _DOCUMENTS = 300, 10


def figures(answers: list[list[Answer]], golds: list[tuple[str, ...]]) -> dict[str, float]:
    """Exact match, F1, and whether the quote holds the answer, of the best phrase, whether it is refused or not."""
    best = [next((each for each in found if not each.absent), None) for found in answers]
    pairs = [(each, gold) for each, gold in zip(best, golds, strict=True)]
    return {
        "em": float(np.mean([exact(each.text, gold) if each else 0.0 for each, gold in pairs])),
        "f1": float(np.mean([f1(each.text, gold) if each else 0.0 for each, gold in pairs])),
        "quote": float(np.mean([holds(each.quote or "", gold) if each else 0.0 for each, gold in pairs])),
        "refused": float(np.mean([found[0].absent for found in answers])),
    }


class PhraseVectors:
    """The vectors of all phrases of a library in one index, with their priors as one more number."""

    def __init__(self, library: Library) -> None:
        import faiss

        reader = library.reader
        self.reader = reader
        self.records = [library.store.get(document.name) for document in library.documents()]
        indexes = [record.memory.phrases for record in self.records]
        parts = [
            np.column_stack((record.memory.dequantized, index.priors.astype(np.float32)))
            for record, index in zip(self.records, indexes, strict=True)
        ]
        self.owners = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        self.index = faiss.IndexFlatIP(parts[0].shape[1])
        self.index.add(np.concatenate(parts))
        self.nbytes = 4 * self.index.d * self.index.ntotal

    def ask(self, question: str) -> list[Answer]:
        """The best answers of the ten documents with the best phrases."""
        (query,) = self.reader.questions.encode([question])
        vector = np.append(query.vector * self.reader.options.size**-0.5, 1.0).astype(np.float32)
        _, places = self.index.search(vector[None], _PHRASES)
        owners = dict.fromkeys(self.owners[places[0]].tolist())
        chosen = [self.records[at] for at in list(owners)[:_DOCUMENTS]]
        scored = self.reader.scored([record.memory for record in chosen], question, [0.0] * len(chosen))
        total = total_of(query.null, scored.log_sums())
        shares = scored.shares(total, 2, [record.text for record in chosen])
        absent = float(np.exp(query.null - total))
        lists, absent, refused = combined(shares, absent, self.reader.calibration)
        answers = [
            msgspec.structs.replace(answer, document=record.name)
            for record, own in zip(chosen, lists, strict=True)
            for answer in own
        ]
        answers.sort(key=lambda answer: -answer.probability)
        answers.insert(0 if refused else min(1, len(answers)), Answer("", absent, "none"))
        return answers[:2]


def run(
    file: Path, reader: Path | None = None, questions: int = 0, progress: Progress = ignore_progress
) -> dict[str, Any]:
    """Both ways on the same questions, the documents that were found, and the time of a question to all."""
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
    golds = [gold for _, _, gold in asked]
    with (
        tempfile.TemporaryDirectory() as folder,
        Library(folder, str(reader) if reader else None, durability="relaxed") as library,
    ):
        documents = ((f"{at:05}", passage.text) for at, passage in enumerate(passages))
        library.add_many(documents, progress=progress)
        library.make_signatures()
        phrases = PhraseVectors(library)
        names = [name for name, _, _ in asked]
        given = library.ask_many(names, [question for _, question, _ in asked], top=2)
        ways: dict[str, Callable[[str], list[Answer]]] = {
            "all documents": lambda question: library.ask_all(question, top=2),
            "phrase vectors": phrases.ask,
        }
        found: dict[str, Any] = {"documents": len(passages), "questions": len(asked)}
        found["document given"] = figures(given, golds)
        for title, ask in ways.items():
            answers, seconds = [], []
            for at, (_, question, _) in enumerate(asked):
                progress(title, at, len(asked))
                began = time.perf_counter()
                answers.append(ask(question))
                seconds.append(time.perf_counter() - began)
            best = [next((each.document for each in own if not each.absent), None) for own in answers]
            right = float(np.mean([a == b for a, b in zip(best, names, strict=True)]))
            found[title] = figures(answers, golds) | {"document": right, "seconds": float(np.median(seconds))}
        found["phrase vectors"]["bytes per document"] = phrases.nbytes / len(passages)
    return found


def main(
    file: Annotated[Path, typer.Argument(help="Questions in SQuAD's JSON, or lines of JSON.")],
    reader: ReaderFolder = None,
    questions: Annotated[int, typer.Option(help="Questions, drawn at random; 0: all.", min=0)] = 0,
    json_output: Json = False,
) -> None:
    """Ask all documents, and compare with the document given."""
    with progress_bar() as progress:
        found = run(file, reader, questions, progress)
    if json_output:
        print(json.dumps(found))
        return
    print(f"{found['questions']:,} questions to {found['documents']:,} documents")
    for title in ("document given", "all documents", "phrase vectors"):
        print(f"{title:<16}" + ", ".join(f"{name} {value:.3f}" for name, value in found[title].items()))
    share = found["all documents"]["em"] / max(1e-9, found["document given"]["em"])
    print(f"{share:.1%} of the exact match with the document given")


if __name__ == "__main__":
    run_command(main)
