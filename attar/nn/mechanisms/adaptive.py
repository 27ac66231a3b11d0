"""The mechanism whose gates read the memory: C ← α(h, C f) C + β(h, C f) f fᵀ, the paper's general form (section 4)."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attar.errors import OptionError
from attar.nn.mechanisms.base import Mask, Matrices, Scale, States, Written, blank
from attar.nn.mechanisms.linear import DecayedAttention
from attar.ops.checks import Backend, Device, Dtype, length_mask
from attar.ops.reference import AffineGates, Cell, gated, squash
from attar.ops.scan import Backward, encode_adaptive


class AdaptiveAttention(DecayedAttention):
    """α(h, C f) and β(h, C f): gates that read what C already holds, the paper's general form.

    The only mechanism that reads token by token. Its gates read C f, squashed, and with `energy` how much of f is in C
    already, e / (1 + e) with e = fᵀ C f / ‖f‖⁴. With `gate_reads`, the gate of f reads C f as well: what is written is
    σ(W h + b + X squash(C f)) ⊙ h. All of these weights start at 0, where it equals decayed. `backward` is how the
    memories in between are recomputed: from checkpoints, or by undoing the recurrence ("invert"), as in the paper.

    >>> adaptive = AdaptiveAttention(1, span=1.0)
    >>> adaptive.read_weight.tolist(), adaptive.energy_weight.tolist()
    ([[0.0], [0.0]], [0.0, 0.0])
    """

    name = "adaptive"

    def __init__(
        self,
        size: int,
        *,
        heads: int = 1,
        gate_bias: float = 0.0,
        span: float = 1000.0,
        energy: bool = True,
        gate_reads: bool = False,
        backward: Backward = "checkpoint",
        scale: Scale = None,
        backend: Backend = "auto",
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        super().__init__(
            size,
            heads=heads,
            gate_bias=gate_bias,
            span=span,
            scale=scale,
            backend=backend,
            device=device,
            dtype=dtype,
        )
        if backward not in ("checkpoint", "invert"):
            raise OptionError.expected("backward", "'checkpoint' or 'invert'", repr(backward))
        if gate_reads and backward == "invert":
            raise OptionError.expected("backward with gate_reads", "'checkpoint'", "'invert'")
        self.backward: Backward = backward

        def zeros(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.zeros(shape, device=device, dtype=dtype))

        # Per head: rows for α and β.
        self.read_weight = zeros(2 * heads, self.head_size)
        self.energy_weight = zeros(2 * heads) if energy else None
        self.gate_read_weight = zeros(size, self.head_size) if gate_reads else None

    def reset_parameters(self) -> None:
        """As decayed: no weight on what is read."""
        super().reset_parameters()
        for weight in (self.read_weight, self.energy_weight, self.gate_read_weight):
            if weight is not None:
                nn.init.zeros_(weight)

    def _written(self, hidden: States, mask: Mask) -> Written:
        """There is none that does not depend on the memory."""
        raise OptionError.expected(
            "lookup_along",
            "a mechanism whose gates do not read the memory",
            repr(self.name),
            "extend token by token",
        )

    def _write(
        self, hidden: States, lengths: Int[Tensor, " B"] | None, initial: Matrices | None
    ) -> tuple[Matrices, None]:
        """C after the last token."""
        hidden = blank(hidden, length_mask(lengths, hidden))
        gate, bias = self.gate.weight, self.gate.bias
        f, states, batch = self._split(gated(hidden, gate, bias)), self._logits(hidden), hidden.shape[0]
        cell: Cell = AffineGates(
            None, self._head_weights(self.read_weight, batch, 2), None, self._energies(batch)
        )
        if self.gate_read_weight is not None:
            opened = nn.functional.linear(hidden, gate.to(hidden.dtype), bias.to(hidden.dtype))
            states = torch.cat([states, *(self._split(x).to(states.dtype) for x in (opened, hidden))], 2)
            cell = self._rewriting(cell, self._head_weights(self.gate_read_weight, batch, self.head_size))
        memory = encode_adaptive(
            *(states, f, cell),
            lengths=None if lengths is None else self._per_head(lengths),
            initial=initial,
            backward=self.backward,
            backend=self.backend,
        )
        return memory, None

    def _head_weights(self, weight: Tensor, batch: int, rows: int) -> Float[Tensor, "*Bh rows kh"]:
        """The weights of each head, repeated for each document; one matrix with one head."""
        if self.heads == 1:
            return weight
        return weight.view(1, self.heads, rows, -1).expand(batch, -1, -1, -1).flatten(0, 1)

    def _energies(self, batch: int) -> Float[Tensor, "*Bh 2"] | None:
        if self.energy_weight is None or self.heads == 1:
            return self.energy_weight
        return self._head_weights(self.energy_weight, batch, 2)[..., 0]

    def _rewriting(self, gates: Cell, weight: Float[Tensor, "*Bh kh kh"]) -> Cell:
        """A cell of (logits, W h + b, h): the gates, and what is written."""

        def cell(state: Tensor, f: Tensor, reading: Tensor) -> tuple[Tensor, ...]:
            logits, opened, h = torch.tensor_split(state, (2, 2 + self.head_size), -1)
            alpha, beta = gates(logits, f, reading)
            read = torch.einsum("...jk,...k->...j", weight.to(reading.dtype), squash(reading))
            return alpha, beta, torch.sigmoid(opened + read) * h

        return cell
