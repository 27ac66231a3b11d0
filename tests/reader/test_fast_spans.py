import sys

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from attar.nn.spans import SpanNetwork
from attar.nn.transformer import Transformer
from attar.options import TransformerShape
from attar.reader.fast_spans import FastSpans, Pieces
from attar.reader.parts import to_int8

SHAPE = TransformerShape(vocabulary=60, size=24, layers=2, heads=4, feedforward=48, positions=40)
SEPARATOR = 2
INPUTS = [
    Pieces(np.array([1, 7, 8, 2]), np.array([9, 10, 11, 12, 13])),
    Pieces(np.array([1, 30, 2]), np.arange(20, 45)),
    Pieces(np.array([1, 5, 6, 7, 2]), np.array([40])),
]


@pytest.fixture(scope="module")
def network() -> SpanNetwork:
    """Random weights that int8 holds exactly."""
    torch.manual_seed(0)
    network = SpanNetwork(Transformer(SHAPE)).eval()
    for name, value in network.named_parameters():
        if value.ndim == 2 and len(value) > 8:
            scales = value.detach().abs().amax(1, keepdim=True) / 127
            value.data = (value.data / scales).round() * scales
        elif "norm" not in name:
            torch.nn.init.normal_(value, 0, 0.3)
        value.data = value.data if value.ndim == 2 and len(value) > 8 else value.data.half().float()
    return network


@pytest.fixture(scope="module")
def fast(network: SpanNetwork) -> FastSpans:
    words = network.encoder.words.weight.detach().numpy()
    weights = to_int8({f"look.{name}": value for name, value in network.state_dict().items()})
    return FastSpans(weights, lambda ids: words[ids], heads=SHAPE.heads, separator=SEPARATOR)


def expected(network: SpanNetwork, pieces: Pieces) -> tuple[NDArray[np.float32], float]:
    ids = torch.tensor([[*pieces.question, *pieces.text, SEPARATOR]])
    places, asked = torch.arange(ids.shape[1]), len(pieces.question)
    inside = ((places >= asked) & (places < ids.shape[1] - 1))[None]
    with torch.inference_mode():
        scores, present = network(ids, torch.ones_like(ids).bool(), (places < asked)[None].long(), inside)
    return scores[0][:, inside[0]].numpy(), float(present[0])


@pytest.mark.parametrize("pieces", INPUTS, ids=["short", "long", "one piece"])
def test_scores_are_those_of_the_network_but_for_rounding(
    network: SpanNetwork, fast: FastSpans, pieces: Pieces
) -> None:
    (spans,) = fast.read([pieces])
    scores, present = expected(network, pieces)
    np.testing.assert_allclose([spans.starts, spans.ends], scores, atol=0.05)
    assert spans.present == pytest.approx(present, abs=0.05)


def test_an_input_has_the_same_scores_whatever_is_read_with_it(fast: FastSpans) -> None:
    together = fast.read(INPUTS)
    for pieces, spans in zip(INPUTS, together, strict=True):
        (alone,) = fast.read([pieces])
        np.testing.assert_array_equal([alone.starts, alone.ends], [spans.starts, spans.ends])
        assert alone.present == spans.present


def test_without_torch_the_scores_are_the_same(fast: FastSpans, monkeypatch: pytest.MonkeyPatch) -> None:
    with_torch = fast.read(INPUTS)
    monkeypatch.delitem(sys.modules, "torch")
    for spans, other in zip(with_torch, fast.read(INPUTS), strict=True):
        np.testing.assert_array_equal([spans.starts, spans.ends], [other.starts, other.ends])
        assert spans.present == other.present
