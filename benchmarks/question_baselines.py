"""What a reader must beat, on the questions of `attar evaluate-questions`: BM25 over sentences.

python -m benchmarks.question_baselines squad2-dev.json.xz
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from attar.cli.output import columns
from attar.text.sentences import sentence_spans
from attar.training.data import read_passages
from attar.training.evaluation import AskedDocument, Given, Measured, group_documents, question_table, score
from benchmarks.command import run_command
from benchmarks.retrieval import bm25_index


def evaluate_bm25(documents: Sequence[AskedDocument]) -> Measured:
    """The sentence of its document that BM25 ranks first, for each question."""
    given = []
    for document in filter(lambda each: each.questions, documents):
        sentences = [document.text[start:end] for start, end in sentence_spans(document.text)]
        scores = bm25_index(sentences)(document.questions)
        given += [Given("", sentences[int(row.argmax())]) for row in scores]
    golds = [gold for document in documents for gold in document.golds]
    return Measured("BM25's best sentence", score(given, golds))


def main(
    file: Annotated[Path, typer.Argument(help="Questions, as for `attar evaluate-questions`.")],
    paragraphs: Annotated[
        int, typer.Option(min=0, help="Paragraphs per document; 0: all of an article.")
    ] = 1,
) -> None:
    """Measure the baseline on real questions."""
    documents = group_documents(read_passages(file), paragraphs or None)
    print(columns(question_table([evaluate_bm25(documents)])))


if __name__ == "__main__":
    run_command(main)
