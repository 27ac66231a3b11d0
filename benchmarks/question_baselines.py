"""What a reader must beat, on the questions of `attar evaluate-questions`, and the teacher, which it cannot.

    python -m benchmarks.question_baselines squad2-dev.json.xz --base all-MiniLM-L6-v2 --teacher reader/run

Word overlap with sentences, and BM25 over sentences.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Annotated

import torch
import typer

from attar.cli.output import columns
from attar.nn.spans import SpanNetwork
from attar.nn.transformer import Transformer
from attar.reader.windows import PieceTokenizer
from attar.text.sentences import sentence_spans
from attar.training.batches import QuestionSet
from attar.training.data import PassageQuestion, read_passages
from attar.training.evaluation import AskedDocument, Given, Measured, group_documents, question_table, score
from attar.training.published import load_base
from attar.training.run import load_weights, make_loader
from attar.training.teacher import PairBatches, TeacherLabels, label
from benchmarks.command import run_command

_WORD = re.compile(r"\w+")
# Capitalised words in a row, with small words between them, or a number with what belongs to it.
_PHRASE = re.compile(
    r"[A-Z][\w'’-]*(?:\s+(?:of|the|de|and)\s+[A-Z][\w'’-]*|\s+[A-Z][\w'’-]*)*|\$?\d[\d,.]*(?:\s?%|\s+(?:million|billion))?"
)
_COMMON = frozenset(
    _WORD.findall(
        "a an the of in on at to for by with from and or is was were are be been did do does has had have who whom "
        "whose what which when where why how many much it its he she they his her their this that as than"
    )
)
# BM25's usual constants.
_K1, _B = 1.2, 0.75
# The longest paragraph that the teacher reads, in pieces.
_LONGEST = 440
# Pieces per batch of the teacher.
_TOKENS = 60_000

Baseline = Callable[[str, str], Given]


@lru_cache(maxsize=64)
def _sentences(text: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The sentences of a text, and their words."""
    found = (text[start:end] for start, end in sentence_spans(text))
    return tuple((sentence, tuple(_words(sentence))) for sentence in found)


def _words(text: str) -> list[str]:
    return [word for word in _WORD.findall(text.lower()) if word not in _COMMON]


def _phrases(text: str) -> list[str]:
    """Capitalised phrases and numbers; common words at their start are left out.

    >>> _phrases("In 1066 the Duke of Normandy came.")
    ['1066', 'Duke of Normandy']
    """
    found = []
    for match in _PHRASE.finditer(text):
        words = match[0].rstrip(".,").split()
        while words and words[0].lower() in _COMMON:
            words.pop(0)
        if words:
            found.append(" ".join(words))
    return found


def overlap(text: str, question: str) -> Given:
    """The first phrase, not mentioned by the question, of the sentence that shares most words with it.

    >>> overlap("Ann lives in Leeds. Bob lives in Dover.", "Where does Bob live, who lives alone?").text
    'Dover'
    """
    asked = set(_words(question))
    shared = [len(asked.intersection(words)) for _, words in _sentences(text)]
    return _from_sentence(text, question, shared)


def bm25(text: str, question: str) -> Given:
    """The sentence that BM25 ranks first, and a phrase of it as with word overlap.

    >>> bm25("Ann lives in Leeds. Bob lives in Dover.", "Where does Bob live?").quote
    'Bob lives in Dover.'
    """
    sentences = _sentences(text)
    if not sentences:
        return Given("")
    mean = sum(len(words) for _, words in sentences) / len(sentences) or 1.0
    holding: Counter[str] = Counter(word for _, words in sentences for word in set(words))
    scores = []
    for _, words in sentences:
        counts, total = Counter(words), 0.0
        for word in set(_words(question)):
            if counts[word]:
                rarity = math.log(1 + (len(sentences) - holding[word] + 0.5) / (holding[word] + 0.5))
                norm = counts[word] + _K1 * (1 - _B + _B * len(words) / mean)
                total += rarity * counts[word] * (_K1 + 1) / norm
        scores.append(total)
    return _from_sentence(text, question, scores)


def _from_sentence(text: str, question: str, scores: Sequence[float]) -> Given:
    sentences = _sentences(text)
    if not sentences:
        return Given("")
    sentence, _ = sentences[max(range(len(scores)), key=lambda at: (scores[at], -at))]
    asked = question.lower()
    phrase = next((phrase for phrase in _phrases(sentence) if phrase.lower() not in asked), "")
    return Given(phrase, sentence)


BASELINES: dict[str, Baseline] = {
    "word overlap: a phrase of the best sentence": overlap,
    "BM25: a phrase of the best sentence": bm25,
}


def evaluate_baselines(documents: Sequence[AskedDocument]) -> list[Measured]:
    """The baselines on the same questions; they never refuse."""
    golds = [gold for document in documents for gold in document.golds]
    rows = []
    for name, baseline in BASELINES.items():
        given = [baseline(document.text, q) for document in documents for q in document.questions]
        rows.append(Measured(name, score(given, golds)))
    return rows


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
    rows = evaluate_baselines(documents)
    if teacher is not None and base is not None:
        rows.append(evaluate_teacher(teacher, base, documents))
    print(columns(question_table(rows)))


if __name__ == "__main__":
    run_command(main)
