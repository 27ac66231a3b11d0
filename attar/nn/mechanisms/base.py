"""The common interface of all mechanisms: encode, extend, lookup."""

from abc import ABC, abstractmethod
from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attar.errors import DtypeError, OptionError, ShapeError
from attar.nn.memories import Memories as Memories
from attar.nn.memories import form_name
from attar.ops import checks
from attar.ops.along import lookup_along, sequence_starts
from attar.ops.gram import blank_gates, encode
from attar.ops.lookups import lookup

Scale = Literal["sqrt", "mean"] | None
States = Float[Tensor, "B n k"]
Queries = Float[Tensor, "B m k"]
# With heads as documents of their own.
Matrices = Float[Tensor, "Bh kh dh"]
Gates = Float[Tensor, "Bh n"] | None
Decays = Float[Tensor, " Bh"] | None
Mask = Bool[Tensor, "B n"] | None


class Mechanism(nn.Module, ABC):
    """A way to write and read memories of documents whose states have `size` dimensions.

    With `heads`, states and queries are divided into that many parts, each with a memory of its own; readouts are
    joined again. `device` and `dtype` are those of the parameters, as in torch.nn; a mechanism without parameters
    ignores them.
    """

    name: str
    ridge = 0.0

    def __init__(
        self, size: int, *, heads: int = 1, device: checks.Device = None, dtype: checks.Dtype = None
    ) -> None:
        super().__init__()
        checks.check_size("size", size)
        checks.check_size("heads", heads)
        if size % heads:
            raise OptionError.expected("heads", f"a number that divides the size, {size}", str(heads))
        self.size, self.heads, self.head_size = size, heads, size // heads

    def reset_parameters(self) -> None:
        """Initialise all parameters again, as when the module was made."""

    @abstractmethod
    def encode(self, hidden: States, lengths: checks.Lengths = None) -> Memories:
        """The memories of documents; what follows a document's length is ignored."""

    def extend(self, memories: Memories, hidden: States, lengths: checks.Lengths = None) -> Memories:
        """The memories after more tokens: the same as encoding the old and the new tokens at once."""
        self._check_own(memories)
        return memories + self.encode(hidden, lengths)

    @abstractmethod
    def lookup(self, memories: Memories, queries: Queries) -> Queries:
        """The readout of every query, in the queries' dtype."""

    def matrices(self, memories: Memories) -> Float[Tensor, "B ..."]:
        """What a query is multiplied with, `[B, k, d]` or `[B, heads, k, d]`: the scale is divided out, for a bank."""
        raise OptionError.expected("matrices", "a mechanism whose memory is a matrix", repr(self.name))

    def lookup_along(
        self,
        hidden: States,
        queries: States,
        lengths: checks.Lengths = None,
        *,
        cu_seqlens: checks.Lengths = None,
        memories: Memories | None = None,
        **inputs: Any,
    ) -> Float[Tensor, "B n d"]:
        """The readout at every position, of the tokens up to it; linear, gated, decayed and keyed have it."""
        raise OptionError.expected("lookup_along", "linear, gated, decayed or keyed", repr(self.name))

    def forward(
        self, hidden: States, queries: Float[Tensor, "B m q"], lengths: checks.Lengths = None, **inputs: Any
    ) -> Float[Tensor, "B m d"]:
        """Encode documents and look up queries, as a training step does; `inputs` are those of `encode`."""
        return self.lookup(self.encode(hidden, lengths, **inputs), queries)

    def extra_repr(self) -> str:
        """The size and the options that differ from the defaults, for print(module)."""
        defaults = {"heads": 1, "scale": None, "backend": "auto", "features": None, "ridge": 0.0}
        options = {name: getattr(self, name, default) for name, default in defaults.items()}
        changed = [f"{name}={value!r}" for name, value in options.items() if value != defaults[name]]
        return ", ".join([f"size={self.size}", *changed])

    def _check_own(self, memories: Memories) -> None:
        """Refuse memories of another mechanism, ridge, size or number of heads."""
        given: object = memories
        if not isinstance(given, Memories):
            raise DtypeError.expected("memories", "Memories", type(given).__name__, "encode makes them")
        if (memories.mechanism, memories.ridge) != (self.name, self.ridge):
            own, other = form_name(self.name, self.ridge), form_name(memories.mechanism, memories.ridge)
            raise OptionError.expected("memories", f"those of {own}", other)
        if not self._fits(memories.state.shape[1:]):
            heads = f" and {self.heads} heads" if self.heads > 1 else ""
            found = f"a state {checks.shape_of(memories.state)}"
            raise ShapeError.expected("memories", f"those of size {self.size}{heads}", found)

    def _fits(self, shape: torch.Size) -> bool:
        """Whether this is the shape of a document's state."""
        return shape == (self.size,)

    def _check_queries(self, memories: Memories, queries: Queries) -> None:
        """Refuse memories of others, and queries of another size or number of documents."""
        self._check_own(memories)
        checks.check_floats("queries", queries, "B m k")
        shape = memories.tokens.shape[0], queries.shape[1], self.size
        checks.check_shape("queries", queries, shape, "one row of queries per memory")

    def _count_tokens(self, hidden: States, lengths: checks.Lengths) -> Int[Tensor, " B"]:
        """The number of tokens per document; states of another size are refused."""
        checks.check_floats("hidden", hidden, "B n k")
        batch, n, k = hidden.shape
        if k != self.size:
            raise ShapeError.expected("hidden", f"[B, n, {self.size}]", checks.shape_of(hidden))
        if lengths is None:
            return hidden.new_full((batch,), n, dtype=torch.int64)
        return checks.token_counts(lengths, hidden)

    def _split(self, states: Float[Tensor, "B n size"]) -> Float[Tensor, "Bh n part"]:
        """Heads as documents of their own: `[B, n, size]` to `[B · heads, n, size / heads]`."""
        if self.heads == 1:
            return states
        parts = states.reshape(*states.shape[:2], self.heads, states.shape[2] // self.heads)
        return self._fold(parts.transpose(1, 2))

    def _join(self, states: Float[Tensor, "Bh n part"]) -> Float[Tensor, "B n size"]:
        """The parts of all heads next to each other again."""
        return states if self.heads == 1 else self._unfold(states).transpose(1, 2).flatten(2)

    def _per_head(self, numbers: Int[Tensor, " B"]) -> Int[Tensor, " Bh"]:
        """A number per document, repeated for each head."""
        return numbers if self.heads == 1 else numbers.repeat_interleave(self.heads)

    def _fold(self, states: Float[Tensor, "B ..."]) -> Float[Tensor, "Bh ..."]:
        """`[B, heads, …]` to `[B · heads, …]`; unchanged with one head."""
        return states if self.heads == 1 else states.flatten(0, 1)

    def _unfold(self, states: Float[Tensor, "Bh ..."]) -> Float[Tensor, "B ..."]:
        """`[B · heads, …]` to `[B, heads, …]`; unchanged with one head."""
        if self.heads == 1:
            return states
        return states.reshape(states.shape[0] // self.heads, self.heads, *states.shape[1:])


def blank(states: Float[Tensor, "B n k"], mask: Mask) -> Float[Tensor, "B n k"]:
    """0 in padding, before it meets a parameter: 0 · NaN would reach its gradient."""
    return states if mask is None else states.masked_fill(~mask[:, :, None], 0)


def add_tokens(earlier: Memories, read: Int[Tensor, " B"]) -> Int[Tensor, " B"]:
    """The number of tokens per document after more were read; another number of documents is refused."""
    checks.check_shape("memories.tokens", earlier.tokens, tuple(read.shape), "one memory per document")
    checks.check_device("memories", earlier.tokens, read)
    return earlier.tokens + read


class Written(NamedTuple):
    """What is written of each token, with heads as documents: key and value, which are one without values; gates."""

    keys: Float[Tensor, "Bh n kh"]
    values: Float[Tensor, "Bh n dh"] | None = None
    alpha: Gates = None
    beta: Gates = None


class MatrixMechanism(Mechanism):
    """A mechanism whose memory is a matrix per document and head, and whose readout is its product with queries.

    C q grows with the document: `scale="sqrt"` divides it by √tokens, `scale="mean"` by tokens. The division is done
    at lookup, so that a stored C stays a sum.
    """

    # What `encode` takes next to states, by keyword.
    inputs: tuple[str, ...] = ()

    def __init__(
        self,
        size: int,
        *,
        heads: int = 1,
        scale: Scale = None,
        backend: checks.Backend = "auto",
        device: checks.Device = None,
        dtype: checks.Dtype = None,
    ) -> None:
        super().__init__(size, heads=heads, device=device, dtype=dtype)
        if scale not in (None, "sqrt", "mean"):
            raise OptionError.expected("scale", "None, 'sqrt' or 'mean'", repr(scale))
        checks.check_backend(backend)
        self.scale: Scale = scale
        self.backend: checks.Backend = backend

    def encode(self, hidden: States, lengths: checks.Lengths = None, **inputs: Any) -> Memories:
        """C of each document; `inputs` are what else the mechanism writes."""
        return self._encode(None, hidden, lengths, inputs)

    def extend(
        self, memories: Memories, hidden: States, lengths: checks.Lengths = None, **inputs: Any
    ) -> Memories:
        """C of each document after more tokens."""
        self._check_own(memories)
        return self._encode(memories, hidden, lengths, inputs)

    def _fits(self, shape: torch.Size) -> bool:
        return shape[-1] == self.head_size and self._has_rows(shape)

    def _has_rows(self, shape: torch.Size) -> bool:
        rows = (self.head_size,) if self.heads == 1 else (self.heads, self.head_size)
        return shape[:-1] == rows

    def _encode(
        self, earlier: Memories | None, hidden: States, lengths: checks.Lengths, inputs: dict[str, Any]
    ) -> Memories:
        self._check_inputs(inputs)
        tokens, initial = self._count_tokens(hidden, lengths), None
        counts = None if lengths is None else tokens
        if earlier is not None:
            tokens = add_tokens(earlier, tokens)
            initial = self._fold(earlier.state)
        state, kept = self._write(hidden, counts, initial, **inputs)
        kept = None if kept is None else self._unfold(kept)
        if kept is not None and earlier is not None:
            kept = None if earlier.kept is None else earlier.kept * kept
        return Memories(self._unfold(state), tokens, self.name, kept, ridge=self.ridge)

    def _check_inputs(self, given: dict[str, Any]) -> None:
        unknown = [name for name in given if name not in self.inputs]
        if unknown:
            expected = ", ".join(self.inputs) or "none"
            raise OptionError.expected(f"further inputs of {self.name!r}", expected, ", ".join(unknown))

    def lookup(self, memories: Memories, queries: Queries) -> Float[Tensor, "B m d"]:
        """Cᵀ q / scale, or Cᵀ (G + λI)⁻¹ q: a vector in the space of what was written."""
        self._check_queries(memories, queries)
        memories = memories.prepare()
        matrix = self._fold(memories.state if memories.prepared is None else memories.prepared)
        rows = self._split(queries)
        if self.scale is not None:
            rows = self._divide(rows, self._per_head(memories.tokens)[:, None], matrix.dtype)
        return self._join(lookup(matrix, rows)).to(queries.dtype)

    def matrices(self, memories: Memories) -> Float[Tensor, "B ..."]:
        self._check_own(memories)
        if self.ridge and memories.prepared is None:
            raise OptionError(
                "matrices: the memories of a ridge are not prepared", "call memories.prepare() first"
            )
        state = memories.state if memories.prepared is None else memories.prepared
        if self.scale is None:
            return state
        return state / self._divisor(memories.tokens[:, None], state.dtype).view(-1, *[1] * (state.ndim - 1))

    def lookup_along(
        self,
        hidden: States,
        queries: States,
        lengths: checks.Lengths = None,
        *,
        cu_seqlens: checks.Lengths = None,
        memories: Memories | None = None,
        **inputs: Any,
    ) -> Float[Tensor, "B n d"]:
        """The readout at every position: of the t-th query from the memory of the tokens up to t, itself included.

        The same as `extend` and `lookup` token by token, continuing from `memories` if they are given; 0 in padding.
        Packed sequences are one row `[1, T, size]`, with `cu_seqlens` as the places where they start and end.
        """
        self._check_inputs(inputs)
        tokens = self._count_tokens(hidden, lengths)
        checks.check_floats("queries", queries, "B n k")
        checks.check_shape("queries", queries, tuple(hidden.shape), "one query per token")
        mask, initial, before = checks.length_mask(lengths, hidden), None, torch.zeros_like(tokens)
        written = self._written(blank(hidden, mask), mask, **inputs)
        if memories is not None:
            self._check_own(memories)
            before, initial = add_tokens(memories, before), self._fold(memories.state)
        rows = self._split(blank(queries, mask))
        if self.scale is not None:
            position = torch.arange(1, hidden.shape[1] + 1, device=hidden.device)
            if cu_seqlens is not None:
                starts = sequence_starts(cu_seqlens, hidden.shape[1]).to(hidden.device)
                position = position - starts[torch.searchsorted(starts, position) - 1]
            counts = self._per_head(before)[:, None] + position
            rows = self._divide(rows, counts, checks.accumulation_dtype(hidden.dtype))
        readouts = lookup_along(
            *(written.keys, written.keys if written.values is None else written.values, rows),
            alpha=written.alpha,
            beta=written.beta,
            initial=initial,
            lengths=None if lengths is None else self._per_head(tokens),
            cu_seqlens=cu_seqlens,
        )
        return self._join(readouts).to(queries.dtype)

    def _write(self, *args: Any, **inputs: Any) -> tuple[Matrices, Decays]:
        """C of documents, and ∏ α where there is decay, given states, lengths and the C to continue from, or None."""
        hidden, lengths, initial = args
        mask = checks.length_mask(lengths, hidden)
        written = self._written(blank(hidden, mask), mask, **inputs)
        counts = None if lengths is None else self._per_head(lengths)
        gates = {"alpha": written.alpha, "beta": written.beta}
        memory = encode(written.keys, **gates, lengths=counts, initial=initial, backend=self.backend)
        if written.alpha is None:
            return memory, None
        per_head = checks.length_mask(counts, written.keys)
        return memory, blank_gates(written.alpha, per_head, 1.0).prod(1)

    @abstractmethod
    def _written(self, *args: Any, **inputs: Any) -> Written:
        """What is written of each token, given states that are 0 in padding, and the mask."""

    def _divide(
        self, queries: Float[Tensor, "Bh m k"], tokens: Int[Tensor, "Bh ..."], dtype: torch.dtype
    ) -> Float[Tensor, "Bh m k"]:
        """Queries, not readouts, are divided, and in the wider dtype: C q may be too large for float16."""
        wide = queries.to(torch.promote_types(dtype, queries.dtype))
        return wide / self._divisor(tokens, wide.dtype)

    def _divisor(self, tokens: Int[Tensor, "Bh n"], dtype: torch.dtype) -> Float[Tensor, "Bh n 1"]:
        """What readouts after so many tokens are divided by; an empty document counts as one token."""
        count = tokens.clamp(min=1).to(dtype)[:, :, None]
        return count.sqrt() if self.scale == "sqrt" else count
