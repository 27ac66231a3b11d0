"""Pair passages with their back-translations, and write both with the questions of both.

    python -m benchmarks.back_translated squad-train-part.jsonl.xz squad2-backtranslated.jsonl.xz --out paired.jsonl

SQuAD's training set is known in part with its answers; its back-translation has all questions, also those without an
answer, but does not say which span answers which. What is written is for `attar train-questions`.
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from scipy.sparse import csr_array

from attar.training.data import Passage, PassageQuestion, read_passages
from benchmarks.command import run_command

_WORD = re.compile(r"\w+")
# Words of more passages than this say nothing of a passage.
_COMMON = 400
# The least cosine of the words' weights,
_ALIKE = 0.45
# how far the best is ahead of the second,
_AHEAD = 0.12
# and the ratio of lengths.
_LENGTHS = (0.75, 1.35)
# Passages that are compared with all others at a time.
_ROWS = 512
# The share of words that a question and its back-translation have in common,
_SHARED = 0.3
# by the letters that words begin with.
_LETTERS = 5


def with_translated_questions(passages: Sequence[Passage]) -> list[Passage]:
    """The passages; those whose back-translation is among them get its questions, too, if their answers are known.

    These are the questions without an answer, and those that are known ones in other words. Both passages then belong
    to the article of the original, so that they are not on two sides of a split.
    """
    found = list(passages)
    marked = [at for at, passage in enumerate(passages) if passage.spans]
    others = [at for at, passage in enumerate(passages) if passage.questions and not passage.spans]
    if not marked or not others:
        return found
    pairs = _pairs([passages[at].text for at in others], [passages[at].text for at in marked])
    pairs = [(others[place], marked[match]) for place, match in pairs]
    # Most passages of an article are in the same other one; a pair that is not is a mistake, which would join both.
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for place, match in pairs:
        counts[passages[place].article][passages[match].article] += 1
    for place, match in pairs:
        original, translated = passages[place], passages[match]
        if counts[original.article].most_common(1)[0][0] != translated.article:
            continue
        absent = tuple(question for question in translated.questions if question.labelled)
        questions = (*original.questions, *_reworded(original, translated), *absent)
        found[place] = replace(original, questions=questions)
        found[match] = replace(translated, article=original.article)
    return found


def _reworded(original: Passage, translated: Passage) -> list[PassageQuestion]:
    """The back-translations of questions, with the answers of these."""
    left = [question.text for question in translated.questions if not question.labelled]
    found = []
    for question in original.questions:
        if not question.answers or not left:
            continue
        words = _beginnings(question.text)
        shares = [len(words & other) / max(1, len(words | other)) for other in map(_beginnings, left)]
        best = int(np.argmax(shares))
        if shares[best] > _SHARED:
            text = left.pop(best)
            if text != question.text:
                found.append(replace(question, text=text))
    return found


def _beginnings(text: str) -> set[str]:
    return {word.lower()[:_LETTERS] for word in _WORD.findall(text)}


def _pairs(texts: Sequence[str], candidates: Sequence[str]) -> list[tuple[int, int]]:
    """Each text with the candidate that is the same in other words, if there is one.

    >>> same = "Ann Lee sold her red boat to 3 sailors of Dover in 1931."
    >>> _pairs([same], ["The mill burned down.", "In 1931 Ann Lee sold the red boat to 3 sailors from Dover."])
    [(0, 1)]
    """
    sets = [[_words(text) for text in group] for group in (texts, candidates)]
    holding = Counter(word for words in sets[1] for word in words)
    rare = [word for word, count in holding.items() if count < _COMMON]
    number = {word: at for at, word in enumerate(rare)}
    weights = np.log(max(2, len(candidates) + 1) / np.array([holding[word] for word in rare]))
    matrices = []
    for group in sets:
        rows = [[number[word] for word in words if word in number] for words in group]
        columns = np.array([column for row in rows for column in row], np.int64)
        starts = np.cumsum([0, *map(len, rows)])
        matrix = csr_array((weights[columns], columns, starts), shape=(len(rows), len(number)))
        norms = np.sqrt((matrix**2).sum(1))
        matrices.append(matrix.multiply(1 / np.maximum(norms, 1e-9)[:, None]).tocsr())
    pairs = []
    for start in range(0, len(texts), _ROWS):
        alike = (matrices[0][start : start + _ROWS] @ matrices[1].T).tocsr()
        for place, text in enumerate(texts[start : start + _ROWS]):
            row = slice(alike.indptr[place], alike.indptr[place + 1])
            values, columns = alike.data[row], alike.indices[row]
            if not len(values):
                continue
            best = int(values.argmax())
            second = np.delete(values, best).max(initial=0.0)
            ratio = len(text) / len(candidates[columns[best]])
            if values[best] > _ALIKE and values[best] - second > _AHEAD and _LENGTHS[0] < ratio < _LENGTHS[1]:
                pairs.append((start + place, int(columns[best])))
    return pairs


def _words(text: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(text) if len(word) > 2 or word.isdigit()}


def to_line(passage: Passage) -> dict[str, Any]:
    """A passage as a row of a `.jsonl` file."""
    row: dict[str, Any] = {"title": passage.article, "context": passage.text}
    if passage.spans:
        questions: list[Any] = [question.text for question in passage.questions]
        spans = [{"start": start, "end": end} for start, end in passage.spans]
        return row | {"questions": questions, "spans": spans}
    questions = []
    for question in passage.questions:
        answers = [{"text": passage.text[start:end], "start": start} for start, end in question.answers]
        questions.append({"question": question.text, "answers": answers})
    return row | {"questions": questions}


def main(
    data: Annotated[list[Path], typer.Argument(help="Files of questions, as for `attar train-questions`.")],
    out: Annotated[Path, typer.Option(help="The .jsonl file to write.")],
) -> None:
    """Pair passages with their back-translations."""
    passages = with_translated_questions([passage for path in data for passage in read_passages(path)])
    out.write_text("".join(json.dumps(to_line(passage)) + "\n" for passage in passages), encoding="utf-8")
    print(f"{len(passages):,} passages, {sum(len(passage.questions) for passage in passages):,} questions")


if __name__ == "__main__":
    run_command(main)
