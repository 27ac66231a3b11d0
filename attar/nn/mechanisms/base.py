"""The common interface of all mechanisms: encode, extend, lookup, merge. And what they pass around, `Memories`."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.utils import _pytree

from attar.errors import OptionError, ShapeError
from attar.ops.checks import (
    Backend,
    Device,
    Dtype,
    Lengths,
    check_backend,
    check_device,
    check_floats,
    check_shape,
    shape_of,
    token_counts,
)
from attar.ops.lookups import lookup

Scale = Literal["sqrt", "mean"] | None
States = Float[Tensor, "B n k"]
Queries = Float[Tensor, "B m k"]
Matrices = Float[Tensor, "B k k"]


def check_size(what: str, size: object) -> None:
    """Refuse a size that is not a whole number from 1 up."""
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise OptionError.expected(what, "a whole number from 1 up", repr(size))


@dataclass(frozen=True)
class Memories:
    """The memories of B documents, and the number of tokens that each has read.

    `state` is `[B, k, k]` for linear, gated, decayed and adaptive; `[B, n, k]`, all states, for softmax; `[B, k]`,
    the last state, for none. `tokens` are kept separate and not divided out of it, so that states stay additive.
    It is a pytree, goes through `torch.export` and `torch.func.vmap`, and loads under `torch.load`'s defaults.
    """

    state: Float[Tensor, "B ..."]
    tokens: Int[Tensor, " B"]

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> "Memories":
        """The same on another device, or with its state in another dtype.

        >>> Memories(torch.zeros(1, 2, 2), torch.tensor([3])).to(dtype=torch.bfloat16).state.dtype
        torch.bfloat16
        """
        return Memories(self.state.to(device, dtype), self.tokens.to(device))

    def detach(self) -> "Memories":
        """The same, detached from the graph: reading continues, gradients stop here."""
        return Memories(self.state.detach(), self.tokens)


def _unflatten(leaves: Any, _: Any) -> Memories:
    # Leaves may be anything: placeholders, or tensors with further dimensions under vmap.
    memories = object.__new__(Memories)
    memories.__dict__.update(zip(("state", "tokens"), leaves, strict=True))
    return memories


# Pickles name the class by its public place, wherever its module is.
Memories.__module__ = "attar.nn"
torch.serialization.add_safe_globals([Memories])
_pytree.register_pytree_node(
    Memories,
    lambda memories: ([memories.state, memories.tokens], None),
    _unflatten,
    serialized_type_name="attar.nn.Memories",
    flatten_with_keys_fn=lambda memories: (
        [(_pytree.GetAttrKey(name), getattr(memories, name)) for name in ("state", "tokens")],
        None,
    ),
)


class Mechanism(nn.Module, ABC):
    """A way to write and read memories of documents whose states have `size` dimensions.

    `device` and `dtype` are those of the parameters, as in torch.nn; a mechanism without parameters ignores them.
    """

    name: str

    def __init__(self, size: int, *, device: Device = None, dtype: Dtype = None) -> None:
        super().__init__()
        check_size("size", size)
        self.size = size

    @abstractmethod
    def encode(self, hidden: States, lengths: Lengths = None) -> Memories:
        """The memories of documents; what follows a document's length is ignored."""

    @abstractmethod
    def extend(self, memories: Memories, hidden: States, lengths: Lengths = None) -> Memories:
        """The memories after more tokens: the same as encoding the old and the new tokens at once."""

    @abstractmethod
    def lookup(self, memories: Memories, queries: Queries) -> Queries:
        """The readout of every query, in the queries' dtype."""

    def merge(self, earlier: Memories, later: Memories) -> Memories:
        """The memories of two texts that were read separately, as if they had been read as one."""
        raise OptionError.expected(
            "merge",
            "a mechanism that forgets nothing",
            repr(self.name),
            "extend the first memory with the second text's states",
        )

    def forward(
        self,
        hidden: States,
        queries: Float[Tensor, "B m q"],
        lengths: Lengths = None,
        **inputs: Any,
    ) -> Float[Tensor, "B m d"]:
        """Encode documents and look up queries, as a training step does; `inputs` are those of `encode`."""
        return self.lookup(self.encode(hidden, lengths, **inputs), queries)

    def extra_repr(self) -> str:
        """The size and the options that differ from the defaults, for print(module)."""
        defaults = {"scale": None, "backend": "auto", "positive": False, "ridge": 0.0}
        options = {name: getattr(self, name, default) for name, default in defaults.items()}
        changed = [f"{name}={value!r}" for name, value in options.items() if value != defaults[name]]
        return ", ".join([f"size={self.size}", *changed])

    def count_tokens(self, hidden: States, lengths: Lengths) -> Int[Tensor, " B"]:
        """The number of tokens per document; states of another size are refused."""
        check_floats("hidden", hidden, "B n k")
        batch, n, k = hidden.shape
        if k != self.size:
            raise ShapeError.expected("hidden", f"[B, n, {self.size}]", shape_of(hidden))
        if lengths is None:
            return hidden.new_full((batch,), n, dtype=torch.int64)
        return token_counts(lengths, hidden)


