"""What a second look is trained on further: the sentences that the reader finds for a question, as it reads them.

A document's memory is asked as it will be, and the names, titles and headings above its sentences are read as well.
Another document, the one that fits best of some of the same folder or article, has no answer.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attar.memory.memory import Memory
from attar.progress import Progress, ignore_progress
from attar.reader.reader import Reader
from attar.reader.second_look import LookInput
from attar.training.batches import ANSWERS, TYPED, Array, Batch, LengthBatches, paired_batch
from attar.training.data import Passage, PassageQuestion
from attar.training.variants import as_typed

# How many sentences a question is read with, and how often also with the best one alone.
_LOOK, _ALONE = 3, 0.5
# How often a question is also read with another document, which is chosen among this many.
_ELSEWHERE, _OTHERS = 0.7, 8
# How often the document has its name, if it has one.
_NAMED = 0.7
# Passages that are read at a time.
_CHUNK = 64


class FoundRow(NamedTuple):
    """A question and what it is read with, in pieces; which of these may answer, and the answers, if there are any."""

    question: NDArray[np.int32]
    text: NDArray[np.int32]
    inside: NDArray[np.bool_]  # [n]
    spans: NDArray[np.int32]  # [a, 2], the first and last piece


def found_rows(
    reader: Reader, passages: Sequence[Passage], progress: Progress = ignore_progress, seed: int = 0
) -> list[FoundRow]:
    """All questions whose answers are known, or known to be absent, with the sentences that the reader finds.

    Those of passages without any known answer are left out: their style would tell that they have none.
    """
    rows: list[FoundRow] = []
    articles = defaultdict[str, list[int]](list)
    for at, passage in enumerate(passages):
        articles[passage.article].append(at)
    memories: list[Memory] = []
    for first in range(0, len(passages), _CHUNK):
        progress("reading", first, len(passages))
        memories += reader.read_many([passage.text for passage in passages[first : first + _CHUNK]])
    for at, passage in enumerate(passages):
        progress("finding sentences", at, len(passages))
        random = np.random.default_rng((seed, at))
        siblings = [other for other in articles[passage.article] if other != at]
        for question in known_questions(passage):
            typed = random.random() < TYPED
            asked = as_typed(question.text, random) if typed else question.text
            looks = (1, _LOOK) if random.random() < _ALONE else (_LOOK,)
            rows += _rows_of(reader, memories[at], passage, asked, question.answers, looks, random)
            if siblings and question.answers and random.random() < _ELSEWHERE:
                chosen = random.choice(siblings, min(_OTHERS, len(siblings)), replace=False).tolist()
                fits = reader.scored([memories[other] for other in chosen], asked).matches()
                other = chosen[int(np.argmax(fits))]
                answers = {passage.text[start:end].lower() for start, end in question.answers}
                if not any(answer in passages[other].text.lower() for answer in answers):
                    rows += _rows_of(reader, memories[other], passages[other], asked, (), (_LOOK,), random)
    return rows


def known_questions(passage: Passage) -> list[PassageQuestion]:
    """The questions whose answers are known, or known to be absent; none if none has an answer."""
    known = [question for question in passage.questions if question.labelled]
    return known if any(question.answers for question in known) else []


def _rows_of(
    reader: Reader,
    memory: Memory,
    passage: Passage,
    question: str,
    answers: Sequence[tuple[int, int]],
    looks: Sequence[int],
    random: np.random.Generator,
) -> list[FoundRow]:
    """A question with the best sentences of a passage, as many as each of `looks` says; some know its name."""
    network = reader.second_look
    assert network is not None  # checked by the caller
    scored, rows = reader.scored([memory], question), []
    for look in looks:
        name = passage.name if random.random() < _NAMED else ""
        found = scored.found_sentences(scored.total, look, [passage.text], [name])
        rows += [_learned(asked, answers) for asked in network.inputs([question], found) if asked is not None]
    return rows


def _learned(asked: LookInput, golds: Sequence[tuple[int, int]]) -> FoundRow:
    """An input with its answers: those that stand in a sentence that is read, whole."""
    spans = list[tuple[int, int]]()
    for part in asked.parts:
        starts, ends = part.places.T
        for start, end in golds:
            at = int(np.searchsorted(ends, start, side="right"))
            last = int(np.searchsorted(starts, end, side="left")) - 1
            if at <= last and starts[at] <= start and end <= ends[last]:
                spans.append((part.pieces.start + at, part.pieces.start + last))
    pieces = asked.pieces
    return FoundRow(
        pieces.question.astype(np.int32),
        pieces.text.astype(np.int32),
        asked.answers,
        np.array(sorted(set(spans))[:ANSWERS], np.int32).reshape(-1, 2),
    )


def to_arrays(rows: Sequence[FoundRow]) -> dict[str, Array]:
    """Rows as arrays of a file."""
    arrays: dict[str, Array] = {}
    for name in FoundRow._fields:
        parts = [getattr(row, name) for row in rows]
        arrays |= {name: np.concatenate(parts), f"{name}-bounds": np.cumsum([0, *map(len, parts)])}
    return arrays


def from_arrays(arrays: Mapping[str, Array]) -> list[FoundRow]:
    parts = (np.split(arrays[name], arrays[f"{name}-bounds"][1:-1]) for name in FoundRow._fields)
    return [FoundRow(*row) for row in zip(*parts, strict=True)]


class FoundBatches(LengthBatches):
    """Step → batch of rows of similar length."""

    def __init__(self, rows: Sequence[FoundRow], *, tokens: int, epochs: int, seed: int) -> None:
        self.rows = rows
        lengths = np.array([len(row.question) + len(row.text) + 1 for row in rows])
        super().__init__(lengths, tokens=tokens, epochs=epochs, seed=seed)

    def __getitem__(self, step: int) -> Batch:
        rows = [self.rows[at] for at in self.steps[step]]
        questions, texts, inside, spans = zip(*rows, strict=True)
        batch = paired_batch(questions, texts, spans)
        for at, (question, answers) in enumerate(zip(questions, inside, strict=True)):
            first = len(question)
            batch["inside"][at, first : first + len(answers)] &= batch["inside"].new_tensor(answers)
        return batch
