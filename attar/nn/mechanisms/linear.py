"""Mechanisms with a k × k memory whose gates do not read it: C ← α C + β f fᵀ, one weighted product.

With α = β = 1 (linear, gated), C is a sum over tokens. With learnt gates (decayed), it forgets.
"""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attar.errors import OptionError
from attar.nn.mechanisms.base import Mask, Matrices, MatrixMechanism, Scale, States, Written
from attar.ops.checks import Backend, Device, Dtype, accumulation_dtype
from attar.ops.gram import encode
from attar.ops.reference import gated


class LinearAttention(MatrixMechanism):
    """C = HᵀH, the paper's section 3. It has no parameters.

    >>> linear = LinearAttention(2)
    >>> memories = linear.encode(torch.tensor([[[1.0, 2.0], [0.0, 1.0]]]))
    >>> linear.lookup(memories, torch.tensor([[[1.0, 0.0]]])).tolist()
    [[[1.0, 2.0]]]
    """

    name = "linear"

    def _written(self, hidden: States, mask: Mask) -> Written:
        """h."""
        return Written(self._split(hidden))

    def _write(
        self, hidden: States, lengths: Int[Tensor, " B"] | None, initial: Matrices | None
    ) -> tuple[Matrices, None]:
        """Σ h hᵀ; padding need not be blanked for this."""
        counts = None if lengths is None else self._per_head(lengths)
        return encode(self._split(hidden), lengths=counts, initial=initial, backend=self.backend), None


class GatedAttention(MatrixMechanism):
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
        heads: int = 1,
        gate_bias: float = 0.0,
        scale: Scale = None,
        backend: Backend = "auto",
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        super().__init__(size, heads=heads, scale=scale, backend=backend)
        self.gate_bias = gate_bias
        self.gate = nn.Linear(size, size, device=device, dtype=dtype)
        nn.init.constant_(self.gate.bias, gate_bias)

    def reset_parameters(self) -> None:
        """A random W, and b at `gate_bias`."""
        self.gate.reset_parameters()
        nn.init.constant_(self.gate.bias, self.gate_bias)

    def _written(self, hidden: States, mask: Mask) -> Written:
        """f."""
        return Written(self._split(gated(hidden, self.gate.weight, self.gate.bias)))


class DecayedAttention(GatedAttention):
    """f as in gated, and gates α(h) and β(h) that do not read the memory, so that it is still one product.

    They start at a memory of `span` tokens: α starts at σ(log span) = 1 − 1/(span + 1) for every token, so that after
    `span` tokens 1/e of a token is left. Gates that start half open would have lost all but a thousandth after ten,
    and no gradient would reach further back. β starts at σ(2) = 0.88: most of what is read is written.

    >>> decayed = DecayedAttention(1, span=1.0)  # half of everything is forgotten at each token
    >>> memories = decayed.encode(torch.ones(1, 8, 1))
    >>> decayed.encode(torch.ones(1, 9, 1)).state.item() - memories.state.item() < 0.01
    True
    """

    name = "decayed"

    def __init__(
        self,
        size: int,
        *,
        heads: int = 1,
        gate_bias: float = 0.0,
        span: float = 1000.0,
        scale: Scale = None,
        backend: Backend = "auto",
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        super().__init__(
            size, heads=heads, gate_bias=gate_bias, scale=scale, backend=backend, device=device, dtype=dtype
        )
        if not span > 0:
            raise OptionError.expected("span", "a number of tokens above 0", repr(span))
        self.span = span
        # α and β of each head.
        self.keep_and_write = nn.Linear(size, 2 * heads, device=device, dtype=dtype)
        self._start_gates()

    def reset_parameters(self) -> None:
        """A random W; gates of a memory of `span` tokens."""
        super().reset_parameters()
        self._start_gates()

    @torch.no_grad()
    def _start_gates(self) -> None:
        # From 0, so that all tokens start alike.
        nn.init.zeros_(self.keep_and_write.weight)
        starts = torch.tensor([math.log(self.span), 2.0]).repeat(self.heads)
        self.keep_and_write.bias.copy_(starts)

    def _written(self, hidden: States, mask: Mask) -> Written:
        """f, and the gates."""
        alpha, beta = self.gates(hidden)
        return super()._written(hidden, mask)._replace(alpha=alpha, beta=beta)

    def _logits(self, hidden: States) -> Float[Tensor, "Bh n 2"]:
        """The logits of α and β of each token and head.

        In float32 or wider whatever the states' dtype: an α of 0.999 would be 1 in bfloat16.
        """
        weight, bias = (p.to(hidden.dtype) for p in (self.keep_and_write.weight, self.keep_and_write.bias))
        return self._split(nn.functional.linear(hidden, weight, bias).to(accumulation_dtype(hidden.dtype)))

    def gates(self, hidden: States) -> tuple[Float[Tensor, "Bh n"], Float[Tensor, "Bh n"]]:
        """α and β of each token and head."""
        alpha, beta = torch.sigmoid(self._logits(hidden)).unbind(-1)
        return alpha, beta
