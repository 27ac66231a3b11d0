"""MemoryAttention: a layer as `torch.nn.MultiheadAttention`, for sources that are read once and looked up often."""

from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from attar.errors import ShapeError
from attar.nn.mechanisms import attention
from attar.nn.mechanisms.base import Mechanism, Scale, blank
from attar.nn.mechanisms.keyed import Features, KeyedAttention, check_features, positive
from attar.nn.memories import Memories
from attar.ops.checks import Device, Dtype, Lengths, check_floats, check_real, length_mask, shape_of

Queries = Float[Tensor, "B m size"]
Source = Float[Tensor, "B n source"]


class MemoryAttention(nn.Module):
    """Cross-attention by memory: queries `[B, m, size]` read a source `[B, n, source_size]` in constant time each.

    `mechanism` is one of `attar.nn.attention`; `options` are its own. With "keyed", keys and values have projections of
    their own; the others write one projection of the source, which is key and value in one. `features` makes queries
    and keys positive ("softplus", "elu", "relu"). `normalize` divides the readout of each head by its root mean square.
    `scale` is the mechanism's, √tokens by default; a ridge and softmax have their own.

    >>> import torch
    >>> layer = MemoryAttention(8, heads=2, mechanism="gated")
    >>> memories = layer.encode(torch.randn(1, 50, 8))  # once
    >>> layer.lookup(memories, torch.randn(1, 3, 8)).shape  # many times
    torch.Size([1, 3, 8])
    """

    def __init__(
        self,
        size: int,
        heads: int = 1,
        mechanism: str = "keyed",
        *,
        source_size: int | None = None,
        scale: Scale = "sqrt",
        features: Features = None,
        normalize: bool = False,
        bias: bool = True,
        device: Device = None,
        dtype: Dtype = None,
        **options: Any,
    ) -> None:
        super().__init__()
        check_features(features)
        keyed, factory = mechanism == "keyed", dict[str, Any](device=device, dtype=dtype)
        self.source_size = source_size = size if source_size is None else source_size
        if mechanism not in ("none", "softmax") and not options.get("ridge"):
            options = {"scale": scale, **options}
        if keyed:
            options = {"features": features, **options}
        self.mechanism = attention(mechanism, size, heads, **options, **factory)
        self.features: Features = features
        self.query = nn.Linear(size, size, bias, **factory)
        # The keys of "keyed" are a projection of the source already.
        own = keyed and source_size == size
        self.key = nn.Identity() if own else nn.Linear(source_size, size, bias, **factory)
        self.value = nn.Linear(source_size, size, bias, **factory) if keyed else None
        self.norm = nn.RMSNorm(self.mechanism.head_size, **factory) if normalize else None
        self.output = nn.Linear(size, size, bias, **factory)

    def reset_parameters(self) -> None:
        """Initialise all parameters again, as when the layer was made."""
        for module in self.children():
            if isinstance(module, Mechanism | nn.Linear | nn.RMSNorm):
                module.reset_parameters()

    def encode(self, source: Source, lengths: Lengths = None) -> Memories:
        """The memories of sources, for any number of lookups; what follows a length is ignored."""
        hidden, inputs = self._written(source, lengths)
        return self.mechanism.encode(hidden, lengths, **inputs)

    def extend(self, memories: Memories, source: Source, lengths: Lengths = None) -> Memories:
        """The memories after more of their sources."""
        hidden, inputs = self._written(source, lengths)
        return self.mechanism.extend(memories, hidden, lengths, **inputs)

    def lookup(self, memories: Memories, queries: Queries) -> Queries:
        """The readout of every query, in constant time for all mechanisms but softmax."""
        return self.project_readouts(self.mechanism.lookup(memories, self.project_queries(queries)))

    def lookup_along(
        self,
        x: Queries,
        lengths: Lengths = None,
        *,
        cu_seqlens: Lengths = None,
        memories: Memories | None = None,
    ) -> Queries:
        """Causal self-attention: every position of x reads the memory of x up to itself, after `memories`."""
        hidden, inputs = self._written(x, lengths)
        options = {"cu_seqlens": cu_seqlens, "memories": memories, **inputs}
        return self.project_readouts(
            self.mechanism.lookup_along(hidden, self.project_queries(x), lengths, **options)
        )

    def forward(self, queries: Queries, source: Source, lengths: Lengths = None) -> Queries:
        """Read sources and look up queries, as a training step does."""
        return self.lookup(self.encode(source, lengths), queries)

    def _written(self, source: Source, lengths: Lengths) -> tuple[Queries, dict[str, Any]]:
        check_floats("source", source, "B n k")
        if source.shape[2] != self.source_size:
            raise ShapeError.expected("source", f"[B, n, {self.source_size}]", shape_of(source))
        source = blank(source, length_mask(lengths, source))
        hidden = self.key(source)
        if self.value is not None:
            return hidden, {"values": self.value(source)}
        return positive(self.features, hidden), {}

    def project_queries(self, queries: Float[Tensor, "*batch size"]) -> Float[Tensor, "*batch size"]:
        """Queries as the mechanism, or a bank of its `matrices`, takes them."""
        check_real("queries", queries)
        if queries.shape[-1] != self.query.in_features:
            raise ShapeError.expected("queries", f"[…, {self.query.in_features}]", shape_of(queries))
        asked = positive(self.features, self.query(queries))
        return asked / self.mechanism.head_size**0.5 if self.mechanism.name == "softmax" else asked

    def project_readouts(self, readouts: Float[Tensor, "*batch size"]) -> Float[Tensor, "*batch size"]:
        """What the layer makes of readouts of the mechanism, or of a bank."""
        if self.norm is not None:
            heads = readouts.view(*readouts.shape[:-1], self.mechanism.heads, self.mechanism.head_size)
            readouts = self.norm(heads).flatten(-2)
        result: Tensor = self.output(readouts)
        return result

    def extra_repr(self) -> str:
        """The options that differ from the defaults."""
        own = self.features is not None and not isinstance(self.mechanism, KeyedAttention)
        return f"features={self.features!r}" if own else ""
