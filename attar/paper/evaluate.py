"""Accuracy with a confidence interval, over all questions and per source, compared with counting names."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from attar.errors import FormatError
from attar.paper.batches import Batch, ClozeBatches
from attar.paper.network import Network
from attar.paper.sets import EncodedSplit
from attar.progress import Progress, ignore_progress

_RESAMPLES = 1000
# The answer without any candidate: always wrong.
NO_GUESS = -1
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
    """The network's score and the baselines', over all questions and per source."""

    network: Score
    baselines: dict[str, Score]
    sources: dict[str, Score]
    source_baselines: dict[str, dict[str, Score]]  # by baseline, then by source

    def to_json(self) -> dict[str, Any]:
        parts = asdict(self)
        network: dict[str, Any] = parts.pop("network")
        return network | parts


@torch.inference_mode()
def evaluate(
    network: Network, split: EncodedSplit, *, batch_size: int = 128, progress: Progress = ignore_progress
) -> Evaluation:
    """Score a network on all fixed questions of a split; on a GPU if there is one."""
    if len(split.answers) == 0:
        raise FormatError("the split has no questions to ask", "evaluate on validation or test")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    network = network.to(device).eval()
    parts = []  # per question: its document, and who is right
    batches = ClozeBatches(split, size=batch_size)
    for done, batch in enumerate(batches):
        progress("evaluating", done, len(batches))
        moved = batch.to(device)
        scores = network(moved.documents, moved.questions).float().cpu()
        best = torch.where(scores.amax(1).isfinite(), scores.argmax(1), NO_GUESS).numpy()
        guesses = np.stack([best, *most_frequent_candidates(batch)], 1)
        document = batch.indices.numpy()[batch.questions.documents.numpy()]
        parts.append(np.column_stack([document, guesses == batch.answers.numpy()[:, None]]))
    table = np.concatenate(parts)
    source = split.source_of[table[:, 0]]
    by_source = {
        name: table[source == at] for at, name in enumerate(split.sources.tolist()) if (source == at).any()
    }
    return Evaluation(
        score(table, 1),
        {baseline: score(table, column) for column, baseline in enumerate(BASELINES, 2)},
        {name: score(rows, 1) for name, rows in by_source.items()},
        {
            baseline: {name: score(rows, column) for name, rows in by_source.items()}
            for column, baseline in enumerate(BASELINES, 2)
        },
    )


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
    return _best(rank), _best(unasked)


def _best(ranks: NDArray[np.float64]) -> NDArray[np.int64]:
    return np.where(ranks.max(1) > 0, ranks.argmax(1), NO_GUESS)


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
