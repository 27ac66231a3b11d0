"""A pretrained transformer encoder of BERT's shape, such as all-MiniLM-L6-v2, on `torch.nn.TransformerEncoder`."""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode

from attar.ops.checks import Device, Dtype
from attar.options import TransformerShape

# Not cuDNN's: it makes a plan for every new number and length of texts, which takes longer than reading them.
_ATTENTION = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]


class Transformer(nn.Module):
    """Token ids to hidden states: embeddings, then layers with the norm after each part, as in BERT.

    >>> network = Transformer(TransformerShape(vocabulary=50, size=8, layers=1, heads=2, feedforward=16))
    >>> network(torch.tensor([[3, 4, 5]])).shape
    torch.Size([1, 3, 8])
    """

    def __init__(
        self,
        shape: TransformerShape | None = None,
        *,
        dropout: float = 0.1,
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        super().__init__()
        self.shape = shape = shape or TransformerShape()
        self.dropout = dropout
        self.words = nn.Embedding(shape.vocabulary, shape.size, device=device, dtype=dtype)
        self.positions = nn.Embedding(shape.positions, shape.size, device=device, dtype=dtype)
        self.types = nn.Embedding(2, shape.size, device=device, dtype=dtype)
        self.norm = nn.LayerNorm(shape.size, eps=1e-12, device=device, dtype=dtype)
        layer = nn.TransformerEncoderLayer(
            shape.size,
            shape.heads,
            shape.feedforward,
            dropout=dropout,
            activation="gelu",
            layer_norm_eps=1e-12,
            batch_first=True,
            device=device,
            dtype=dtype,
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
            x = functional.dropout(x, self.dropout)
        return self.continued(x, mask, slice(0, layers))

    def continued(
        self, x: Float[Tensor, "B n d"], mask: Bool[Tensor, "B n"] | None, layers: slice
    ) -> Float[Tensor, "B n d"]:
        """The states after some of the layers, from those before them."""
        return run_layers(list(self.layers.layers[layers]), x, mask)


def run_layers(
    layers: Sequence[nn.TransformerEncoderLayer],
    x: Float[Tensor, "B n d"],
    mask: Bool[Tensor, "B n"] | None = None,
) -> Float[Tensor, "B n d"]:
    """The states after layers; `mask` is true at tokens and false in padding.

    Without dropout the steps of a layer are taken one by one: PyTorch's own fused layer writes out all attention
    weights, and takes 1.3 to 1.7 times as long on windows of a text.
    """
    padding = None if mask is None else ~mask
    # On a GPU nothing waits to be told that there is no padding.
    is_full = mask is None or (mask.device.type == "cpu" and bool(mask.all()))
    bias = None if mask is None or is_full else mask[:, None, None]
    for layer in layers:
        if layer.training:
            x = layer(x, src_key_padding_mask=padding)
            continue
        attention = layer.self_attn
        stacked = functional.linear(x, attention.in_proj_weight, attention.in_proj_bias)
        queries, keys, values = stacked.view(*x.shape[:2], 3, attention.num_heads, -1).permute(2, 0, 3, 1, 4)
        with sdpa_kernel(_ATTENTION):
            read = functional.scaled_dot_product_attention(queries, keys, values, attn_mask=bias)
        x = layer.norm1(x + attention.out_proj(read.transpose(1, 2).flatten(2)))
        x = layer.norm2(x + layer.linear2(functional.gelu(layer.linear1(x))))
    return x


class without_initialization(TorchFunctionMode):  # noqa: N801  # used as a function
    """Make modules whose weights are loaded next: no random numbers are drawn.

    On the meta device PyTorch would import its compiler for these, which takes more than a second.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Leave out what sets numbers, and return the tensor as it is."""
        given = kwargs or {}
        if func is torch.eye and "out" in given:  # of `torch.nn.init.eye_`
            return given["out"]
        if (
            func in (torch.Tensor.normal_, torch.Tensor.uniform_)
            or getattr(func, "__module__", "") == "torch.nn.init"
        ):
            return args[0] if args else given["tensor"]
        return func(*args, **given)
