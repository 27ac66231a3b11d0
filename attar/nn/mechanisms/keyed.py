"""Mechanisms with keys and values: what a token's state finds is the token itself, so answers are copied from the text.

keyed writes C = Σ key_t x_tᵀ with the tokens' embeddings x as values; named adds keys to one vector per name, a memory
whose size depends on what the document contains.
"""

import math
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attar.errors import DtypeError, OptionError, ShapeError
from attar.nn.mechanisms.base import Mask, Matrices, MatrixMechanism, Memories, Scale, Written, blank, fold
from attar.nn.memories import with_room
from attar.ops.checks import (
    Device,
    Dtype,
    Lengths,
    accumulation_dtype,
    check_device,
    check_floats,
    check_shape,
    length_mask,
    without_autocast,
)
from attar.ops.lookups import RIDGE, ridge_solution

NO_NAME = -1
# Maps to positive features, so that for positive queries no token's score cancels another's.
Features = Literal["softplus", "elu", "relu"] | None


def positive(features: Features, x: Float[Tensor, "*batch k"]) -> Float[Tensor, "*batch k"]:
    """Features of keys or queries; None leaves them as they are.

    >>> positive("elu", torch.tensor([0.0, 2.0])).tolist()
    [1.0, 3.0]
    """
    if features == "elu":
        return nn.functional.elu(x) + 1
    return x if features is None else getattr(nn.functional, features)(x)


def check_features(features: object) -> None:
    """Refuse an unknown map."""
    if features not in (None, "softplus", "elu", "relu"):
        raise OptionError.expected("features", "'softplus', 'elu', 'relu' or None", repr(features))


