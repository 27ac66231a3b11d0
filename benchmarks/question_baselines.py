"""What a reader must beat, on the questions of `attar evaluate-questions`, and the teacher, which it cannot.

    python -m benchmarks.question_baselines squad2-dev.json.xz --base all-MiniLM-L6-v2 --teacher reader/run

BM25 over sentences, and a teacher, which reads the text again for every question.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import torch
import typer

from attar.cli.output import columns
from attar.nn.spans import SpanNetwork
from attar.nn.transformer import Transformer
from attar.reader.windows import PieceTokenizer
from attar.text.sentences import sentence_spans
from attar.training.data import PassageQuestion, read_passages
from attar.training.evaluation import AskedDocument, Given, Measured, group_documents, question_table, score
from attar.training.run import load_weights, make_loader
from benchmarks.command import run_command
from benchmarks.new_reader.published import load_base
from benchmarks.new_reader.questions import QuestionSet
from benchmarks.new_reader.teacher import PairBatches, TeacherLabels, label
from benchmarks.retrieval.baselines import bm25_index

# The longest paragraph that the teacher reads, in pieces.
_LONGEST = 440
# Pieces per batch of the teacher.
_TOKENS = 60_000


def evaluate_bm25(documents: Sequence[AskedDocument]) -> Measured:
    """The sentence of its document that BM25 ranks first, for each question."""
    given = []
    for document in filter(lambda each: each.questions, documents):
        sentences = [document.text[start:end] for start, end in sentence_spans(document.text)]
        scores = bm25_index(sentences)(document.questions)
        given += [Given("", sentences[int(row.argmax())]) for row in scores]
    golds = [gold for document in documents for gold in document.golds]
    return Measured("BM25's best sentence", score(given, golds))


def evaluate_teacher(run: Path, base: Path, documents: Sequence[AskedDocument]) -> Measured:
    """The teacher of a run, which reads each paragraph again for every question: the ceiling."""
    encoder = load_base(base)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    teacher = SpanNetwork(Transformer(encoder.shape))
    load_weights(run / "teacher.safetensors", teacher)
    # Every question of every paragraph of its document.
    passages = [
        replace(part, questions=tuple(map(PassageQuestion, document.questions)), spans=())
        for document in documents
        for part in document.paragraphs
    ]
    questions = QuestionSet.of(passages, PieceTokenizer(encoder.tokenizer), _LONGEST)
    every = range(len(questions.questions))
    pairs = PairBatches(questions, every, tokens=_TOKENS, epochs=1, seed=0, shuffle=False)
    labels = label(teacher.to(device), questions, make_loader(pairs, 0), device)
    given, passage = [], 0
    for document in documents:
        parts = range(passage, passage + len(document.paragraphs))
        passage += len(document.paragraphs)
        for number in range(len(document.questions)):
            asked = [questions.of_passage[at][number] for at in parts]
            best = max(asked, key=lambda q: _best_score(labels, q))
            first, last = int(labels.first[best]), int(labels.last[best])
            at = questions.owners[best]
            text = questions.texts[at]
            start, end = text.sentence_spans[text.sentences[first]]
            sentence = questions.passages[at].text[start:end]
            given.append(Given(questions.span_text(at, first, last), sentence))
    golds = [gold for document in documents for gold in document.golds]
    return Measured("teacher, which reads the text again", score(given, golds))


def _best_score(labels: TeacherLabels, question: int) -> float:
    scores = labels.scores[question]
    first, last = labels.first[question], labels.last[question]
    return -1e9 if scores is None else float(scores[0, first]) + float(scores[1, last])


def main(
    file: Annotated[Path, typer.Argument(help="Questions, as for `attar evaluate-questions`.")],
    paragraphs: Annotated[
        int, typer.Option(min=0, help="Paragraphs per document; 0: all of an article.")
    ] = 1,
    teacher: Annotated[Path | None, typer.Option(help="Folder of a run whose teacher is done.")] = None,
    base: Annotated[Path | None, typer.Option(help="The encoder that the teacher started from.")] = None,
) -> None:
    """Measure baselines and a teacher on real questions."""
    documents = group_documents(read_passages(file), paragraphs or None)
    rows = [evaluate_bm25(documents)]
    if teacher is not None and base is not None:
        rows.append(evaluate_teacher(teacher, base, documents))
    print(columns(question_table(rows)))


if __name__ == "__main__":
    run_command(main)
