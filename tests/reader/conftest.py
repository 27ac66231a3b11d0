"""Readers with random weights and generated stories: these tests check how a reader computes, not its accuracy."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from attar.memory import Memory
from attar.nn.network import Network
from attar.nn.network_options import NetworkOptions
from attar.reader import NamesReader, Reader
from attar.text.vocabulary import Vocabulary
from benchmarks.stories import Story, tell_stories

ENTITIES = 40

MakeReader = Callable[..., Reader]


@pytest.fixture(scope="session")
def stories() -> list[Story]:
    return list(tell_stories(3, 9))


@pytest.fixture(scope="session")
def vocabulary(stories: list[Story]) -> Vocabulary:
    return Vocabulary.build((story.text for story in stories), size=150, entities=ENTITIES)


@pytest.fixture(scope="session")
def make_reader(vocabulary: Vocabulary) -> MakeReader:
    """Makes a reader whose weights are all random, so that none is 0 or 1."""

    def make(
        mechanism: str = "named", encoder: str = "lookahead", size: int = 6, **options: object
    ) -> Reader:
        torch.manual_seed(5)
        network = Network(
            NetworkOptions(
                words=len(vocabulary),
                entities=ENTITIES,
                mechanism=mechanism,
                encoder=encoder,
                embedding_size=5,
                hidden_size=size,
                **options,
            )
        )
        with torch.no_grad():
            for each in network.parameters():
                each.add_(0.3 * torch.randn_like(each))
            for name, each in network.named_buffers():
                if each.is_floating_point():
                    each.copy_(torch.rand_like(each) + 0.5 * name.endswith("variance"))
        return NamesReader(network, vocabulary)

    return make


@pytest.fixture
def make_cooccurrence_reader(make_reader: MakeReader, monkeypatch: pytest.MonkeyPatch) -> MakeReader:
    """Makes a reader with co-occurrence scores; few words are common, as the vocabulary is small."""
    monkeypatch.setattr("attar.nn.cooccurrence.COMMON", 5)
    return lambda encoder="lookahead": make_reader("named", encoder, cooccurrence=True)


@pytest.fixture(scope="session")
def reader(make_reader: MakeReader) -> Reader:
    return make_reader()


@pytest.fixture(scope="session")
def assert_same() -> Callable[..., None]:
    """Checks that two memories are equal up to float32 rounding, or a given tolerance."""

    def check(one: Memory, other: Memory, close: float = 1e-4) -> None:
        for field in ("form", "mechanism", "tokens", "size", "reader", "names"):
            assert getattr(one, field) == getattr(other, field)
        for found, expected in ((one.numbers, other.numbers), (one.state, other.state)):
            largest = float(np.abs(expected).max(initial=1.0))
            np.testing.assert_allclose(found, expected, rtol=close, atol=close / 10 * largest)
        assert one.cooccurrence == other.cooccurrence

    return check
