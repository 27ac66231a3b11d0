"""The weighted Gram product on a GPU: C = α̂ C₀ + Fᵀ diag(w) F, one pass over F, and its gradient in another.

The gated form reads h and makes f = σ(W h + b) ⊙ h on the chip, forwards and backwards, so that f is never
written out. Sums are float32. Twice differentiable memories need backend="torch".
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from attar.ops.fused import gram_kernels as kernels
from attar.ops.fused.decay import decay_after, energy_before
from attar.ops.fused.gate import gate_states
from attar.ops.gram import Gate, Mask, Memory, blank_gates, silence_padding, times


def encode(
    f: Float[Tensor, "B n k"],
    alpha: Gate = None,
    beta: Gate = None,
    mask: Mask = None,
    initial: Memory | None = None,
) -> Memory:
    """The memory of each document."""
    return _encode(f, None, None, alpha, beta, mask, initial)


def encode_gated(
    h: Float[Tensor, "B n k"],
    weight: Float[Tensor, "k k"],
    bias: Float[Tensor, " k"],
    alpha: Gate = None,
    beta: Gate = None,
    mask: Mask = None,
    initial: Memory | None = None,
) -> Memory:
    """The memory of each document's gated states."""
    if h.shape[2] > kernels.largest_gated(h.dtype):
        with torch.autocast(h.device.type, enabled=False):
            f = gate_states(h, weight, bias.contiguous(), lengths_of(mask))
        return _encode(f, None, None, alpha, beta, mask, initial)
    return _encode(h, weight, bias, alpha, beta, mask, initial)


def _encode(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    alpha: Gate,
    beta: Gate,
    mask: Mask,
    initial: Memory | None,
) -> Memory:
    alpha, beta = silence_padding(alpha, beta, mask, torch.float32)
    beta, bias = (None if each is None else each.contiguous() for each in (beta, bias))
    initial = None if initial is None else initial.float()
    with torch.autocast(x.device.type, enabled=False):
        memory: Tensor = FusedGram.apply(x, weight, bias, alpha, beta, initial, mask)
        return memory


class FusedGram(torch.autograd.Function):
    """As `attar.ops.gram.WeightedGram`, with x = f, or x = h and the gate's W and b."""

    @staticmethod
    def forward(
        x: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        alpha: Tensor | None,
        beta: Tensor | None,
        initial: Tensor | None,
        mask: Tensor | None,
    ) -> Tensor:
        """C of each document."""
        after, kept = (None, None) if alpha is None else decay_after(alpha)
        decayed = initial if initial is None or kept is None else initial * kept[:, None, None]
        return kernels.gram(x, weight, bias, times(after, beta), lengths_of(mask), decayed)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        """Keep the inputs, which the caller holds anyway, and nothing else."""
        ctx.save_for_backward(*inputs)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, G: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients of `attar.ops.gram`, and through the gate those of W and b."""
        x, weight, bias, alpha, beta, initial, mask = ctx.saved_tensors
        after, kept = (None, None) if alpha is None else decay_after(alpha)
        wants = ctx.needs_input_grad
        want_energy = wants[3] or wants[4]
        grad_x, grad_weight, grad_bias, energy = kernels.gram_gradient(
            x, weight, bias, times(after, beta), lengths_of(mask), G, want_energy
        )
        grad_alpha = grad_beta = grad_initial = None
        if energy is not None:
            energy = blank_gates(energy, mask)
            grad_beta = times(after, energy) if wants[4] else None
            if wants[3]:
                written = energy if beta is None else beta * energy
                first = G.new_zeros(len(G)) if initial is None else (G * initial).sum((1, 2))
                grad_alpha = times(after, energy_before(alpha, written, first))
        if wants[5]:
            grad_initial = G if kept is None else G * kept[:, None, None]
        return grad_x, grad_weight, grad_bias, grad_alpha, grad_beta, grad_initial, None


def lengths_of(mask: Mask) -> Tensor | None:
    """The number of tokens of each document, as the kernels take it."""
    return None if mask is None else mask.sum(1, dtype=torch.int32)
