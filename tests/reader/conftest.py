"""Readers of made-up stories whose networks have learnt nothing: how they read is tested here, not how well."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from attar.memory import Memory
from attar.nn.network import Network
from attar.nn.network_options import NetworkOptions
from attar.reader import Reader
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
    """A reader of small random weights, all of them: none is 0, none is 1."""

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
                embedding=5,
                size=size,
                **options,
            )
        )
        with torch.no_grad():
            for each in network.parameters():
                each.add_(0.3 * torch.randn_like(each))
            for name, each in network.named_buffers():
                if each.is_floating_point():
                    each.copy_(torch.rand_like(each) + 0.5 * name.endswith("variance"))
        return Reader(network, vocabulary)

    return make


@pytest.fixture
def make_company_reader(make_reader: MakeReader, monkeypatch: pytest.MonkeyPatch) -> MakeReader:
    """A reader that keeps company; of so few words hardly any are common."""
    monkeypatch.setattr("attar.nn.company.COMMON", 5)
    return lambda encoder="lookahead": make_reader("named", encoder, company=True)


@pytest.fixture(scope="session")
def reader(make_reader: MakeReader) -> Reader:
    return make_reader()


@pytest.fixture(scope="session")
def assert_same() -> Callable[..., None]:
    """Two memories are one, to the last digits of a float32, or as far as told."""

    def check(one: Memory, other: Memory, close: float = 1e-4) -> None:
        for word in ("form", "mechanism", "tokens", "size", "reader", "names"):
            assert getattr(one, word) == getattr(other, word)
        for mine, wanted in ((one.numbers, other.numbers), (one.state, other.state)):
            largest = float(np.abs(wanted).max(initial=1.0))
            np.testing.assert_allclose(mine, wanted, rtol=close, atol=close / 10 * largest)
        assert one.company == other.company

    return check
