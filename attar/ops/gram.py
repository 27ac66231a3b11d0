"""Memories whose gates ignore the memory: one weighted Gram product, no recurrence (torch backend).

    C = α̂ C₀ + Fᵀ diag(w) F        w_t = s_t β_t        s_t = ∏_{u>t} α_u        α̂ = ∏ α_u

Its gradient needs neither a C_t nor a division. With G = ∂L/∂C and e_t = f_tᵀ G f_t:

    ∂f_t = w_t (G + Gᵀ) f_t     ∂β_t = s_t e_t     ∂α_t = s_t p_t     ∂C₀ = α̂ G
    p_{t+1} = α_t p_t + β_t e_t,  p_0 = ⟨G, C₀⟩

For α = β = 1 this is the paper's section 3.3. Saved for backward: F and the gates.
"""

from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attar.ops.checks import accumulation_dtype

Gate = Float[Tensor, "B n"] | None
Mask = Bool[Tensor, "B n"] | None
Memory = Float[Tensor, "B k k"]


def encode(
    f: Float[Tensor, "B n k"],
    alpha: Gate = None,
    beta: Gate = None,
    mask: Mask = None,
    initial: Memory | None = None,
) -> Memory:
    """The memory of each document, summed in float32 or wider whatever the type of f."""
    dtype = accumulation_dtype(f.dtype)
    alpha, beta = silence_padding(alpha, beta, mask, dtype)
    initial = None if initial is None else initial.to(dtype)
    with torch.autocast(f.device.type, enabled=False):
        memory: Tensor = WeightedGram.apply(f, alpha, beta, initial, mask)  # type: ignore[no-untyped-call]
        return memory


class WeightedGram(torch.autograd.Function):
    """Fᵀ diag(w) F with the closed-form gradient, itself differentiable."""

    @staticmethod
    def forward(
        f: Tensor, alpha: Tensor | None, beta: Tensor | None, initial: Tensor | None, mask: Tensor | None
    ) -> Tensor:
        """C of each document."""
        F = blank_padding(f, mask)
        after, kept = (None, None) if alpha is None else decay_after(alpha)
        weights = times(after, beta)
        weighted = F if weights is None else F * weights[:, :, None]
        if initial is None:
            return torch.bmm(weighted.mT, F)
        decayed = initial if kept is None else initial * kept[:, None, None]
        return torch.baddbmm(decayed, weighted.mT, F)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        """Keep the inputs, which the caller holds anyway, and nothing else."""
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, G: Tensor) -> tuple[Tensor | None, ...]:
        """∂f, ∂α, ∂β, ∂C₀; one array of the size of F is made, the gradient itself."""
        f, alpha, beta, initial, mask = ctx.saved_tensors
        with torch.autocast(G.device.type, enabled=False):
            # Padding stays in its own rows below, so blanking it early is needed only to differentiate again.
            F = blank_padding(f, mask) if torch.is_grad_enabled() else f.to(G.dtype)
            y = torch.bmm(F, G + G.mT)
            after, kept = (None, None) if alpha is None else decay_after(alpha)
            grad_alpha = grad_beta = grad_initial = None
            if ctx.needs_input_grad[1] or ctx.needs_input_grad[2]:
                energy = blank_gates(torch.linalg.vecdot(F, y) / 2, mask)
                if ctx.needs_input_grad[2]:
                    grad_beta = times(after, energy)
                if ctx.needs_input_grad[1]:
                    written = energy if beta is None else beta * energy
                    grad_alpha = times(after, energy_before(alpha, written, initial, G))
            if initial is not None and ctx.needs_input_grad[3]:
                grad_initial = G if kept is None else G * kept[:, None, None]
            grad_f = scaled_rows(y, times(after, beta), mask) if ctx.needs_input_grad[0] else None
        return None if grad_f is None else grad_f.to(f.dtype), grad_alpha, grad_beta, grad_initial, None


def decay_after(alpha: Float[Tensor, "B n"]) -> tuple[Float[Tensor, "B n"], Float[Tensor, " B"]]:
    """s_t, what the later gates leave of token t, and α̂, what they all leave of the start.

    A running product rather than exp of a running sum of logarithms: it takes α = 0 and α < 0 as they are.

    >>> s, kept = decay_after(torch.tensor([[0.5, 0.0, 0.25]]))
    >>> s.tolist(), kept.tolist()
    ([[0.0, 0.25, 1.0]], [0.0])
    """
    ones = alpha.new_ones(alpha.shape[0], 1)
    products = torch.cat([ones, alpha.flip(1)], dim=1).cumprod(1).flip(1)
    return products[:, 1:], products[:, 0]


def energy_before(
    alpha: Float[Tensor, "B n"], written: Float[Tensor, "B n"], initial: Memory | None, G: Memory
) -> Float[Tensor, "B n"]:
    """p_t: the overlap ⟨G, C_t⟩ of what was read before token t, p_{t+1} = α_t p_t + written_t."""
    first = G.new_zeros(G.shape[0]) if initial is None else (G * initial).sum((1, 2))
    decay, overlap = torch.cat([first[:, None] * 0, alpha], 1), torch.cat([first[:, None], written], 1)
    # Doubling: after the step of size 2^i each place sums up its last 2^(i+1) tokens. No division anywhere.
    step = 1
    while step < decay.shape[1]:
        overlap = torch.cat([overlap[:, :step], overlap[:, step:] + decay[:, step:] * overlap[:, :-step]], 1)
        decay = torch.cat([decay[:, :step], decay[:, step:] * decay[:, :-step]], 1)
        step *= 2
    return overlap[:, :-1]


def scaled_rows(y: Float[Tensor, "B n k"], weights: Gate, mask: Mask) -> Float[Tensor, "B n k"]:
    """w_t y_t, 0 in padding; in place unless the result will be differentiated again."""
    if torch.is_grad_enabled():
        y = y if weights is None else y * weights[:, :, None]
        return y if mask is None else y.masked_fill(~mask[:, :, None], 0)
    y = y if weights is None else y.mul_(weights[:, :, None])
    return y if mask is None else y.masked_fill_(~mask[:, :, None], 0)


def times(left: Gate, right: Gate) -> Gate:
    """The product of two gates, where None is 1."""
    if left is None or right is None:
        return right if left is None else left
    return left * right


def blank_padding(states: Float[Tensor, "B n k"], mask: Mask) -> Float[Tensor, "B n k"]:
    """States in the type that is summed in, and 0 where a document has ended, whatever lay there."""
    states = states.to(accumulation_dtype(states.dtype))
    return states if mask is None else states.masked_fill(~mask[:, :, None], 0)


def blank_gates(gate: Float[Tensor, "B n"], mask: Mask, blank: float = 0.0) -> Float[Tensor, "B n"]:
    """A gate with a set value where a document has ended."""
    return gate if mask is None else gate.masked_fill(~mask, blank)


def silence_padding(alpha: Gate, beta: Gate, mask: Mask, dtype: torch.dtype) -> tuple[Gate, Gate]:
    """Gates that keep everything (α = 1) and write nothing (β = 0) where a document has ended."""
    alpha = None if alpha is None else blank_gates(alpha.to(dtype), mask, 1.0)
    return alpha, None if beta is None else blank_gates(beta.to(dtype), mask)
