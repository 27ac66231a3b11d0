"""How well a reader answers: accuracy with an interval, by source, beside what counting names would give."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from attar.cloze import EncodedSplit
from attar.errors import FormatError
from attar.nn import Network
from attar.progress import Progress, tell_nobody
from attar.text import Vocabulary
from attar.training.batches import Batch, ClozeBatches

RESAMPLES = 1000
# How often an answer is mentioned in its document: from, and up to.
MENTIONS = {
    "never": (0, 0),
    "once": (1, 1),
    "twice": (2, 2),
    "3 to 5 times": (3, 5),
    "6 times or more": (6, np.inf),
}
NO_GUESS = -1  # what is answered where there is no candidate: never right
BASELINES = ("most frequent name", "most frequent name not in the question")


@dataclass(frozen=True)
class Score:
    """A share of right answers, its 95 % interval, and over how many questions and documents."""

    accuracy: float
    low: float
    high: float
    questions: int
    documents: int


@dataclass(frozen=True)
class Evaluation:
    """The reader's score over all, by source, and by source and how often the answer is mentioned.

    Beside it the baselines' over the same questions.
    """

    whole: Score
    sources: dict[str, Score]
    baselines: dict[str, Score]
    source_baselines: dict[str, dict[str, Score]]
    mentions: dict[str, dict[str, Score]]

    def to_json(self) -> dict[str, Any]:
        """The same as plain objects, the whole score's numbers on top."""
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
    batch: int = 128,
    device: torch.device | str = "cpu",
    progress: Progress = tell_nobody,
) -> Evaluation:
    """Ask all fixed questions of a split."""
    if len(split.answers) == 0:
        raise FormatError(
            "split", "questions to ask", "documents without any", "evaluate on validation or test"
        )
    network = network.to(device).eval()
    rows = []
    batches = ClozeBatches(split, vocabulary, size=batch)
    for at, each in enumerate(batches):
        progress("asking", at, len(batches))
        scores = network(each.documents.to(device), each.questions.to(device)).float().cpu()
        frequent, besides = count_answers(each)
        answers = each.answers.numpy()
        best = torch.where(scores.amax(1).isfinite(), scores.argmax(1), NO_GUESS).numpy()
        guesses = (best, frequent, besides)
        document = each.indices.numpy()[each.questions.documents.numpy()]
        mentions = each.counts.numpy()[each.questions.documents.numpy(), answers]
        rows.append(np.stack([document, *(guess == answers for guess in guesses), mentions], 1))
    table = np.concatenate(rows)
    source = split.source_of[table[:, 0]]
    names = dict(enumerate(split.sources))
    scores_by = [
        {name: score(table[source == at], column) for at, name in names.items() if (source == at).any()}
        for column in (1, 2, 3)
    ]
    return Evaluation(
        score(table, 1),
        scores_by[0],
        {name: score(table, 2 + at) for at, name in enumerate(BASELINES)},
        {name: scores_by[1 + at] for at, name in enumerate(BASELINES)},
        {name: score_by_mentions(table[source == at]) for at, name in names.items() if (source == at).any()},
    )


def score_by_mentions(table: NDArray[np.int64]) -> dict[str, Score]:
    """The reader's score on answers that are mentioned so often, where there are any."""
    often = table[:, -1]
    chosen = {name: (often >= least) & (often <= most) for name, (least, most) in MENTIONS.items()}
    return {name: score(table[rows], 1) for name, rows in chosen.items() if rows.any()}


def count_answers(batch: Batch) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The most frequent candidate for each question, and the most frequent that the question does not hold.

    Of equals the one that was read first; `NO_GUESS` where there is none.
    """
    counts, names = batch.counts.numpy(), batch.documents.names.numpy()
    width = names.shape[1]
    first = np.full(counts.shape, width)
    row, column = np.nonzero(names >= 0)
    np.minimum.at(first, (row, names[row, column]), column)
    rank = np.where(counts > 0, counts - first / (width + 1), -np.inf)[batch.questions.documents.numpy()]
    besides = np.where(batch.questions.asked.numpy(), -np.inf, rank)
    frequent, other = (np.where(each.max(1) > 0, each.argmax(1), NO_GUESS) for each in (rank, besides))
    return frequent, other


def score(table: NDArray[np.int64], column: int) -> Score:
    """The accuracy of one column, and an interval over resampled documents: a document's questions are alike.

    >>> score(np.array([[0, 1], [0, 1], [1, 0], [1, 0]]), 1)
    Score(accuracy=0.5, low=0.0, high=1.0, questions=4, documents=2)
    """
    documents, place = np.unique(table[:, 0], return_inverse=True)
    right = np.bincount(place, table[:, column])
    asked = np.bincount(place)
    drawn = np.random.default_rng(0).integers(len(documents), size=(RESAMPLES, len(documents)))
    shares = right[drawn].sum(1) / asked[drawn].sum(1)
    low, high = np.quantile(shares, (0.025, 0.975))
    return Score(float(right.sum() / asked.sum()), float(low), float(high), int(asked.sum()), len(documents))
