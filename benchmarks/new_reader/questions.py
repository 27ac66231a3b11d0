"""Question sets in word pieces, and batches made from them; a batch is a function of the seed and the step."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import Dataset

from attar.reader.windows import PieceTokenizer
from attar.text.sentences import sentence_spans
from attar.training.batches import ANSWERS, CLS, SEP, TYPED, Batch, padded
from attar.training.data import Passage, PassageQuestion
from attar.training.variants import as_typed

# The longest passage and the longest question, in pieces.
LONGEST_PASSAGE = 318
_LONGEST_QUESTION = 48


@dataclass(frozen=True)
class PieceText:
    """A text in `n` word pieces: their ids, the characters where each starts and ends, and its sentence's number."""

    ids: NDArray[np.int32]
    starts: NDArray[np.int32]
    ends: NDArray[np.int32]
    sentences: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.ids)

    @classmethod
    def of(cls, text: str, ids: NDArray[np.int64], places: NDArray[np.int64]) -> "PieceText":
        """A text whose first word pieces have these places `[n, 2]`."""
        first = np.array([start for start, _ in sentence_spans(text)], np.int64)
        sentences = np.maximum(np.searchsorted(first, places[:, 0], side="right") - 1, 0)
        starts, ends = places.T.astype(np.int32)
        return cls(ids.astype(np.int32), starts, ends, sentences.astype(np.int32))


@dataclass
class QuestionSet:
    """A set in word pieces. Questions have numbers from 0; `golds` are token spans (first, last), both inclusive."""

    passages: list[Passage]
    texts: list[PieceText]
    questions: list[NDArray[np.int32]] = field(default_factory=list)
    owners: list[int] = field(default_factory=list)
    golds: list[NDArray[np.int32]] = field(default_factory=list)  # [answers, 2]
    of_passage: list[list[int]] = field(default_factory=list)
    sources: list[PassageQuestion] = field(default_factory=list)
    soft: list[NDArray[np.float16] | None] = field(default_factory=list)  # [2, n] of the teacher
    absent: set[int] = field(default_factory=set)  # questions without an answer
    typed: list[NDArray[np.int32]] = field(default_factory=list)  # questions as a person might type them

    @classmethod
    def of(cls, passages: Sequence[Passage], tokenizer: PieceTokenizer) -> "QuestionSet":
        """Tokenize; pieces after the longest are dropped, and the answers in them."""
        read = tokenizer.read_sentences([passage.text for passage in passages])
        texts = [
            PieceText.of(passage.text, ids[:LONGEST_PASSAGE], places[:LONGEST_PASSAGE])
            for passage, (ids, places) in zip(passages, read, strict=True)
        ]
        encoded = cls(list(passages), texts)
        encoded.sources = [question for passage in passages for question in passage.questions]
        random = np.random.default_rng(0)
        asked = [question.text for question in encoded.sources]
        typed = [as_typed(text, random) for text in asked]
        encoded.questions, encoded.typed = (
            [ids[:_LONGEST_QUESTION] for ids in tokenizer.read_questions(forms)] for forms in (asked, typed)
        )
        encoded.soft = [None] * len(asked)
        for at, passage in enumerate(passages):
            first = len(encoded.golds)
            encoded.golds += [token_spans(texts[at], question.answers) for question in passage.questions]
            encoded.of_passage.append(list(range(first, len(encoded.golds))))
            encoded.owners += [at] * len(passage.questions)
        encoded.absent = {
            q for q, source in enumerate(encoded.sources) if source.labelled and not source.answers
        }
        return encoded

    def keep_questions(self, kept: set[int]) -> None:
        """Leave out the other questions; numbers stay as they are."""
        self.of_passage = [[q for q in own if q in kept] for own in self.of_passage]

    def labelled(self) -> list[int]:
        """The questions whose answers are known and were not cut off."""
        return [q for q, gold in enumerate(self.golds) if self.sources[q].labelled and len(gold)]


def token_spans(text: PieceText, answers: Iterable[tuple[int, int]]) -> NDArray[np.int32]:
    """The first and last piece of each answer, each pair once; answers that are cut off are left out."""
    found = set()
    for start, end in answers:
        first = int(np.searchsorted(text.ends, start, side="right"))
        last = int(np.searchsorted(text.starts, end, side="left")) - 1
        if first <= last < len(text) and text.starts[first] < end:
            found.add((first, last))
    return np.array(sorted(found), np.int32).reshape(-1, 2)


def text_batch(questions: QuestionSet, passages: Sequence[int]) -> Batch:
    """Passages between [CLS] and [SEP], with the number of each piece's sentence."""
    texts = [questions.texts[at] for at in passages]
    ids, mask = padded([np.concatenate(([CLS], text.ids, [SEP])) for text in texts])
    sentences, _ = padded([np.concatenate(([0], text.sentences, [0])) for text in texts])
    inside = mask.clone()
    inside[:, 0] = False
    inside[torch.arange(len(texts)), mask.sum(1) - 1] = False
    return {"ids": ids, "mask": mask, "sentences": sentences, "inside": inside}


