"""Published weights in the names of `attar.nn.Transformer`: those of BERT-like encoders, and of MPNet."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor

from attar.errors import FormatError

Weights = Mapping[str, Tensor]
# Published name → ours within a layer. Query, key and value are stacked in torch.
_SHARED = {"intermediate.dense": "linear1", "output.dense": "linear2", "output.LayerNorm": "norm2"}
_BERT = _SHARED | {"attention.output.dense": "self_attn.out_proj", "attention.output.LayerNorm": "norm1"}
_MPNET = _SHARED | {"attention.attn.o": "self_attn.out_proj", "attention.LayerNorm": "norm1"}
# Rows of MPNet's position embeddings that belong to padding.
_PADDING_ROWS = 2


def from_published(weights: Weights, layers: int = 6) -> dict[str, Tensor]:
    """The state of a `Transformer` from the weights that BERT-like models are published with."""
    with _all_present("a BERT-like encoder"):
        ours = _embeddings(weights)
        ours["types.weight"] = weights["embeddings.token_type_embeddings.weight"]
        stacked = tuple(f"attention.self.{name}" for name in ("query", "key", "value"))
        return _floats(ours | _layers(weights, layers, stacked, _BERT))


def from_published_mpnet(weights: Weights, layers: int = 12) -> dict[str, Tensor]:
    """The state of a `RelativeTransformer` from the weights that MPNet is published with."""
    with _all_present("MPNet"):
        ours = _embeddings(weights)
        ours["positions.weight"] = ours["positions.weight"][_PADDING_ROWS:]
        ours["types.weight"] = torch.zeros(2, ours["words.weight"].shape[1])  # it has none
        ours["relative.weight"] = weights["encoder.relative_attention_bias.weight"]
        stacked = tuple(f"attention.attn.{name}" for name in "qkv")
        return _floats(ours | _layers(weights, layers, stacked, _MPNET))


@contextmanager
def _all_present(what: str) -> Iterator[None]:
    try:
        yield
    except KeyError as fault:
        raise FormatError.expected("weights", f"those of {what}", f"none named {fault}") from fault


def _embeddings(weights: Weights) -> dict[str, Tensor]:
    return {
        "words.weight": weights["embeddings.word_embeddings.weight"],
        "positions.weight": weights["embeddings.position_embeddings.weight"],
        "norm.weight": weights["embeddings.LayerNorm.weight"],
        "norm.bias": weights["embeddings.LayerNorm.bias"],
    }


def _layers(
    weights: Weights, layers: int, stacked: tuple[str, ...], names: Mapping[str, str]
) -> dict[str, Tensor]:
    ours = {}
    for at in range(layers):
        theirs, mine = f"encoder.layer.{at}.", f"layers.layers.{at}."
        for part in ("weight", "bias"):
            parts = [weights[f"{theirs}{name}.{part}"] for name in stacked]
            ours[f"{mine}self_attn.in_proj_{part}"] = torch.cat(parts)
            ours |= {f"{mine}{new}.{part}": weights[f"{theirs}{old}.{part}"] for old, new in names.items()}
    return ours


def _floats(weights: Weights) -> dict[str, Tensor]:
    return {name: value.float() for name, value in weights.items()}
