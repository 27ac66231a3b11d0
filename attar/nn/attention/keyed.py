"""Keys apart from values: what is found by a token's state is the token itself, so that answers are copied."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attar.errors import OptionError
from attar.nn.attention.mechanism import SCALES, Mechanism, Scale, add_tokens
from attar.nn.attention.memories import Memories
from attar.ops import checks, lookup


class KeyMechanism(Mechanism):
    """key = σ(W h + b) ⊙ (V h), and readouts divided by what `scale` says, at lookup: memories stay sums.

    With `positive`, key = σ(W h + b) ⊙ softplus(V h): for queries that are positive too, no token speaks
    against what another says, and a readout is a weight.
    """

    def __init__(
        self, size: int, *, gate_bias: float = 0.0, scale: Scale = None, positive: bool = False
    ) -> None:
        super().__init__(size)
        self.positive = positive
        if scale not in SCALES:
            raise OptionError("scale", "None, 'sqrt' or 'mean'", repr(scale))
        self.scale: Scale = scale
        self.gate = nn.Linear(size, size)
        nn.init.constant_(self.gate.bias, gate_bias)
        self.key = nn.Linear(size, size, bias=False)

    def keys(self, hidden: Float[Tensor, "*batch k"]) -> Float[Tensor, "*batch k"]:
        """σ(W h + b) ⊙ (V h), or ⊙ softplus(V h), in the states' type."""
        gate, bias, key = (p.to(hidden.dtype) for p in (self.gate.weight, self.gate.bias, self.key.weight))
        opened = torch.sigmoid(nn.functional.linear(hidden, gate, bias))
        found = nn.functional.linear(hidden, key)
        return opened * (nn.functional.softplus(found) if self.positive else found)

    def read(
        self, vectors: Float[Tensor, "B d k"], memories: Memories, queries: Float[Tensor, "B m k"]
    ) -> Float[Tensor, "B m d"]:
        """The product of every vector with every query, divided by the scale."""
        if self.scale is None:
            return lookup(vectors, queries)
        tokens = memories.tokens.clamp(min=1)[:, None, None]
        # The query is divided, not the readout, and in the memory's type: C q may be too large for float16.
        wide = torch.promote_types(vectors.dtype, queries.dtype)
        divisor = tokens.to(wide).sqrt() if self.scale == "sqrt" else tokens.to(wide)
        return lookup(vectors, queries.to(wide) / divisor).to(queries.dtype)

    def extra_repr(self) -> str:
        """The size and what differs from the defaults, for print(module)."""
        options = {"scale": (self.scale, None), "positive": (self.positive, False)}
        changed = [f"{name}={value!r}" for name, (value, default) in options.items() if value != default]
        return ", ".join([super().extra_repr(), *changed])


class KeyedAttention(KeyMechanism):
    """C = Σ key_t x_tᵀ, a memory `[B, k, d]`: keys from the states, the tokens' own embeddings as values.

    The readout Σ (key_t · q) x_t lies among the embeddings: a candidate e is scored by its product with x_e.

    >>> keyed = KeyedAttention(1)
    >>> parameters = {"gate.weight": torch.zeros(1, 1), "gate.bias": torch.zeros(1), "key.weight": torch.eye(1)}
    >>> keyed.load_state_dict(parameters)  # every key is half its state
    <All keys matched successfully>
    >>> memories = keyed.encode(torch.tensor([[[2.0], [4.0]]]), values=torch.eye(2)[None])
    >>> keyed.lookup(memories, torch.tensor([[[10.0]]])).tolist()
    [[[10.0, 20.0]]]
    """

    name = "keyed"

    def encode(
        self,
        hidden: Float[Tensor, "B n k"],
        lengths: checks.Lengths = None,
        *,
        values: Float[Tensor, "B n d"] | None = None,
    ) -> Memories:
        """C of each document; `values` must be given."""
        tokens = self.count_tokens(hidden, lengths)
        return Memories(self.write(hidden, lengths, values, None), tokens)

    def extend(
        self,
        memories: Memories,
        hidden: Float[Tensor, "B n k"],
        lengths: checks.Lengths = None,
        *,
        values: Float[Tensor, "B n d"] | None = None,
    ) -> Memories:
        """C of each document after reading on."""
        tokens = add_tokens(memories, self.count_tokens(hidden, lengths))
        return Memories(self.write(hidden, lengths, values, memories.state), tokens)

    def merge(self, earlier: Memories, later: Memories) -> Memories:
        """The sum: two texts read apart are one text, if their tokens have the same embeddings."""
        tokens = add_tokens(earlier, later.tokens)
        checks.check_shape("memories.state", earlier.state, tuple(later.state.shape), "one memory a document")
        return Memories(earlier.state + later.state, tokens)

    def lookup(self, memories: Memories, queries: Float[Tensor, "B m k"]) -> Float[Tensor, "B m d"]:
        """Σ (key_t · q) x_t / scale: a vector among the values."""
        return self.read(memories.state.mT, memories, queries)

    def forward(
        self,
        hidden: Float[Tensor, "B n k"],
        queries: Float[Tensor, "B m k"],
        lengths: checks.Lengths = None,
        *,
        values: Float[Tensor, "B n d"] | None = None,
    ) -> Float[Tensor, "B m d"]:
        """Read documents and look up queries at once, as a training step does."""
        return self.lookup(self.encode(hidden, lengths, values=values), queries)

    def write(
        self,
        hidden: Float[Tensor, "B n k"],
        lengths: checks.Lengths,
        values: Float[Tensor, "B n d"] | None,
        initial: Float[Tensor, "B k d"] | None,
    ) -> Float[Tensor, "B k d"]:
        """Σ key xᵀ, summed in float32 or wider, going on from `initial`."""
        if values is None:
            raise OptionError("values", "the tokens' embeddings [B, n, d]", "none", "give values=...")
        checks.check_floats("values", values, "B n d")
        batch, n, d = *hidden.shape[:2], values.shape[2]
        checks.check_shape("values", values, (batch, n, d), "one value a token")
        checks.check_device("values", values, hidden)
        mask = checks.mask_of(lengths, hidden)
        if mask is not None:
            # What lies in padding must not meet the gate: 0 · NaN would reach the gradients of W, b and V.
            hidden, values = (x.masked_fill(~mask[:, :, None], 0) for x in (hidden, values))
        dtype = checks.accumulation_dtype(torch.promote_types(hidden.dtype, values.dtype))
        keys = self.keys(hidden).to(dtype)
        with torch.autocast(hidden.device.type, enabled=False):
            if initial is None:
                return torch.bmm(keys.mT, values.to(dtype))
            checks.check_shape("memories.state", initial, (batch, self.size, d), "values of the same size")
            return torch.baddbmm(initial.to(dtype), keys.mT, values.to(dtype))
