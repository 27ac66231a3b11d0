"""A transformer of MPNet's shape: attention depends on how far apart two tokens are, alike in all layers.

The teacher of readers is one: all-mpnet-base-v2 has five times the weights of all-MiniLM-L6-v2.
"""

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from attar.nn.transformer import Transformer
from attar.options import TransformerShape

_EPSILON = 1e-5  # of the layer norms
_FARTHEST = 128  # distances beyond it share a bucket


class RelativeTransformer(Transformer):
    """`Transformer` with a learned bias for each head and each bucket of distances, which stays as published.

    >>> shape = TransformerShape(vocabulary=50, size=8, layers=1, heads=2, feedforward=16)
    >>> RelativeTransformer(shape)(torch.tensor([[3, 4, 5]])).shape
    torch.Size([1, 3, 8])
    """

    def __init__(self, shape: TransformerShape, buckets: int = 32, *, dropout: float = 0.1) -> None:
        super().__init__(shape, dropout=dropout)
        # Without a gradient attention can be computed without writing out its weights.
        self.relative = nn.Embedding(buckets, shape.heads).requires_grad_(False)
        for module in self.modules():
            if isinstance(module, nn.LayerNorm):
                module.eps = _EPSILON

    def continued(
        self, x: Float[Tensor, "B n d"], mask: Bool[Tensor, "B n"] | None, layers: slice
    ) -> Float[Tensor, "B n d"]:
        """The states after some of the layers, from those before them."""
        bias = self._bias(x.shape[1]).to(x.dtype)
        if torch.is_autocast_enabled(x.device.type):
            bias = bias.to(torch.get_autocast_dtype(x.device.type))
        if mask is not None:
            bias = bias.masked_fill(~mask[:, None, None], float("-inf"))
        dropout = self.dropout if self.training else 0.0
        for layer in self.layers.layers[layers]:
            assert isinstance(layer, nn.TransformerEncoderLayer)  # torch types the list as modules
            x = _layer_forward(layer, x, bias, dropout)
        return x

    def _bias(self, length: int) -> Float[Tensor, "1 h n n"]:
        places = torch.arange(length, device=self.relative.weight.device)
        buckets = distance_buckets(places[None] - places[:, None], self.relative.num_embeddings)
        bias: Tensor = self.relative(buckets).permute(2, 0, 1)[None]
        return bias


def _layer_forward(layer: nn.TransformerEncoderLayer, x: Tensor, bias: Tensor, dropout: float) -> Tensor:
    attention = layer.self_attn
    stacked = functional.linear(x, attention.in_proj_weight, attention.in_proj_bias)
    queries, keys, values = stacked.view(*x.shape[:2], 3, attention.num_heads, -1).permute(2, 0, 3, 1, 4)
    read = functional.scaled_dot_product_attention(
        queries, keys, values, attn_mask=bias.expand(len(x), -1, -1, -1), dropout_p=dropout
    )
    read = attention.out_proj(read.transpose(1, 2).flatten(2))
    x = layer.norm1(x + functional.dropout(read, dropout))
    inner = layer.linear2(functional.gelu(layer.linear1(x)))
    states: Tensor = layer.norm2(x + functional.dropout(inner, dropout))
    return states


def distance_buckets(distances: Int[Tensor, "*shape"], count: int) -> Int[Tensor, "*shape"]:
    """The bucket of each distance: half of them for tokens after; near distances have one each, far ones share.

    >>> distance_buckets(torch.tensor([0, -1, 1, -7, -9, 100, 4000]), 32).tolist()
    [0, 1, 17, 7, 8, 31, 31]
    """
    half = count // 2
    far = distances.abs()
    near = half // 2
    scaled = torch.log(far.clamp(min=1).float() / near) / math.log(_FARTHEST / near) * (half - near)
    shared = (near + scaled.long()).clamp(max=half - 1)
    return torch.where(far < near, far, shared) + half * (distances > 0)
