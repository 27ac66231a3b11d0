"""Probabilities by a calibration: what a question has and the text has not counts against an answer."""

import numpy as np

from attar.memory.phrases import PhraseIndex
from attar.reader.confidence import FEATURES, features_of
from attar.reader.questions import Query

TABLE = np.eye(8, dtype=np.float32)
TEXT = "Ann left in 1919. Bob ran."
# Pieces: left 1, 1919 2, ran 3, 1991 4; [SEP] 7.
INDEX = PhraseIndex.of(
    TEXT, [(0, 3, 0, 0.5), (12, 16, 0, 0.25), (18, 21, 1, 0.0)], [(0, 17), (18, 26)], [[1, 2], [3]]
)


def asked(null: float = 0.0, pieces: tuple[int, ...] = (1, 7), question: str = "") -> Query:
    """A question of some pieces, each with weight 1."""
    return Query(
        question=question,
        vector=np.zeros(2, np.float32),
        null=null,
        weights=np.ones(len(pieces), np.float32),
        words=TABLE[list(pieces)],
        table=TABLE,
        asked=frozenset(),
        exact=[np.array([piece]) for piece in pieces],
    )


def values(query: Query, phrase: int = 0) -> dict[str, float]:
    found = features_of(query, INDEX, phrase, 0.75, 0.25, 2.0)
    assert found.dtype == np.float32
    return dict(zip(FEATURES, found.tolist(), strict=True))


def weights(**given: float) -> tuple[float, ...]:
    return tuple(given.get(name, 0.0) for name in FEATURES)


def test_features_weigh_the_words_that_the_text_lacks() -> None:
    found = values(asked(pieces=(1, 3, 4, 5, 7)))
    # 3 is in the next sentence; 4 and 5 are in none; [SEP] does not count.
    assert (found["unmatched"], found["unmatched_share"], found["largest_unmatched"]) == (2, 0.5, 1)
    assert found["pieces"] == 4
    near = values(asked(pieces=(1, 3, 7)))
    assert (near["unmatched"], near["largest_unmatched"]) == (0, 1)
