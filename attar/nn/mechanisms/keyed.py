"""The mechanism with keys and values: what a token's state finds is the token itself, so answers are copied."""

import math
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attar.errors import OptionError, ShapeError
from attar.nn.mechanisms.base import Mask, Matrices, MatrixMechanism, Scale, Written, blank
from attar.ops import checks
from attar.ops.lookups import RIDGE

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


class KeyedAttention(MatrixMechanism):
    """C = Σ key_t x_tᵀ, a memory `[B, k, d]`: keys from the states, the tokens' own embeddings as values.

    The readout Σ (key_t · q) x_t is in the space of embeddings: a candidate e is scored by its product with x_e. With
    `heads`, keys and values are both divided. A key is σ(W h + b) ⊙ (V h); with `features`, σ(W h + b) ⊙ φ(V h) with a
    positive φ: for queries that are positive too, no token's score cancels another's, and a readout is a weight.

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
    inputs = ("values",)

    def __init__(
        self,
        size: int,
        *,
        heads: int = 1,
        gate_bias: float = 0.0,
        scale: Scale = None,
        features: Features = None,
        ridge: float | bool = False,
        device: checks.Device = None,
        dtype: checks.Dtype = None,
    ) -> None:
        super().__init__(size, heads=heads, scale=scale)
        check_features(features)
        self.features: Features = features
        self.gate_bias = gate_bias
        self.gate = nn.Linear(size, size, device=device, dtype=dtype)
        nn.init.constant_(self.gate.bias, gate_bias)
        self.key = nn.Linear(size, size, bias=False, device=device, dtype=dtype)
        self.ridge = RIDGE if ridge is True else float(ridge)
        if not 0 <= self.ridge < math.inf:
            raise OptionError.expected(
                "ridge", "a number above 0, True for the default, or False", repr(ridge)
            )
        if self.ridge and scale is not None:
            remedy = "the readout of a ridge does not grow with the text"
            raise OptionError.expected("scale with a ridge", "None", repr(scale), remedy)

    def reset_parameters(self) -> None:
        """Random W and V, and b at `gate_bias`."""
        self.gate.reset_parameters()
        nn.init.constant_(self.gate.bias, self.gate_bias)
        self.key.reset_parameters()

    def _fits(self, shape: torch.Size) -> bool:
        return self._has_rows(shape)

    def keys(self, hidden: Float[Tensor, "*batch k"]) -> Float[Tensor, "*batch k"]:
        """σ(W h + b) ⊙ φ(V h), in the states' dtype."""
        gate, bias, key = (p.to(hidden.dtype) for p in (self.gate.weight, self.gate.bias, self.key.weight))
        opened = torch.sigmoid(nn.functional.linear(hidden, gate, bias))
        return opened * positive(self.features, nn.functional.linear(hidden, key))

    def _written(
        self, hidden: Float[Tensor, "B n k"], mask: Mask, *, values: Float[Tensor, "B n d"] | None = None
    ) -> Written:
        """Keys and values of each token; `values` must be given."""
        if values is None:
            raise OptionError.expected(
                "values", "the tokens' embeddings [B, n, d]", "none", "give values=..."
            )
        checks.check_floats("values", values, "B n d")
        batch, n, d = *hidden.shape[:2], values.shape[2]
        checks.check_shape("values", values, (batch, n, d), "one value per token")
        checks.check_device("values", values, hidden)
        if d % self.heads:
            raise ShapeError.expected("values", f"a size that {self.heads} heads divide", str(d))
        dtype = checks.accumulation_dtype(torch.promote_types(hidden.dtype, values.dtype))
        return Written(self._split(self.keys(hidden)).to(dtype), self._split(blank(values, mask)).to(dtype))

    def _write(
        self,
        hidden: Float[Tensor, "B n k"],
        lengths: Int[Tensor, " B"] | None,
        initial: Matrices | None,
        *,
        values: Float[Tensor, "B n d"] | None = None,
    ) -> tuple[Matrices, None]:
        """Σ key xᵀ, summed in float32 or float64, continuing from `initial`."""
        mask = checks.length_mask(lengths, hidden)
        keys, own, *_ = self._written(blank(hidden, mask), mask, values=values)
        written = keys if own is None else torch.cat([own, keys], 2) if self.ridge else own
        with checks.without_autocast(hidden):
            if initial is None:
                return torch.bmm(keys.mT, written), None
            shape = (keys.shape[0], self.head_size, written.shape[2])
            checks.check_shape("memories.state", initial, shape, "values of the same size")
            return torch.baddbmm(initial.to(keys.dtype), keys.mT, written), None

    def lookup_along(self, *args: Any, **options: Any) -> Float[Tensor, "B n d"]:
        """The readout at every position; not with a ridge, whose inverse would be another one at each."""
        if self.ridge:
            raise OptionError.expected("lookup_along", "keyed without a ridge", f"ridge={self.ridge:g}")
        return super().lookup_along(*args, **options)