def add_tokens(earlier: Memories, read: Int[Tensor, " B"]) -> Int[Tensor, " B"]:
    """The number of tokens per document after more were read; another number of documents is refused."""
    check_shape("memories.tokens", earlier.tokens, tuple(read.shape), "one memory per document")
    check_device("memories.tokens", earlier.tokens, read)
    return earlier.tokens + read


def add_memories(earlier: Memories, later: Memories) -> Memories:
    """The sum of memories of the same shape."""
    tokens = add_tokens(earlier, later.tokens)
    check_shape("memories.state", earlier.state, tuple(later.state.shape), "one memory per document")
    return Memories(earlier.state + later.state, tokens)


class ScaledMechanism(Mechanism):
    """A mechanism whose readout is a product with queries, divided by the document's length.

    C q grows with the document: `scale="sqrt"` divides it by √tokens, `scale="mean"` by tokens. The division is done
    at lookup, so that a stored C stays a sum.
    """

    def __init__(self, size: int, *, scale: Scale = None, device: Device = None, dtype: Dtype = None) -> None:
        super().__init__(size, device=device, dtype=dtype)
        if scale not in (None, "sqrt", "mean"):
            raise OptionError.expected("scale", "None, 'sqrt' or 'mean'", repr(scale))
        self.scale: Scale = scale

    def encode(self, hidden: States, lengths: Lengths = None, **inputs: Any) -> Memories:
        """C of each document; `inputs` are what else a mechanism's `write` takes."""
        tokens = self.count_tokens(hidden, lengths)
        return Memories(self.write(hidden, lengths, None, **inputs), tokens)

    def extend(self, memories: Memories, hidden: States, lengths: Lengths = None, **inputs: Any) -> Memories:
        """C of each document after more tokens."""
        tokens = add_tokens(memories, self.count_tokens(hidden, lengths))
        return Memories(self.write(hidden, lengths, memories.state, **inputs), tokens)

    def lookup(self, memories: Memories, queries: Queries) -> Float[Tensor, "B m d"]:
        """C q / scale."""
        return self.read(memories.state, memories, queries)

    @abstractmethod
    def write(self, *args: Any, **inputs: Any) -> Float[Tensor, "B ..."]:
        """C of documents, given their states, lengths and the C to continue from, or None."""

    def read(
        self, matrix: Float[Tensor, "B d k"], memories: Memories, queries: Queries
    ) -> Float[Tensor, "B m d"]:
        """The product of a matrix per document with its queries, divided by the scale."""
        if self.scale is None:
            return lookup(matrix, queries)
        # The query is divided, not the readout, and in the wider dtype: C q may be too large for float16.
        dtype = torch.promote_types(matrix.dtype, queries.dtype)
        tokens = (
            memories.tokens[:, None, None].clamp(min=1).to(dtype)
        )  # an empty document counts as one token
        divisor = tokens.sqrt() if self.scale == "sqrt" else tokens
        return lookup(matrix, queries.to(dtype) / divisor).to(queries.dtype)


class MatrixMechanism(ScaledMechanism):
    """A mechanism whose memory is C `[B, k, k]` and whose readout is C q, divided by the scale."""

    def __init__(
        self,
        size: int,
        *,
        scale: Scale = None,
        backend: Backend = "auto",
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        super().__init__(size, scale=scale, device=device, dtype=dtype)
        check_backend(backend)
        self.backend: Backend = backend
