"""The memories that a reader writes are those that the network computes in training."""

import numpy as np
import pytest
import torch

from attar.nn.mechanisms import COPY_MECHANISMS, MECHANISMS
from attar.reader.batches import PendingText, pad_texts
from attar.reader.encoding import TextEncoder, write_memories
from attar.text.name_table import NameTable
from attar.text.reading import ReadText

CLOSE = {"rtol": 1e-4, "atol": 1e-5}


def pending_text(words: int, tokens: int, seed: int) -> PendingText:
    """A text of random ids, in which every third token is one of two names."""
    rng, names = np.random.default_rng(seed), np.full(tokens, -1, np.int32)
    names[::3] = rng.integers(0, 2, len(names[::3]))
    ids = np.where(names >= 0, names + 3, rng.integers(50, words, tokens)).astype(np.int32)
    return PendingText(ReadText(ids, rng.random(tokens) < 0.2, names), NameTable.of("Ann", "Bob"))


@pytest.mark.parametrize("mechanism", [*MECHANISMS, *COPY_MECHANISMS])
def test_memories_and_states_are_those_of_the_network(make_reader, mechanism):
    network = make_reader(mechanism).network
    pending = [pending_text(network.options.words, tokens, tokens) for tokens in (5, 8)]
    with torch.inference_mode():
        written = write_memories(TextEncoder(network), pending, "r")
        memories, states = network.read(pad_texts([each.text for each in pending], 2))
    for memory, expected, state, each in zip(written, memories.state, states, pending, strict=True):
        rows = len(each.text) if mechanism == "softmax" else len(expected)
        np.testing.assert_allclose(memory.array(), expected[:rows].numpy(), **CLOSE)
        np.testing.assert_allclose(memory.state, state.numpy(), **CLOSE)
        assert (memory.tokens, memory.names) == (len(each.text), each.names)


@pytest.mark.parametrize("mechanism", [*MECHANISMS, *COPY_MECHANISMS])
def test_extended_memories_are_those_of_the_network(make_reader, mechanism):
    network = make_reader(mechanism).network
    first, second = (pending_text(network.options.words, tokens, tokens) for tokens in (5, 8))
    with torch.inference_mode():
        (memory,) = write_memories(TextEncoder(network), [first], "r")
        extension = PendingText(second.text, second.names, memory)
        (extended,) = write_memories(TextEncoder(network), [extension], "r")
        memories, state = network.read(pad_texts([first.text], 2))
        memories, _ = network.read(pad_texts([second.text], 2), state=state, memories=memories)
    np.testing.assert_allclose(extended.array(), memories.state[0].numpy(), **CLOSE)
    assert extended.tokens == 13
