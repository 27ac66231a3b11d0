"""Mechanisms with a k × k memory: C ← α C + β f fᵀ.

With α = β = 1 (linear, gated), C is a sum over tokens, and texts read separately can be merged. With learnt gates
(decayed, adaptive: the general form of section 4), the memory forgets.
"""

import math
from typing import Literal

import torch
from torch import nn

from attar.errors import OptionError
from attar.nn.mechanisms.base import (
    Matrices,
    MatrixMechanism,
    Memories,
    Scale,
    States,
    add_memories,
)
from attar.ops.checks import Backend, Device, Dtype, Lengths, accumulation_dtype
from attar.ops.gram import encode, encode_gated
from attar.ops.reference import AffineGates, gated
from attar.ops.scan import encode_adaptive


class LinearAttention(MatrixMechanism):
    """C = HᵀH, the paper's section 3. It has no parameters.

    >>> linear = LinearAttention(2)
    >>> memories = linear.encode(torch.tensor([[[1.0, 2.0], [0.0, 1.0]]]))
    >>> linear.lookup(memories, torch.tensor([[[1.0, 0.0]]])).tolist()
    [[[1.0, 2.0]]]
    """

    name = "linear"

    def write(self, hidden: States, lengths: Lengths, initial: Matrices | None) -> Matrices:
        """Σ h hᵀ."""
        return encode(hidden, lengths=lengths, initial=initial, backend=self.backend)

    def merge(self, earlier: Memories, later: Memories) -> Memories:
        """The sum: two texts read separately are one text."""
        return add_memories(earlier, later)


class GatedAttention(LinearAttention):
    """C = Σ f fᵀ with f = σ(W h + b) ⊙ h, the paper's experiment (section 5).

    `gate_bias` is the initial b: at 0 every gate is half open, and learns fastest.

    >>> gated = GatedAttention(1)
    >>> gated.load_state_dict({"gate.weight": torch.zeros(1, 1), "gate.bias": torch.zeros(1)})
    <All keys matched successfully>
    >>> gated.encode(torch.tensor([[[2.0]]])).state.tolist()
    [[[1.0]]]
    """

    name = "gated"

    def __init__(
        self,
        size: int,
        *,
        gate_bias: float = 0.0,
        scale: Scale = None,
        backend: Backend = "auto",
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        super().__init__(size, scale=scale, backend=backend)
        self.gate = nn.Linear(size, size, device=device, dtype=dtype)
        nn.init.constant_(self.gate.bias, gate_bias)

    def write(self, hidden: States, lengths: Lengths, initial: Matrices | None) -> Matrices:
        """Σ f fᵀ."""
        weight, bias = self.gate.weight, self.gate.bias
        return encode_gated(hidden, weight, bias, lengths=lengths, initial=initial, backend=self.backend)


class ForgettingAttention(MatrixMechanism):
    """f = σ(W h + b) ⊙ h, and gates α, β that start at a memory of `span` tokens.

    α starts at σ(log span) = 1 − 1/(span + 1) for every token, so that after `span` tokens 1/e of a token is left:
    gates that start half open would have lost all but a thousandth after ten, and no gradient would reach further
    back. β starts at σ(2) = 0.88: most of what is read is written.
    """

    def __init__(
        self,
        size: int,
        *,
        gate_bias: float = 0.0,
        span: float = 1000.0,
        scale: Scale = None,
        backend: Backend = "auto",
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        super().__init__(size, scale=scale, backend=backend)
        if not span > 0:
            raise OptionError.expected("span", "a number of tokens above 0", repr(span))
        self.gate = nn.Linear(size, size, device=device, dtype=dtype)
        nn.init.constant_(self.gate.bias, gate_bias)
        # α and β of a state, in this order. From 0, so that all tokens start alike.
        self.keep_and_write = nn.Linear(size, 2, device=device, dtype=dtype)
        nn.init.zeros_(self.keep_and_write.weight)
        with torch.no_grad():
            self.keep_and_write.bias.copy_(torch.tensor([math.log(span), 2.0]))


class DecayedAttention(ForgettingAttention):
    """α(h) and β(h): gates that do not read the memory, so that it is still one product.

    >>> decayed = DecayedAttention(1, span=1.0)  # half of everything is forgotten at each token
    >>> memories = decayed.encode(torch.ones(1, 8, 1))
    >>> decayed.encode(torch.ones(1, 9, 1)).state.item() - memories.state.item() < 0.01
    True
    """

    name = "decayed"

    def write(self, hidden: States, lengths: Lengths, initial: Matrices | None) -> Matrices:
        """Σ w f fᵀ."""
        weight, bias = (p.to(hidden.dtype) for p in (self.keep_and_write.weight, self.keep_and_write.bias))
        logits = nn.functional.linear(hidden, weight, bias)
        # σ in float32 whatever the states' dtype: an α of 0.999 would be 1 in bfloat16.
        alpha, beta = torch.sigmoid(logits.to(accumulation_dtype(hidden.dtype))).unbind(-1)
        return encode_gated(
            *(hidden, self.gate.weight, self.gate.bias),
            alpha=alpha,
            beta=beta,
            lengths=lengths,
            initial=initial,
            backend=self.backend,
        )


class AdaptiveAttention(ForgettingAttention):
    """α(h, C f) and β(h, C f): gates that read what C already holds, the paper's general form.

    The only mechanism that reads token by token. `backward` is how the memories in between are recomputed: from
    checkpoints, or by undoing the recurrence ("invert"), as in the paper.

    >>> adaptive = AdaptiveAttention(1, span=1.0)  # initially the same as decayed: no weight on C f
    >>> adaptive.read_weight.tolist()
    [[0.0], [0.0]]
    """

    name = "adaptive"

    def __init__(
        self,
        size: int,
        *,
        gate_bias: float = 0.0,
        span: float = 1000.0,
        backward: Literal["checkpoint", "invert"] = "checkpoint",
        scale: Scale = None,
        backend: Backend = "auto",
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        super().__init__(
            size, gate_bias=gate_bias, span=span, scale=scale, backend=backend, device=device, dtype=dtype
        )
        if backward not in ("checkpoint", "invert"):
            raise OptionError.expected("backward", "'checkpoint' or 'invert'", repr(backward))
        self.backward: Literal["checkpoint", "invert"] = backward
        self.read_weight = nn.Parameter(torch.zeros(2, size, device=device, dtype=dtype))

    def write(self, hidden: States, lengths: Lengths, initial: Matrices | None) -> Matrices:
        """C after the last token."""
        gates = AffineGates(self.keep_and_write.weight, self.read_weight, self.keep_and_write.bias)
        return encode_adaptive(
            *(hidden, gated(hidden, self.gate.weight, self.gate.bias), gates),
            lengths=lengths,
            initial=initial,
            backward=self.backward,
            backend=self.backend,
        )
