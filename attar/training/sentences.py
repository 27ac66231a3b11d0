"""What a second look learns from: questions with a few sentences, chosen as a memory would choose them.

Mostly sentences that share words with the question, as a memory finds them: of the passage that answers it, sometimes
among those of other passages of the article, sometimes of passages that do not answer it. Some are whole passages.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import Dataset

from attar.training.batches import SEP, TYPED, Batch, padded
from attar.training.labels import TeacherLabels
from attar.training.question_set import LONGEST_PASSAGE, Array, QuestionSet

# Sentences that a step's questions are read with; 0 is the whole passage. And the pieces of such an input, about.
_SENTENCES = (1, 2, 3, 3, 3, 3, 5, 0)
_WIDTHS = {1: 72, 2: 104, 3: 136, 5: 208, 0: 256}
# The share of questions that are read with sentences of another passage, which do not answer them.
_ELSEWHERE = 0.12
# The share whose sentences are chosen among those of other passages of the article, too, and how many of these.
_MIXED, _OTHERS = 0.35, 4
# How often the sentence of the answer is added where it was not among the chosen.
_ADDED = 0.6
# The spread of the noise on how well a sentence fits: memories do not choose by words alone.
_NOISE = 0.7
_ANSWERS = 4
_LEAST_WEIGHT = 0.2
# Teacher's scores are kept in 16 bits.
_LOWEST = -1e4


@dataclass(frozen=True)
class Row:
    """A question and what it is read with, in pieces, and what is learned from it.

    `soft` are the teacher's scores `[2, n]`, `spans` the answers `[a, 2]`, `present` how likely there is one; `taught`
    is how much the scores count, `weight` how much the question does.
    """

    question: NDArray[np.int32]
    ids: NDArray[np.int32]
    soft: NDArray[np.float16]
    spans: NDArray[np.int64]
    present: float = 0.0
    taught: float = 0.0
    weight: float = 0.0


class SentenceBatches(Dataset[Batch]):
    """Step → batch of questions, each with sentences; a function of the seed and the step.

    The questions' `soft` are the scores of the teacher; `weights` is how sure each question's answer is.
    """

    def __init__(
        self,
        encoded: QuestionSet,
        labels: TeacherLabels,
        weights: NDArray[np.float32],
        *,
        tokens: int,
        epochs: int,
        seed: int,
    ) -> None:
        self.encoded, self.labels, self.weights, self.seed = encoded, labels, weights, seed
        self.chooser = SentenceChooser(encoded)
        chosen = np.array([q for own in encoded.of_passage for q in own])
        random = np.random.default_rng(seed)
        self.steps: list[tuple[int, NDArray[np.int64]]] = []
        for _ in range(epochs):
            order, first = random.permutation(chosen), 0
            while first < len(order):
                count = int(random.choice(_SENTENCES))
                size = max(1, tokens // _WIDTHS[count])
                self.steps.append((count, order[first : first + size]))
                first += size

    def __len__(self) -> int:
        return len(self.steps)

    def __getitem__(self, step: int) -> Batch:
        random = np.random.default_rng((self.seed, step))
        count, chosen = self.steps[step]
        rows = [self._row(int(q), count, random) for q in chosen]
        return joined(rows)

    def _row(self, q: int, count: int, random: np.random.Generator) -> Row:
        encoded = self.encoded
        question = encoded.typed[q] if random.random() < TYPED else encoded.questions[q]
        own, draw = encoded.owners[q], random.random()
        golds = encoded.golds[q][:_ANSWERS] if q not in encoded.absent else encoded.golds[q][:0]
        best = golds if len(golds) else np.array([[self.labels.first[q], self.labels.last[q]]])
        if draw < _ELSEWHERE:
            pool = self.chooser.elsewhere(own, random)
            places = self.chooser.best(question, pool, max(count, 1), random)
        elif count == 0:
            places = [(own, -1)]
        else:
            pool = self.chooser.near(own, random) if draw > 1 - _MIXED else [own]
            places = self.chooser.best(question, pool, count, random)
            if random.random() < _ADDED and best[0, 0] >= 0:
                answer = (own, int(encoded.texts[own].sentences[best[0, 0]]))
                places = sorted({*places, answer}, key=lambda place: (pool.index(place[0]), place[1]))
        ids, kept, at = self.chooser.pieces(places, own, LONGEST_PASSAGE - len(question))
        spans = [span for span in (_moved(gold, kept) for gold in best) if span is not None]
        soft = np.full((2, len(ids)), _LOWEST, np.float16)
        scores = encoded.soft[q]
        if scores is not None:
            soft[:, at] = np.maximum(scores[:, kept], _LOWEST)
        present, taught = self._targets(q, bool(spans), bool(len(golds)))
        return Row(
            question,
            ids,
            soft,
            np.array(spans if len(golds) else [], np.int64).reshape(-1, 2) + (at[0] if len(at) else 0),
            present,
            taught if scores is not None else 0.0,
            max(_LEAST_WEIGHT, float(self.weights[q])),
        )

    def _targets(self, q: int, answered: bool, known: bool) -> tuple[float, float]:
        """How likely the sentences have the answer, and how much the teacher's scores count."""
        if not answered:
            return 0.0, 0.0
        present = float(self.labels.present[q])
        if q in self.encoded.absent:
            return 0.3 * present, 0.0
        if not self.encoded.sources[q].labelled:
            return present, present
        return 0.5 + 0.5 * present if known else present, 1.0


