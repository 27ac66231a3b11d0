"""Mechanisms with keys and values: what a token's state finds is the token itself, so answers are copied from the text.

keyed writes C = Σ key_t x_tᵀ with the tokens' embeddings x as values; named adds keys to one vector per name, a memory
whose size depends on what the document contains.
"""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attar.errors import DtypeError, OptionError, ShapeError
from attar.nn.mechanisms.base import Memories, Scale, ScaledMechanism, add_memories, add_tokens
from attar.ops.checks import (
    Device,
    Dtype,
    Lengths,
    accumulation_dtype,
    check_device,
    check_floats,
    check_shape,
    length_mask,
)
from attar.ops.lookups import RIDGE, ridge_lookup

NO_NAME = -1


class KeyMechanism(ScaledMechanism):
    """key = σ(W h + b) ⊙ (V h).

    With `positive`, key = σ(W h + b) ⊙ softplus(V h): for queries that are positive too, no token's score cancels
    another's, and a readout is a weight.
    """

    def __init__(
        self,
        size: int,
        *,
        gate_bias: float = 0.0,
        scale: Scale = None,
        positive: bool = False,
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        super().__init__(size, scale=scale)
        self.positive = positive
        self.gate = nn.Linear(size, size, device=device, dtype=dtype)
        nn.init.constant_(self.gate.bias, gate_bias)
        self.key = nn.Linear(size, size, bias=False, device=device, dtype=dtype)

    def keys(self, hidden: Float[Tensor, "*batch k"]) -> Float[Tensor, "*batch k"]:
        """σ(W h + b) ⊙ (V h), or ⊙ softplus(V h), in the states' dtype."""
        gate, bias, key = (p.to(hidden.dtype) for p in (self.gate.weight, self.gate.bias, self.key.weight))
        opened = torch.sigmoid(nn.functional.linear(hidden, gate, bias))
        keys = nn.functional.linear(hidden, key)
        return opened * (nn.functional.softplus(keys) if self.positive else keys)


class KeyedAttention(KeyMechanism):
    """C = Σ key_t x_tᵀ, a memory `[B, k, d]`: keys from the states, the tokens' own embeddings as values.

    The readout Σ (key_t · q) x_t is in the space of embeddings: a candidate e is scored by its product with x_e.

    With `ridge`, each value is followed by its own key, so that the memory is `[B, k, d + k]`: G = Σ key_t key_tᵀ next
    to C, and the readout is Cᵀ (G + λI)⁻¹ q. λ is `ridge` times the mean of G's diagonal; `True` stands for 0.1. The
    size is still fixed and the memory a sum, and keys that are alike no longer drown each other. The readout does not
    grow with the text and has no scale.

    >>> keyed = KeyedAttention(1)
    >>> parameters = {"gate.weight": torch.zeros(1, 1), "gate.bias": torch.zeros(1), "key.weight": torch.eye(1)}
    >>> keyed.load_state_dict(parameters)  # every key is half its state
    <All keys matched successfully>
    >>> memories = keyed.encode(torch.tensor([[[2.0], [4.0]]]), values=torch.eye(2)[None])
    >>> keyed.lookup(memories, torch.tensor([[[10.0]]])).tolist()
    [[[10.0, 20.0]]]
    >>> KeyedAttention(1, ridge=True).encode(torch.ones(1, 9, 1), values=torch.ones(1, 9, 2)).state.shape
    torch.Size([1, 1, 3])
    """

    name = "keyed"

    def __init__(
        self,
        size: int,
        *,
        gate_bias: float = 0.0,
        scale: Scale = None,
        positive: bool = False,
        ridge: float | bool = False,
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        super().__init__(
            size, gate_bias=gate_bias, scale=scale, positive=positive, device=device, dtype=dtype
        )
        self.ridge = RIDGE if ridge is True else float(ridge)
        if not 0 <= self.ridge < math.inf:
            raise OptionError.expected(
                "ridge", "a number above 0, True for the default, or False", repr(ridge)
            )
        if self.ridge and scale is not None:
            remedy = "the readout of a ridge does not grow with the text"
            raise OptionError.expected("scale with a ridge", "None", repr(scale), remedy)

    def merge(self, earlier: Memories, later: Memories) -> Memories:
        """The sum: two texts read separately are one text, if their tokens have the same embeddings."""
        return add_memories(earlier, later)

    def lookup(self, memories: Memories, queries: Float[Tensor, "B m k"]) -> Float[Tensor, "B m d"]:
        """Σ (key_t · q) x_t / scale, or Cᵀ (G + λI)⁻¹ q: a vector in the space of the values."""
        if self.ridge:
            return ridge_lookup(memories.state, queries, ridge=self.ridge)
        return self.read(memories.state.mT, memories, queries)

    def write(
        self,
        hidden: Float[Tensor, "B n k"],
        lengths: Lengths,
        initial: Float[Tensor, "B k width"] | None,
        *,
        values: Float[Tensor, "B n d"] | None = None,
    ) -> Float[Tensor, "B k width"]:
        """Σ key xᵀ, summed in float32 or float64, continuing from `initial`; `values` must be given."""
        if values is None:
            raise OptionError.expected(
                "values", "the tokens' embeddings [B, n, d]", "none", "give values=..."
            )
        check_floats("values", values, "B n d")
        batch, n, d = *hidden.shape[:2], values.shape[2]
        check_shape("values", values, (batch, n, d), "one value per token")
        check_device("values", values, hidden)
        mask = length_mask(lengths, hidden)
        if mask is not None:
            # Padding must not meet the gate: 0 · NaN would reach the gradients of W, b and V.
            hidden, values = (x.masked_fill(~mask[:, :, None], 0) for x in (hidden, values))
        dtype = accumulation_dtype(torch.promote_types(hidden.dtype, values.dtype))
        keys, values = self.keys(hidden).to(dtype), values.to(dtype)
        if self.ridge:
            values = torch.cat([values, keys], 2)
        with torch.autocast(hidden.device.type, enabled=False):
            if initial is None:
                return torch.bmm(keys.mT, values)
            shape = (batch, self.size, values.shape[2])
            check_shape("memories.state", initial, shape, "values of the same size")
            return torch.baddbmm(initial.to(dtype), keys.mT, values)


class NamedAttention(KeyMechanism):
    """C_e = Σ key_t over the tokens t that are name e, a memory `[B, names, k]`: one vector per name.

    `names` is the name of each token, -1 for none; a lookup scores every name, 0 for one that is not in the
    document. `count` is the number of names, by default the highest id + 1; a memory grows when a later text
    brings new names. Keys are computed only for the tokens that are names. Names may be on the CPU while the states
    are on a GPU: finding them then needs no synchronisation.

    >>> named = NamedAttention(1)
    >>> parameters = {"gate.weight": torch.zeros(1, 1), "gate.bias": torch.zeros(1), "key.weight": torch.eye(1)}
    >>> named.load_state_dict(parameters)  # every key is half its state
    <All keys matched successfully>
    >>> memories = named.encode(torch.tensor([[[2.0], [4.0], [6.0]]]), names=torch.tensor([[1, -1, 1]]))
    >>> named.lookup(memories, torch.tensor([[[10.0]]])).tolist()
    [[[0.0, 40.0]]]
    """

    name = "named"

    def merge(self, earlier: Memories, later: Memories) -> Memories:
        """The sum, name by name: both texts must have been read under one table of names."""
        tokens = add_tokens(earlier, later.tokens)
        count = max(earlier.state.shape[1], later.state.shape[1])
        return Memories(_with_room(earlier.state, count) + _with_room(later.state, count), tokens)

    def write(
        self,
        hidden: Float[Tensor, "B n k"],
        lengths: Lengths,
        initial: Float[Tensor, "B old k"] | None,
        *,
        names: Int[Tensor, "B n"] | None = None,
        count: int | None = None,
    ) -> Float[Tensor, "B names k"]:
        """The vectors of the names, summed in float32 or float64, continuing from `initial`; names must be given.

        An id means the same name as in `initial`.
        """
        token, document, name = _named_tokens(names, hidden, lengths)
        known = int(name.max()) + 1 if name.numel() else 0
        if count is not None and count < known:
            raise ShapeError.expected(
                "names", f"numbers from {NO_NAME} to {count - 1}", str(known - 1), "raise count"
            )
        dtype = accumulation_dtype(hidden.dtype)
        batch, size = hidden.shape[0], self.size
        if initial is None:
            memory = hidden.new_zeros(batch, known if count is None else count, size, dtype=dtype)
        else:
            check_shape("memories.state", initial, (batch, initial.shape[1], size), "[B, names, k]")
            memory = _with_room(initial.to(dtype), known if count is None else count)
        count = memory.shape[1]
        index = (document * count + name).to(hidden.device, non_blocking=True)
        # Padding and tokens that are not names are never read, so nothing of them can leak.
        states = hidden.flatten(0, 1).index_select(0, token.to(hidden.device, non_blocking=True))
        keys = self.keys(states).to(dtype)
        return memory.flatten(0, 1).index_add(0, index, keys).view(batch, count, size)


def _named_tokens(
    names: Int[Tensor, "B n"] | None, hidden: Float[Tensor, "B n k"], lengths: Lengths
) -> tuple[Int[Tensor, " t"], Int[Tensor, " t"], Int[Tensor, " t"]]:
    """The tokens that are names, by their index in the flattened batch, and each one's document and name.

    >>> token, document, name = _named_tokens(torch.tensor([[-1, 7], [5, 6]]), torch.zeros(2, 2, 1), [2, 1])
    >>> token.tolist(), document.tolist(), name.tolist()
    ([1, 2], [0, 1], [7, 5])
    """
    if names is None:
        raise OptionError.expected(
            "names", "the name of each token [B, n], -1 for none", "none", "give names=..."
        )
    if names.is_floating_point() or names.dtype == torch.bool:
        raise DtypeError.expected("names", "whole numbers", str(names.dtype))
    batch, n = hidden.shape[:2]
    check_shape("names", names, (batch, n), "one number per token")
    ids = names.long()
    if lengths is not None:
        counts = torch.as_tensor(lengths, dtype=torch.int64, device=names.device)
        ids = ids.masked_fill(torch.arange(n, device=names.device) >= counts[:, None], NO_NAME)
    if ids.numel() and int(ids.min()) < NO_NAME:
        raise ShapeError.expected("names", f"numbers from {NO_NAME} up", str(int(ids.min())))
    document, position = (ids != NO_NAME).nonzero(as_tuple=True)
    return document * n + position, document, ids[document, position]


def _with_room(vectors: Float[Tensor, "B old k"], count: int) -> Float[Tensor, "B names k"]:
    """The vectors, padded to at least `count` names.

    >>> _with_room(torch.ones(1, 1, 1), 3).tolist()
    [[[1.0], [0.0], [0.0]]]
    """
    missing = count - vectors.shape[1]
    return nn.functional.pad(vectors, (0, 0, 0, missing)) if missing > 0 else vectors
