"""`Transformer` for a CPU, its matrices and activations in int8: three times as fast as float32, the same exact match.

Matrices have a scale per row, activations one per token: what a token becomes does not depend on how many others are
computed with it. Sums of products of such integers are exact in float32, too: a processor without instructions for
int8 gets the same numbers, only not faster. AMD EPYC with VNNI, one thread, windows of 140 pieces: 11,200 pieces per
second instead of 3,800; exact match of 1,103 SQuAD questions .540 with both; 98.7 % of the phrases are the same.
"""

from functools import cache

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from attar.nn.transformer import Transformer

_LEVELS = 127


@cache
def has_int8() -> bool:
    """Whether this processor multiplies int8 faster than float32."""
    return bool(getattr(torch.cpu, "_is_vnni_supported", lambda: False)())


class Int8Linear:
    """`x Wᵀ + b` with a scale per row of W and per row of x.

    >>> linear = Int8Linear(torch.tensor([[1.0, 0.0], [0.0, -2.0]]), torch.tensor([0.0, 1.0]))
    >>> linear(torch.tensor([[2.0, 2.0], [0.0, 4.0]])).tolist()
    [[2.0, -3.0], [0.0, -7.0]]
    """

    def __init__(self, matrix: Tensor, bias: Tensor) -> None:
        matrix = matrix.detach()
        self._scales = matrix.abs().amax(1).clamp(min=1e-12) / _LEVELS
        levels = (matrix / self._scales[:, None]).round()
        self._levels = (levels.to(torch.int8) if has_int8() else levels).T
        self._bias = bias.detach()

    def __call__(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n e"]:
        largest = x.abs().amax(1, keepdim=True).clamp_(min=1e-12)
        levels = (x * (_LEVELS / largest)).round_()
        if self._levels.dtype == torch.int8:
            product = torch._int_mm(levels.to(torch.int8), self._levels).float()
        else:
            product = levels @ self._levels
        return product.mul_(largest / _LEVELS).mul_(self._scales).add_(self._bias)


class _Int8Layer:
    """`torch.nn.TransformerEncoderLayer` with the norm after each part."""

    def __init__(self, layer: nn.TransformerEncoderLayer) -> None:
        attention = layer.self_attn
        self._heads = attention.num_heads
        self._into = Int8Linear(attention.in_proj_weight, attention.in_proj_bias)
        self._out = Int8Linear(attention.out_proj.weight, attention.out_proj.bias)
        self._up, self._down = (Int8Linear(part.weight, part.bias) for part in (layer.linear1, layer.linear2))
        self._norms = layer.norm1, layer.norm2

    def __call__(self, x: Tensor, shape: tuple[int, int], bias: Tensor | None) -> Tensor:
        """The states `[B n, d]` after the layer, of `shape` (B, n)."""
        queries, keys, values = self._into(x).view(*shape, 3, self._heads, -1).permute(2, 0, 3, 1, 4)
        read = functional.scaled_dot_product_attention(queries, keys, values, attn_mask=bias)
        x = self._norms[0](x + self._out(read.transpose(1, 2).reshape(x.shape)))
        states: Tensor = self._norms[1](x + self._down(functional.gelu(self._up(x))))
        return states


class Int8Transformer:
    """An encoder that computes as a `Transformer` does, but for rounding; without gradients."""

    def __init__(self, encoder: Transformer) -> None:
        self._encoder = encoder
        with torch.inference_mode(False), torch.no_grad():
            self._layers = [_Int8Layer(layer) for layer in encoder.layers.layers]

    def __call__(
        self, ids: Int[Tensor, "B n"], mask: Bool[Tensor, "B n"], *, layers: int | None = None
    ) -> Float[Tensor, "B n d"]:
        """The hidden states after all layers, or after the first `layers`."""
        return self.continued(self._encoder(ids, mask, layers=0), mask, slice(0, layers))

    def continued(
        self, x: Float[Tensor, "B n d"], mask: Bool[Tensor, "B n"], layers: slice
    ) -> Float[Tensor, "B n d"]:
        """The states after some of the layers, from those before them."""
        bias = None if bool(mask.all()) else mask[:, None, None]
        states = x.reshape(-1, x.shape[-1])
        for layer in self._layers[layers]:
            states = layer(states, (x.shape[0], x.shape[1]), bias)
        return states.view_as(x)
