"""The transformer equals a hand-written BERT on the weights that such models are published with."""

import pytest
import torch
from torch.nn import functional

from attar.nn.transformer import Transformer
from attar.options import TransformerShape
from benchmarks.new_reader.published import from_published

SHAPE = TransformerShape(vocabulary=11, size=8, layers=2, heads=2, feedforward=12, positions=16)


def published(shape: TransformerShape) -> dict[str, torch.Tensor]:
    """Random weights with the names of BERT."""
    size, wide = shape.size, shape.feedforward
    sizes = {
        "embeddings.word_embeddings.weight": (shape.vocabulary, size),
        "embeddings.position_embeddings.weight": (shape.positions, size),
        "embeddings.token_type_embeddings.weight": (2, size),
        "embeddings.LayerNorm.weight": (size,),
        "embeddings.LayerNorm.bias": (size,),
    }
    for at in range(shape.layers):
        layer = f"encoder.layer.{at}."
        for name in ("query", "key", "value"):
            sizes[f"{layer}attention.self.{name}"] = (size, size)
        for name, out, into in (
            ("attention.output.dense", size, size),
            ("intermediate.dense", wide, size),
            ("output.dense", size, wide),
        ):
            sizes[layer + name] = (out, into)
        for norm in ("attention.output.LayerNorm", "output.LayerNorm"):
            sizes |= {f"{layer}{norm}.weight": (size,), f"{layer}{norm}.bias": (size,)}
    weights = {}
    for name, dimensions in sizes.items():
        if name.endswith(("weight", "bias")):
            weights[name] = torch.randn(dimensions)
        else:
            weights |= {f"{name}.weight": torch.randn(dimensions), f"{name}.bias": torch.randn(dimensions[0])}
    return weights


def bert(
    weights: dict[str, torch.Tensor], shape: TransformerShape, ids: torch.Tensor, kind: int
) -> torch.Tensor:
    """BERT for one text `[n]`, line by line: the norm comes after each part."""

    def linear(x: torch.Tensor, name: str) -> torch.Tensor:
        return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    def norm(x: torch.Tensor, name: str) -> torch.Tensor:
        centred = x - x.mean(-1, keepdim=True)
        scaled = centred / (centred.square().mean(-1, keepdim=True) + 1e-12).sqrt()
        return scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    words, positions, types = (
        weights[f"embeddings.{name}_embeddings.weight"] for name in ("word", "position", "token_type")
    )
    x = norm(words[ids] + positions[: len(ids)] + types[kind], "embeddings.LayerNorm")
    for at in range(shape.layers):
        layer = f"encoder.layer.{at}."
        split = (len(ids), shape.heads, shape.size // shape.heads)
        q, k, v = (
            linear(x, f"{layer}attention.self.{name}").view(split).transpose(0, 1)
            for name in ("query", "key", "value")
        )
        attention = ((q @ k.transpose(1, 2)) / split[2] ** 0.5).softmax(-1) @ v
        attended = linear(attention.transpose(0, 1).flatten(1), f"{layer}attention.output.dense")
        x = norm(x + attended, f"{layer}attention.output.LayerNorm")
        inner = functional.gelu(linear(x, f"{layer}intermediate.dense"))
        x = norm(x + linear(inner, f"{layer}output.dense"), f"{layer}output.LayerNorm")
    return x


@pytest.fixture
def weights() -> dict[str, torch.Tensor]:
    return published(SHAPE)


@pytest.fixture
def network(weights) -> Transformer:
    network = Transformer(SHAPE)
    network.load_state_dict(from_published(weights, SHAPE.layers))
    return network.eval()


@pytest.mark.parametrize("kind", [0, 1])
def test_the_states_are_those_of_bert(network, weights, kind):
    ids = torch.randint(0, 11, (7,))
    with torch.inference_mode():
        found = network(ids[None], types=torch.full((1, 7), kind))[0]
    torch.testing.assert_close(found, bert(weights, SHAPE, ids, kind), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("gradients", [True, False], ids=["with gradients", "without"])
def test_padding_does_not_change_the_states(network, gradients):
    ids = torch.randint(0, 11, (2, 9))
    mask = torch.arange(9) < torch.tensor([[9], [4]])
    with torch.set_grad_enabled(gradients):
        padded, alone = network(ids, mask), network(ids[1:, :4])
        other = network(ids.masked_fill(~mask, 3), mask)
    torch.testing.assert_close(padded[1, :4], alone[0], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(padded[mask], other[mask], rtol=1e-4, atol=1e-5)


def test_the_first_layers_can_be_taken_alone(network, weights):
    ids = torch.randint(0, 11, (1, 6))
    first = TransformerShape(**{**vars(SHAPE), "layers": 1})
    torch.testing.assert_close(
        network(ids, layers=1)[0], bert(weights, first, ids[0], 0), rtol=1e-4, atol=1e-4
    )
