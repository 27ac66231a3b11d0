"""Token states that are made up: words have a vector each, so that texts with the same words are alike."""

import numpy as np
import pytest

from attar.search.statistics import Fitting

SIZE, PIECES = 24, 200


def made_up(random, words):
    """Word pieces and states: the vector of each piece, and some noise."""
    table = np.random.default_rng(7).standard_normal((PIECES, SIZE)).astype(np.float32)
    ids = np.array(words, np.int64)
    return ids, table[ids] + 0.3 * random.standard_normal((len(ids), SIZE)).astype(np.float32)


def fitted(documents, learned=None):
    fitting = Fitting("r", size=SIZE, pieces=PIECES, map=learned)
    for ids, states in documents:
        fitting.add_words(ids)
        fitting.add_states(ids, states)
    return fitting.statistics()


@pytest.fixture(scope="session")
def corpus():
    """Documents of 40 tokens about 6 words each, and common words."""
    random = np.random.default_rng(0)
    documents = []
    for _ in range(60):
        topic = random.integers(20, PIECES, 6)
        words = np.where(random.random(40) < 0.5, random.choice(topic, 40), random.integers(0, 20, 40))
        documents.append(made_up(random, words))
    return documents


@pytest.fixture(scope="session")
def statistics(corpus):
    return fitted(corpus)