def plan_batches(questions: QuestionSet, tokens: int, epochs: int, seed: int) -> list[list[int]]:
    """The passages of each step: at most `tokens` with padding, neighbours of the same article together."""
    random = np.random.default_rng(seed)
    by_article: dict[str, list[int]] = defaultdict(list)
    for at, passage in enumerate(questions.passages):
        if questions.of_passage[at]:
            by_article[passage.article].append(at)
    steps: list[list[int]] = []
    for _ in range(epochs):
        groups = []
        for members in by_article.values():
            order = random.permutation(members).tolist()
            groups += [order[at : at + 3] for at in range(0, len(order), 3)]
        lengths = np.array([max(len(questions.texts[at]) for at in group) for group in groups])
        order = np.argsort(lengths + random.uniform(0, 24, len(groups)))
        batches: list[list[int]] = [[]]
        longest = 0
        for at in order:
            longest = max(longest, int(lengths[at]) + 34)
            if batches[-1] and (len(batches[-1]) + len(groups[at])) * longest > tokens:
                batches.append([])
                longest = int(lengths[at]) + 34
            batches[-1] += groups[at]
        steps += [batches[at] for at in random.permutation(len(batches))]
    return steps


class QuestionBatches(Dataset[Batch]):
    """Step → batch: passages, at most `per_passage` questions of each, other passages as negatives."""

    def __init__(
        self,
        questions: QuestionSet,
        *,
        tokens: int,
        epochs: int,
        seed: int,
        per_passage: int = 6,
        negatives: int = 4,
        weights: NDArray[np.float32] | None = None,
    ) -> None:
        self.questions, self.per_passage, self.negatives, self.seed = questions, per_passage, negatives, seed
        self.steps = plan_batches(questions, tokens, epochs, seed)
        self.weights = np.ones(len(questions.questions), np.float32) if weights is None else weights

    def __len__(self) -> int:
        return len(self.steps)

    def __getitem__(self, step: int) -> Batch:
        random = np.random.default_rng((self.seed, step))
        passages, questions = self.steps[step], self.questions
        batch = text_batch(questions, passages)
        chosen: list[int] = []
        owners: list[int] = []
        for row, at in enumerate(passages):
            picked = questions.of_passage[at]
            if len(picked) > self.per_passage:
                picked = random.choice(picked, self.per_passage, False).tolist()
            chosen += picked
            owners += [row] * len(picked)
        count, width = len(chosen), batch["ids"].shape[1]
        typed = random.random(count) < TYPED
        forms = [
            (questions.typed if other else questions.questions)[q]
            for q, other in zip(chosen, typed, strict=True)
        ]
        batch["question_ids"], batch["question_mask"] = padded(forms, 8)
        batch["owners"] = owner = torch.tensor(owners)
        spans = np.full((count, ANSWERS, 2), -1, np.int64)
        soft = np.full((count, 2, width), -np.inf, np.float16)
        for row, q in enumerate(chosen):
            golds, labels = questions.golds[q][:ANSWERS], questions.soft[q]
            spans[row, : len(golds)] = golds + 1
            if labels is not None:
                soft[row, :, 1 : 1 + labels.shape[1]] = labels
        batch |= {"spans": torch.from_numpy(spans), "soft": torch.from_numpy(soft)}
        batch["taught"] = torch.tensor([questions.soft[q] is not None for q in chosen], dtype=torch.bool)
        batch["absent"] = torch.tensor([q in questions.absent for q in chosen], dtype=torch.bool)
        batch["weights"] = torch.from_numpy(self.weights[chosen])
        names = [questions.passages[at].article for at in passages]
        _, articles = np.unique(names, return_inverse=True)
        rows = np.array(owners)
        others = random.integers(0, len(passages), (count, self.negatives))
        same = (articles[rows, None] == articles) & (rows[:, None] != np.arange(len(passages)))
        near = (same * random.random(same.shape)).argmax(1)
        others[:, 0] = np.where(same.any(1), near, others[:, 0])
        batch["others"] = torch.from_numpy(others)
        batch["foreign"] = torch.from_numpy(articles[others] != articles[rows, None])
        batch["other"] = batch["others"] != owner[:, None]
        return batch


class QuestionsAlone(Dataset[Batch]):
    """Step → batch of questions without passages, drawn at random."""

    def __init__(self, questions: Sequence[NDArray[np.int32]], *, size: int, epochs: int, seed: int) -> None:
        self.questions, self.seed = questions, seed
        self.size = min(size, len(questions))
        self.count = max(1, epochs * len(questions) // self.size)

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, step: int) -> Batch:
        random = np.random.default_rng((self.seed, step))
        chosen = random.integers(0, len(self.questions), self.size)
        ids, mask = padded([self.questions[q] for q in chosen], 8)
        return {"ids": ids, "mask": mask}
