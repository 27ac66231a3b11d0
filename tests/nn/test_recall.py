"""A small model learns to recall: told eight pairs of a key and a value, it gives the value of any key.

The pair that comes last is never asked for, so that the last state alone knows nothing of the answer: `none`
can only guess one value in eight.
"""

import pytest
import torch
from torch import nn

from attar.nn.mechanisms import attention

KEYS = VALUES = PAIRS = 8
SIZE = 32


class Recall(nn.Module):
    """Embeddings of keys and values, one mechanism, one linear head."""

    def __init__(self, mechanism):
        super().__init__()
        options = {} if mechanism in ("none", "softmax") else {"scale": "sqrt"}
        self.keys, self.values = nn.Embedding(KEYS, SIZE), nn.Embedding(VALUES, SIZE)
        self.questions = nn.Embedding(KEYS, SIZE)
        self.attention = attention(mechanism, SIZE, **options)
        self.head = nn.Linear(SIZE, VALUES)
        for embedding in (self.keys, self.values, self.questions):
            nn.init.normal_(embedding.weight, std=0.5)  # larger, softmax starts sure of one wrong pair

    def forward(self, keys, values, asked):
        hidden = self.keys(keys) + self.values(values)
        return self.head(self.attention(hidden, self.questions(asked)))


def pairs_and_answers(batch):
    """Documents of pairs in random order, all keys but the last one asked, and their values."""
    keys = torch.rand(batch, KEYS).argsort(1)[:, :PAIRS]
    values = torch.randint(VALUES, (batch, PAIRS))
    return keys, values, keys[:, :-1], values[:, :-1]


def accuracy_after_training(mechanism, steps=150):
    model = Recall(mechanism)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(steps):
        keys, values, asked, answers = pairs_and_answers(64)
        loss = nn.functional.cross_entropy(model(keys, values, asked).flatten(0, 1), answers.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        keys, values, asked, answers = pairs_and_answers(512)
        return float((model(keys, values, asked).argmax(-1) == answers).float().mean())


@pytest.fixture(autouse=True)
def one_thread(unchecked_shapes):
    """Steps of a millisecond: a second thread, and shape checks, would only slow them down."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["softmax", "linear", "gated", "decayed", "adaptive"])
def test_learns_to_recall_pairs(mechanism):
    assert accuracy_after_training(mechanism) > 0.95


@pytest.mark.slow
def test_without_attention_recall_is_chance():
    assert accuracy_after_training("none") < 0.2
