"""Mechanisms that forget: C ← α C + β f fᵀ with gates that are learnt (the general form of section 4)."""

import math
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attar.errors import OptionError
from attar.nn.attention.mechanism import MatrixMechanism, Scale
from attar.ops import AffineGates, Backend, checks, encode_adaptive, encode_gated, gated


class ForgettingAttention(MatrixMechanism):
    """f = σ(W h + b) ⊙ h, and gates α, β that start at a memory of `span` tokens.

    α starts at σ(log span) = 1 − 1/(span + 1) for every token, so that after `span` tokens 1/e of a token is
    left: gates that start half open would have lost all but a thousandth after ten, and no gradient would
    reach further back. β starts at σ(2) = 0.88: what is read is written.
    """

    def __init__(
        self,
        size: int,
        *,
        gate_bias: float = 0.0,
        span: float = 1000.0,
        scale: Scale = None,
        backend: Backend = "auto",
    ) -> None:
        super().__init__(size, scale=scale, backend=backend)
        if not span > 0:
            raise OptionError("span", "a number of tokens above 0", repr(span))
        self.gate = nn.Linear(size, size)
        nn.init.constant_(self.gate.bias, gate_bias)
        # α and β of a state, in this order. From 0, so that every token starts alike.
        self.keep_and_write = nn.Linear(size, 2)
        nn.init.zeros_(self.keep_and_write.weight)
        with torch.no_grad():
            self.keep_and_write.bias.copy_(torch.tensor([math.log(span), 2.0]))


class DecayedAttention(ForgettingAttention):
    """α(h) and β(h): gates that do not look at the memory, so that it is still one product.

    >>> decayed = DecayedAttention(1, span=1.0)  # half of everything is forgotten at each token
    >>> memories = decayed.encode(torch.ones(1, 8, 1))
    >>> decayed.encode(torch.ones(1, 9, 1)).state.item() - memories.state.item() < 0.01
    True
    """

    name = "decayed"

    def write(
        self,
        hidden: Float[Tensor, "B n k"],
        lengths: checks.Lengths,
        initial: Float[Tensor, "B k k"] | None,
    ) -> Float[Tensor, "B k k"]:
        """Σ w f fᵀ."""
        weight, bias = (p.to(hidden.dtype) for p in (self.keep_and_write.weight, self.keep_and_write.bias))
        logits = nn.functional.linear(hidden, weight, bias)
        # σ in float32 whatever the states' type: an α of 0.999 would be 1 in bfloat16.
        alpha, beta = torch.sigmoid(logits.to(checks.accumulation_dtype(hidden.dtype))).unbind(-1)
        return encode_gated(
            hidden,
            self.gate.weight,
            self.gate.bias,
            alpha=alpha,
            beta=beta,
            lengths=lengths,
            initial=initial,
            backend=self.backend,
        )


class AdaptiveAttention(ForgettingAttention):
    """α(h, C f) and β(h, C f): gates that look at what C already holds, the paper's general form.

    The only mechanism that reads token by token. `backward` says how the memories in between are found
    again: from "checkpoint"s, or by undoing the recurrence, "invert", the paper's way.

    >>> adaptive = AdaptiveAttention(1, span=1.0)  # at first as decayed: its gates have learnt nothing of C f
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
    ) -> None:
        super().__init__(size, gate_bias=gate_bias, span=span, scale=scale, backend=backend)
        if backward not in ("checkpoint", "invert"):
            raise OptionError("backward", "'checkpoint' or 'invert'", repr(backward))
        self.backward: Literal["checkpoint", "invert"] = backward
        self.read_weight = nn.Parameter(torch.zeros(2, size))

    def write(
        self,
        hidden: Float[Tensor, "B n k"],
        lengths: checks.Lengths,
        initial: Float[Tensor, "B k k"] | None,
    ) -> Float[Tensor, "B k k"]:
        """C after the last token."""
        gates = AffineGates(self.keep_and_write.weight, self.read_weight, self.keep_and_write.bias)
        return encode_adaptive(
            hidden,
            gated(hidden, self.gate.weight, self.gate.bias),
            gates,
            lengths=lengths,
            initial=initial,
            backward=self.backward,
            backend=self.backend,
        )
