"""The one interface of all mechanisms: encode, extend, lookup."""

from abc import ABC, abstractmethod
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attar.errors import OptionError, ShapeError
from attar.nn.attention.memories import Memories
from attar.ops import BACKENDS, Backend, checks, lookup

Scale = Literal["sqrt", "mean"] | None
SCALES = (None, "sqrt", "mean")


class Mechanism(nn.Module, ABC):
    """A way to write and read memories of documents whose states have `size` numbers."""

    name: str

    def __init__(self, size: int) -> None:
        super().__init__()
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise OptionError("size", "a whole number from 1 up", repr(size))
        self.size = size

    @abstractmethod
    def encode(self, hidden: Float[Tensor, "B n k"], lengths: checks.Lengths = None) -> Memories:
        """The memories of documents; what lies behind a document's length is not read."""

    @abstractmethod
    def extend(
        self, memories: Memories, hidden: Float[Tensor, "B n k"], lengths: checks.Lengths = None
    ) -> Memories:
        """The memories after reading on: the same as encoding the old and the new tokens in one go."""

    @abstractmethod
    def lookup(self, memories: Memories, queries: Float[Tensor, "B m k"]) -> Float[Tensor, "B m k"]:
        """The readout of every query, in the queries' type."""

    def merge(self, earlier: Memories, later: Memories) -> Memories:
        """The memories of two texts read apart, as if they had been read as one."""
        raise OptionError(
            "merge",
            "a mechanism that forgets nothing",
            repr(self.name),
            "extend the first memory with the second text's states",
        )

    def forward(
        self,
        hidden: Float[Tensor, "B n k"],
        queries: Float[Tensor, "B m k"],
        lengths: checks.Lengths = None,
    ) -> Float[Tensor, "B m k"]:
        """Read documents and look up queries at once, as a training step does."""
        return self.lookup(self.encode(hidden, lengths), queries)

    def extra_repr(self) -> str:
        """The size, for print(module)."""
        return f"size={self.size}"

    def count_tokens(self, hidden: Float[Tensor, "B n k"], lengths: checks.Lengths) -> Int[Tensor, " B"]:
        """How many tokens of each document are read here; states of another size are refused."""
        checks.check_floats("hidden", hidden, "B n k")
        batch, n, k = hidden.shape
        if k != self.size:
            raise ShapeError("hidden", f"[B, n, {self.size}]", checks.shape_of(hidden))
        if lengths is None:
            return hidden.new_full((batch,), n, dtype=torch.int64)
        return checks.counts_of(lengths, hidden)


def add_tokens(earlier: Memories, read: Int[Tensor, " B"]) -> Int[Tensor, " B"]:
    """How many tokens each document has after reading on; another number of documents is refused."""
    checks.check_shape("memories.tokens", earlier.tokens, tuple(read.shape), "one memory a document")
    checks.check_device("memories.tokens", earlier.tokens, read)
    return earlier.tokens + read


class MatrixMechanism(Mechanism):
    """A mechanism whose memory is C `[B, k, k]` and whose readout is C q, divided by what `scale` says.

    C q grows with the document: `scale="sqrt"` divides it by √tokens, `scale="mean"` by tokens. The division
    is made at lookup, so that a stored C stays a sum.
    """

    def __init__(self, size: int, *, scale: Scale = None, backend: Backend = "auto") -> None:
        super().__init__(size)
        if scale not in SCALES:
            raise OptionError("scale", "None, 'sqrt' or 'mean'", repr(scale))
        if backend not in BACKENDS:
            raise OptionError("backend", "one of " + ", ".join(BACKENDS), repr(backend))
        self.scale: Scale = scale
        self.backend: Backend = backend

    def encode(self, hidden: Float[Tensor, "B n k"], lengths: checks.Lengths = None) -> Memories:
        """C of each document."""
        tokens = self.count_tokens(hidden, lengths)
        return Memories(self.write(hidden, lengths, None), tokens)

    def extend(
        self, memories: Memories, hidden: Float[Tensor, "B n k"], lengths: checks.Lengths = None
    ) -> Memories:
        """C of each document after reading on."""
        tokens = add_tokens(memories, self.count_tokens(hidden, lengths))
        return Memories(self.write(hidden, lengths, memories.state), tokens)

    def lookup(self, memories: Memories, queries: Float[Tensor, "B m k"]) -> Float[Tensor, "B m k"]:
        """C q / scale."""
        if self.scale is None:
            return lookup(memories.state, queries)
        tokens = memories.tokens.clamp(min=1)[:, None, None]
        # The query is divided, not the readout, and in the memory's type: C q may be too large for float16.
        wide = torch.promote_types(memories.state.dtype, queries.dtype)
        divisor = tokens.to(wide).sqrt() if self.scale == "sqrt" else tokens.to(wide)
        return lookup(memories.state, queries.to(wide) / divisor).to(queries.dtype)

    @abstractmethod
    def write(
        self,
        hidden: Float[Tensor, "B n k"],
        lengths: checks.Lengths,
        initial: Float[Tensor, "B k k"] | None,
    ) -> Float[Tensor, "B k k"]:
        """C of the documents, going on from `initial`."""

    def extra_repr(self) -> str:
        """The size and what differs from the defaults, for print(module)."""
        options = {"scale": (self.scale, None), "backend": (self.backend, "auto")}
        changed = [f"{name}={value!r}" for name, (value, default) in options.items() if value != default]
        return ", ".join([super().extra_repr(), *changed])
