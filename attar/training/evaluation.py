"""Evaluation: accuracy with a confidence interval, per source, compared with counting names; memory sizes."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from attar.cloze.documents import ClozeDocument
from attar.cloze.encoded import EncodedSplit
from attar.errors import FormatError
from attar.memory.memory import Memory
from attar.nn.network import Network
from attar.progress import Progress, ignore_progress
from attar.reader.reader import Reader
from attar.text.vocabulary import Vocabulary
from attar.training.batches import Batch, ClozeBatches

_RESAMPLES = 1000
# Ranges of how often an answer is mentioned in its document: from, to.
_MENTIONS = {
    "never": (0, 0),
    "once": (1, 1),
    "twice": (2, 2),
    "3 to 5 times": (3, 5),
    "6 times or more": (6, np.inf),
}
NO_GUESS = -1  # the answer without any candidate: always wrong
# With this many documents per source, means of sizes are within a few per cent of those over all documents.
_SAMPLE = 256
_PRECISIONS = ("float16", "int8")
BASELINES = ("most frequent name", "most frequent name not in the question")


@dataclass(frozen=True)
class Score:
    """The share of correct answers, its 95 % interval, and the number of questions and documents."""

    accuracy: float
    low: float
    high: float
    questions: int
    documents: int


@dataclass(frozen=True)
class Evaluation:
    """The reader's score over all questions, per source, and per source and number of mentions of the answer.

    The baselines' scores are over the same questions.
    """

    whole: Score
    sources: dict[str, Score]
    baselines: dict[str, Score]
    source_baselines: dict[str, dict[str, Score]]
    mentions: dict[str, dict[str, Score]]

    def to_json(self) -> dict[str, Any]:
        """As plain objects, the whole score's values at the top level."""
        parts = asdict(self)
        whole: dict[str, Any] = parts.pop("whole")
        interval = [whole.pop("low"), whole.pop("high")]
        return whole | {"interval": interval} | parts


@torch.inference_mode()
def evaluate(
    network: Network,
    vocabulary: Vocabulary,
    split: EncodedSplit,
    *,
    batch_size: int = 128,
    device: torch.device | str = "cpu",
    progress: Progress = ignore_progress,
) -> Evaluation:
    """Score a network on all fixed questions of a split."""
    if len(split.answers) == 0:
        raise FormatError.expected(
            "split", "questions to ask", "documents without any", "evaluate on validation or test"
        )
    network = network.to(device).eval()
    rows = []
    batches = ClozeBatches(split, vocabulary, size=batch_size)
    for at, each in enumerate(batches):
        progress("evaluating", at, len(batches))
        scores = network(each.documents.to(device), each.questions.to(device)).float().cpu()
        frequent, unasked = most_frequent_candidates(each)
        answers = each.answers.numpy()
        best = torch.where(scores.amax(1).isfinite(), scores.argmax(1), NO_GUESS).numpy()
        guesses = (best, frequent, unasked)
        document = each.indices.numpy()[each.questions.documents.numpy()]
        mentions = each.counts.numpy()[each.questions.documents.numpy(), answers]
        rows.append(np.stack([document, *(guess == answers for guess in guesses), mentions], 1))
    table = np.concatenate(rows)
    source = split.source_of[table[:, 0]]
    names = dict(enumerate(split.sources))
    by_source = {name: table[source == at] for at, name in names.items() if (source == at).any()}
    return Evaluation(
        score(table, 1),
        {name: score(rows, 1) for name, rows in by_source.items()},
        {baseline: score(table, 2 + at) for at, baseline in enumerate(BASELINES)},
        {
            baseline: {name: score(rows, 2 + at) for name, rows in by_source.items()}
            for at, baseline in enumerate(BASELINES)
        },
        {name: _score_by_mentions(rows) for name, rows in by_source.items()},
    )


def _score_by_mentions(table: NDArray[np.int64]) -> dict[str, Score]:
    """The reader's score by how often the answer is mentioned."""
    mentions = table[:, -1]
    chosen = {name: (mentions >= low) & (mentions <= high) for name, (low, high) in _MENTIONS.items()}
    return {name: score(table[rows], 1) for name, rows in chosen.items() if rows.any()}


def most_frequent_candidates(batch: Batch) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The most frequent candidate per question [Q], and the most frequent that the question does not mention [Q].

    Of equally frequent ones the first in the document; `NO_GUESS` if there is none.
    """
    counts, names = batch.counts.numpy(), batch.documents.names.numpy()
    width = names.shape[1]
    first = np.full(counts.shape, width)
    row, column = np.nonzero(names >= 0)
    np.minimum.at(first, (row, names[row, column]), column)
    rank = np.where(counts > 0, counts - first / (width + 1), -np.inf)[batch.questions.documents.numpy()]
    unasked = np.where(batch.questions.asked.numpy(), -np.inf, rank)
    frequent, other = (np.where(each.max(1) > 0, each.argmax(1), NO_GUESS) for each in (rank, unasked))
    return frequent, other


def score(table: NDArray[np.int64], column: int) -> Score:
    """The accuracy of one column, with an interval by resampling documents, whose questions are correlated.

    >>> score(np.array([[0, 1], [0, 1], [1, 0], [1, 0]]), 1)
    Score(accuracy=0.5, low=0.0, high=1.0, questions=4, documents=2)
    """
    documents, place = np.unique(table[:, 0], return_inverse=True)
    right = np.bincount(place, table[:, column])
    asked = np.bincount(place)
    drawn = np.random.default_rng(0).integers(len(documents), size=(_RESAMPLES, len(documents)))
    shares = right[drawn].sum(1) / asked[drawn].sum(1)
    low, high = np.quantile(shares, (0.025, 0.975))
    return Score(float(right.sum() / asked.sum()), float(low), float(high), int(asked.sum()), len(documents))


@dataclass(frozen=True)
class MemorySize:
    """Means over documents: tokens, names, and bytes of a memory by dtype."""

    documents: int
    tokens: float
    names: float
    bytes: dict[str, float]


def memory_sizes(
    reader: Reader, documents: Iterable[ClozeDocument], progress: Progress = ignore_progress
) -> dict[str, MemorySize]:
    """The mean size of the memories of each source, as a store writes them.

    A sample of documents is read as a user's text is: their names are found again.
    """
    sample = sample_by_source(documents, _SAMPLE)
    return {
        source: mean_size(reader.read_many([each.text() for each in own], progress=progress))
        for source, own in sample.items()
    }


def sample_by_source(documents: Iterable[ClozeDocument], most: int) -> dict[str, list[ClozeDocument]]:
    """At most this many documents of each source, each with the same probability (reservoir sampling)."""
    rng = np.random.default_rng(0)
    kept: dict[str, list[ClozeDocument]] = {}
    seen: dict[str, int] = {}
    for document in documents:
        own, before = kept.setdefault(document.source, []), seen.get(document.source, 0)
        seen[document.source] = before + 1
        if before < most:
            own.append(document)
        elif (place := int(rng.integers(before + 1))) < most:
            own[place] = document
    return kept


def mean_size(memories: Sequence[Memory]) -> MemorySize:
    """The means over memories; a dtype that cannot hold their values is left out."""
    sizes = {"int8": float(np.mean([len(memory.to_bytes()) for memory in memories]))}
    tokens = float(np.mean([memory.tokens for memory in memories]))
    return MemorySize(len(memories), tokens, 0.0, sizes)