class KeyMechanism(MatrixMechanism):
    """key = σ(W h + b) ⊙ (V h).

    With `features`, key = σ(W h + b) ⊙ φ(V h) with a positive φ: for queries that are positive too, no token's score
    cancels another's, and a readout is a weight.
    """

    def __init__(
        self,
        size: int,
        *,
        heads: int = 1,
        gate_bias: float = 0.0,
        scale: Scale = None,
        features: Features = None,
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        super().__init__(size, heads=heads, scale=scale)
        check_features(features)
        self.features: Features = features
        self.gate_bias = gate_bias
        self.gate = nn.Linear(size, size, device=device, dtype=dtype)
        nn.init.constant_(self.gate.bias, gate_bias)
        self.key = nn.Linear(size, size, bias=False, device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Random W and V, and b at `gate_bias`."""
        self.gate.reset_parameters()
        nn.init.constant_(self.gate.bias, self.gate_bias)
        self.key.reset_parameters()

    def keys(self, hidden: Float[Tensor, "*batch k"]) -> Float[Tensor, "*batch k"]:
        """σ(W h + b) ⊙ φ(V h), in the states' dtype."""
        gate, bias, key = (p.to(hidden.dtype) for p in (self.gate.weight, self.gate.bias, self.key.weight))
        opened = torch.sigmoid(nn.functional.linear(hidden, gate, bias))
        return opened * positive(self.features, nn.functional.linear(hidden, key))


class KeyedAttention(KeyMechanism):
    """C = Σ key_t x_tᵀ, a memory `[B, k, d]`: keys from the states, the tokens' own embeddings as values.

    The readout Σ (key_t · q) x_t is in the space of embeddings: a candidate e is scored by its product with x_e. With
    `heads`, keys and values are both divided.

    With `ridge`, each value is followed by its own key, so that the memory is `[B, k, d + k]`: G = Σ key_t key_tᵀ next
    to C, and the readout is Cᵀ (G + λI)⁻¹ q. λ is `ridge` times the mean of G's diagonal; `True` stands for 0.1. The
    size is still fixed and the memory a sum, and keys that are alike no longer drown each other. The readout does not
    grow with the text and has no scale. `memories.prepare()` computes the inverse's product once; a lookup then costs
    what one without a ridge does.

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
        heads: int = 1,
        gate_bias: float = 0.0,
        scale: Scale = None,
        features: Features = None,
        ridge: float | bool = False,
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        super().__init__(
            size, heads=heads, gate_bias=gate_bias, scale=scale, features=features, device=device, dtype=dtype
        )
        self.ridge = RIDGE if ridge is True else float(ridge)
        if not 0 <= self.ridge < math.inf:
            raise OptionError.expected(
                "ridge", "a number above 0, True for the default, or False", repr(ridge)
            )
        if self.ridge and scale is not None:
            remedy = "the readout of a ridge does not grow with the text"
            raise OptionError.expected("scale with a ridge", "None", repr(scale), remedy)

    def lookup(self, memories: Memories, queries: Float[Tensor, "B m k"]) -> Float[Tensor, "B m d"]:
        """Σ (key_t · q) x_t / scale, or Cᵀ (G + λI)⁻¹ q: a vector in the space of the values."""
        self.check_own(memories)
        if not self.ridge:
            return self.read(memories.state, memories.tokens, queries)
        if memories.prepared is not None:
            return self.read(memories.prepared, memories.tokens, queries)
        if not memories.ridge:
            raise OptionError.expected(
                "memories", "those of a ridge, [C, G]", "C alone", "encode with ridge=True"
            )
        matrix = ridge_solution(memories.state if self.heads == 1 else fold(memories.state), ridge=self.ridge)
        return self.read(self.unfold(matrix), memories.tokens, queries)

    def written(
        self, hidden: Float[Tensor, "B n k"], mask: Mask, *, values: Float[Tensor, "B n d"] | None = None
    ) -> Written:
        """Keys and values of each token; `values` must be given."""
        if values is None:
            raise OptionError.expected(
                "values", "the tokens' embeddings [B, n, d]", "none", "give values=..."
            )
        check_floats("values", values, "B n d")
        batch, n, d = *hidden.shape[:2], values.shape[2]
        check_shape("values", values, (batch, n, d), "one value per token")
        check_device("values", values, hidden)
        if d % self.heads:
            raise ShapeError.expected("values", f"a size that {self.heads} heads divide", str(d))
        dtype = accumulation_dtype(torch.promote_types(hidden.dtype, values.dtype))
        return Written(self.split(self.keys(hidden)).to(dtype), self.split(blank(values, mask)).to(dtype))

    def write(
        self,
        hidden: Float[Tensor, "B n k"],
        lengths: Int[Tensor, " B"] | None,
        initial: Matrices | None,
        *,
        values: Float[Tensor, "B n d"] | None = None,
    ) -> tuple[Matrices, None]:
        """Σ key xᵀ, summed in float32 or float64, continuing from `initial`."""
        mask = length_mask(lengths, hidden)
        keys, own, *_ = self.written(blank(hidden, mask), mask, values=values)
        written = keys if own is None else torch.cat([own, keys], 2) if self.ridge else own
        with without_autocast(hidden):
            if initial is None:
                return torch.bmm(keys.mT, written), None
            shape = (len(keys), self.head_size, written.shape[2])
            check_shape("memories.state", initial, shape, "values of the same size")
            return torch.baddbmm(initial.to(keys.dtype), keys.mT, written), None

    def lookup_along(self, *args: Any, **options: Any) -> Float[Tensor, "B n d"]:
        """The readout at every position; not with a ridge, whose inverse would be another one at each."""
        if self.ridge:
            raise OptionError.expected("lookup_along", "keyed without a ridge", f"ridge={self.ridge:g}")
        return super().lookup_along(*args, **options)


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

    def __init__(
        self,
        size: int,
        *,
        gate_bias: float = 0.0,
        scale: Scale = None,
        features: Features = None,
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        super().__init__(
            size, gate_bias=gate_bias, scale=scale, features=features, device=device, dtype=dtype
        )

    def lookup(self, memories: Memories, queries: Float[Tensor, "B m k"]) -> Float[Tensor, "B m names"]:
        """The score of every name."""
        self.check_own(memories)
        return self.read(memories.state.mT, memories.tokens, queries)

    def written(self, hidden: Float[Tensor, "B n k"], mask: Mask) -> Written:
        """There is none per token."""
        raise OptionError.expected("lookup_along", "linear, gated, decayed or keyed", repr(self.name))

    def write(
        self,
        hidden: Float[Tensor, "B n k"],
        lengths: Int[Tensor, " B"] | None,
        initial: Float[Tensor, "B old k"] | None,
        *,
        names: Int[Tensor, "B n"] | None = None,
        count: int | None = None,
    ) -> tuple[Float[Tensor, "B names k"], None]:
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
            memory = with_room(initial.to(dtype), known if count is None else count)
        count = memory.shape[1]
        index = (document * count + name).to(hidden.device, non_blocking=True)
        # Padding and tokens that are not names are never read, so nothing of them can leak.
        states = hidden.flatten(0, 1).index_select(0, token.to(hidden.device, non_blocking=True))
        keys = self.keys(states).to(dtype)
        return memory.flatten(0, 1).index_add(0, index, keys).view(batch, count, size), None


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
