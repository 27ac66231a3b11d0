"""A transformer in int8 computes as the plain one does, but for rounding."""

import pytest
import torch

from attar.nn import fast_layers
from attar.nn.fast_layers import Int8Transformer
from attar.nn.transformer import Transformer
from attar.options import TransformerShape

SHAPE = TransformerShape(vocabulary=50, size=32, layers=4, heads=4, feedforward=64, positions=40)


@pytest.fixture
def encoder():
    return Transformer(SHAPE).eval()


@pytest.fixture
def ids():
    return torch.randint(50, (3, 17))


def mask_of(*lengths):
    return torch.arange(17) < torch.tensor(lengths)[:, None]


@pytest.mark.parametrize("mask", [mask_of(17, 17, 17), mask_of(17, 9, 3)], ids=["full", "padded"])
@pytest.mark.parametrize("layers", [0, 2, None])
def test_states_are_those_of_the_plain_one(encoder, ids, mask, layers):
    with torch.inference_mode():
        plain = encoder(ids, mask, layers=layers)
        fast = Int8Transformer(encoder)(ids, mask, layers=layers)
    assert torch.cosine_similarity(fast[mask], plain[mask]).min() > 0.999


def test_it_goes_on_from_the_states_of_some_layers(encoder, ids):
    fast, mask = Int8Transformer(encoder), mask_of(17, 17, 17)
    with torch.inference_mode():
        first = fast(ids, mask, layers=2)
        assert torch.equal(fast.continued(first, mask, slice(2, None)), fast(ids, mask))


def test_a_token_does_not_depend_on_how_many_are_computed_with_it(encoder, ids):
    fast, mask = Int8Transformer(encoder), mask_of(17, 17, 17)
    with torch.inference_mode():
        together = fast(ids, mask)
        assert torch.allclose(together[:1], fast(ids[:1], mask[:1]), atol=1e-5)


def test_a_processor_without_int8_has_the_same_numbers(encoder, ids, monkeypatch):
    mask = mask_of(17, 17, 17)
    with torch.inference_mode():
        here = Int8Transformer(encoder)(ids, mask)
        other = not fast_layers.has_int8()
        monkeypatch.setattr(fast_layers, "has_int8", lambda: other)
        assert torch.equal(Int8Transformer(encoder)(ids, mask), here)
