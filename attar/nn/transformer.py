"""A pretrained transformer encoder of BERT's shape, such as all-MiniLM-L6-v2, on `torch.nn.TransformerEncoder`."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attar.errors import FormatError
from attar.nn.mechanisms.base import Device


@dataclass(frozen=True)
class TransformerShape:
    """The sizes of a transformer; the defaults are those of all-MiniLM-L6-v2."""

    vocabulary: int = 30_522
    size: int = 384
    layers: int = 6
    heads: int = 12
    feedforward: int = 1_536
    positions: int = 512


class Transformer(nn.Module):
    """Token ids to hidden states: embeddings, then layers with the norm after each part, as in BERT.

    >>> network = Transformer(TransformerShape(vocabulary=50, size=8, layers=1, heads=2, feedforward=16))
    >>> network(torch.tensor([[3, 4, 5]])).shape
    torch.Size([1, 3, 8])
    """

    def __init__(self, shape: TransformerShape | None = None, *, device: Device = None) -> None:
        super().__init__()
        self.shape = shape = shape or TransformerShape()
        self.words = nn.Embedding(shape.vocabulary, shape.size, device=device)
        self.positions = nn.Embedding(shape.positions, shape.size, device=device)
        self.types = nn.Embedding(2, shape.size, device=device)
        self.norm = nn.LayerNorm(shape.size, eps=1e-12, device=device)
        layer = nn.TransformerEncoderLayer(
            shape.size,
            shape.heads,
            shape.feedforward,
            dropout=0.1,
            activation="gelu",
            layer_norm_eps=1e-12,
            batch_first=True,
            device=device,
        )
        self.layers = nn.TransformerEncoder(layer, shape.layers, enable_nested_tensor=False)

    def forward(
        self,
        ids: Int[Tensor, "B n"],
        mask: Bool[Tensor, "B n"] | None = None,
        types: Int[Tensor, "B n"] | None = None,
        *,
        layers: int | None = None,
    ) -> Float[Tensor, "B n d"]:
        """The hidden states after all layers, or after the first `layers`.

        `mask` is true at tokens and false in padding; `types` are 0 or 1.
        """
        places = torch.arange(ids.shape[1], device=ids.device)
        kinds = self.types.weight[0] if types is None else self.types(types)
        x: Tensor = self.norm(self.words(ids) + self.positions(places) + kinds)
        if self.training:
            x = nn.functional.dropout(x, 0.1)
        return self.continued(x, mask, slice(0, layers))

    def continued(
        self, x: Float[Tensor, "B n d"], mask: Bool[Tensor, "B n"] | None, layers: slice
    ) -> Float[Tensor, "B n d"]:
        """The states after some of the layers, from those before them."""
        padding = None if mask is None else ~mask
        for layer in self.layers.layers[layers]:
            x = layer(x, src_key_padding_mask=padding)
        return x


# Published name → ours, `{}` the number of a layer. Query, key and value are stacked in torch.
_EMBEDDINGS = {
    "embeddings.word_embeddings.weight": "words.weight",
    "embeddings.position_embeddings.weight": "positions.weight",
    "embeddings.token_type_embeddings.weight": "types.weight",
    "embeddings.LayerNorm.weight": "norm.weight",
    "embeddings.LayerNorm.bias": "norm.bias",
}
_LAYER = {
    "attention.output.dense": "self_attn.out_proj",
    "attention.output.LayerNorm": "norm1",
    "intermediate.dense": "linear1",
    "output.dense": "linear2",
    "output.LayerNorm": "norm2",
}


def from_published(weights: dict[str, Tensor], layers: int = 6) -> dict[str, Tensor]:
    """The state of a `Transformer` from the weights that BERT-like models are published with."""
    try:
        ours = {new: weights[old] for old, new in _EMBEDDINGS.items()}
        for at in range(layers):
            theirs, mine = f"encoder.layer.{at}.", f"layers.layers.{at}."
            for part in ("weight", "bias"):
                attention = f"{theirs}attention.self."
                stacked = [weights[f"{attention}{name}.{part}"] for name in ("query", "key", "value")]
                ours[f"{mine}self_attn.in_proj_{part}"] = torch.cat(stacked)
                for old, new in _LAYER.items():
                    ours[f"{mine}{new}.{part}"] = weights[f"{theirs}{old}.{part}"]
    except KeyError as fault:
        raise FormatError("weights", "those of a BERT-like encoder", f"none named {fault}") from fault
    return {name: value.float() for name, value in ours.items()}