def _moved(span: Array, kept: NDArray[np.int64]) -> tuple[int, int] | None:
    """A span of a passage, in the pieces that were kept of it."""
    if span[0] < 0:
        return None
    first, last = np.searchsorted(kept, span)
    whole = last < len(kept) and kept[first] == span[0] and kept[last] == span[1]
    return (int(first), int(last)) if whole and last - first == span[1] - span[0] else None


class SentenceChooser:
    """The sentences of passages that share most with a question: the sum of the weights of common pieces."""

    def __init__(self, encoded: QuestionSet) -> None:
        self.texts = encoded.texts
        self.size = 1 + max((int(text.ids.max(initial=0)) for text in encoded.texts), default=0)
        holding = np.zeros(self.size)
        for text in encoded.texts:
            holding[np.unique(text.ids)] += 1
        self.idf = np.log((len(encoded.texts) + 1) / (holding + 1))
        self.by_article: dict[str, list[int]] = defaultdict(list)
        for at, passage in enumerate(encoded.passages):
            self.by_article[passage.article].append(at)
        self.articles = [passage.article for passage in encoded.passages]

    def near(self, passage: int, random: np.random.Generator) -> list[int]:
        """A passage among some others of its article, in the article's order."""
        others = self.by_article[self.articles[passage]]
        return sorted({passage, *random.choice(others, min(_OTHERS, len(others)), False).tolist()})

    def elsewhere(self, passage: int, random: np.random.Generator) -> list[int]:
        """Other passages: of the same article, or any."""
        others = self.by_article[self.articles[passage]]
        if len(others) > _OTHERS and random.random() < 0.5:
            drawn = random.choice(others, _OTHERS, False).tolist()
        else:
            drawn = random.integers(0, len(self.texts), 2 * _OTHERS).tolist()
        return sorted({at for at in drawn if at != passage} or {(passage + 1) % len(self.texts)})

    def best(
        self,
        question: NDArray[np.int32],
        passages: Sequence[int],
        count: int,
        random: np.random.Generator | None,
    ) -> list[tuple[int, int]]:
        """The best sentences as (passage, number), in the order of the passages."""
        asked = np.zeros(self.size, np.bool_)
        asked[question[question < self.size]] = True
        places: list[tuple[int, int]] = []
        scores: list[float] = []
        for at in passages:
            text = self.texts[at]
            common = np.flatnonzero(asked[text.ids])
            pairs = np.unique(text.sentences[common].astype(np.int64) * self.size + text.ids[common])
            total = int(text.sentences[-1]) + 1 if len(text) else 0
            own = np.bincount(pairs // self.size, self.idf[pairs % self.size], total)
            places += [(at, number) for number in range(total)]
            scores += own.tolist()
        values = np.array(scores)
        if random is not None:
            values = values + random.normal(0, _NOISE, len(values))
        top = np.sort(np.argsort(-values, kind="stable")[:count])
        return [places[at] for at in top]

    def pieces(
        self, places: Sequence[tuple[int, int]], own: int, longest: int
    ) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]:
        """The pieces of sentences; of one passage, which pieces these are, and where they are among all.

        A sentence number of -1 is the whole passage.
        """
        parts: list[NDArray[np.int32]] = []
        kept: list[NDArray[np.int64]] = []
        at: list[NDArray[np.int64]] = []
        length = 0
        for passage, number in places:
            text = self.texts[passage]
            first, last = (
                (0, len(text)) if number < 0 else np.searchsorted(text.sentences, (number, number + 1))
            )
            stop = min(int(last), int(first) + longest - length)
            parts.append(text.ids[first:stop])
            if passage == own:
                kept.append(np.arange(first, stop))
                at.append(np.arange(length, length + stop - first))
            length += stop - int(first)
            if length >= longest:
                break
        empty = np.zeros(0, np.int64)
        return (
            np.concatenate(parts) if parts else empty.astype(np.int32),
            np.concatenate(kept) if kept else empty,
            np.concatenate(at) if at else empty,
        )


def joined(rows: Sequence[Row]) -> Batch:
    """Questions with their pieces as one batch: `[CLS] question [SEP] sentences [SEP]`.

    The question is of type 1, as when a reader encodes it alone.
    """
    ids, mask = padded([np.concatenate((row.question, row.ids, [SEP])) for row in rows])
    offsets = torch.tensor([len(row.question) for row in rows])
    lengths = torch.tensor([len(row.ids) for row in rows])
    places = torch.arange(ids.shape[1])
    inside = (places >= offsets[:, None]) & (places < (offsets + lengths)[:, None])
    soft = torch.full((len(rows), 2, ids.shape[1]), _LOWEST, dtype=torch.float16)
    spans = torch.full((len(rows), _ANSWERS, 2), -1)
    for at, row in enumerate(rows):
        first = int(offsets[at])
        soft[at, :, first : first + len(row.ids)] = torch.from_numpy(row.soft)
        spans[at, : len(row.spans)] = torch.from_numpy(row.spans) + first
    return {
        "ids": ids,
        "mask": mask,
        "types": (places < offsets[:, None]).long(),
        "inside": inside,
        "soft": soft,
        "spans": spans,
        "present": torch.tensor([row.present for row in rows]),
        "taught": torch.tensor([row.taught for row in rows]),
        "weight": torch.tensor([row.weight for row in rows]),
    }
