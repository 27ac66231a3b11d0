"""Memories whose gates ignore the memory: one weighted Gram product, no recurrence.

    C = α̂ C₀ + Fᵀ diag(w) F        w_t = s_t β_t        s_t = ∏_{u>t} α_u        α̂ = ∏ α_u

Its gradient needs neither a C_t nor a division. With G = ∂L/∂C and e_t = f_tᵀ G f_t:

    ∂f_t = w_t (G + Gᵀ) f_t     ∂β_t = s_t e_t     ∂α_t = s_t p_t     ∂C₀ = α̂ G
    p_{t+1} = α_t p_t + β_t e_t,  p_0 = ⟨G, C₀⟩

For α = β = 1 this is the paper's section 3.3. Saved for backward: F and the gates.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from attar.ops import checks, reference
from attar.ops.reference import Gate, Mask, Memory, States, blank_padding


def encode(
    f: States,
    *,
    alpha: Gate = None,
    beta: Gate = None,
    lengths: checks.Lengths = None,
    initial: Memory | None = None,
    backend: checks.Backend = "auto",
) -> Memory:
    """The memory C ← α_t C + β_t f_t f_tᵀ of each document, as one weighted Gram product.

    α and β default to 1. `lengths` is the number of tokens per document; what follows them is ignored.
    `initial` is a memory to continue from. Sums and the memory are float32 (float64 for float64).

    >>> encode(torch.tensor([[[1.0, 2.0], [0.0, 1.0]]]))[0].tolist()
    [[1.0, 2.0], [2.0, 5.0]]
    """
    checks.check_floats("f", f, "B n k")
    checks.check_gate("alpha", alpha, f)
    checks.check_gate("beta", beta, f)
    checks.check_initial(initial, f)
    mask, name = checks.length_mask(lengths, f), checks.choose_backend(backend, f)
    if name == "reference":
        return reference.encode(f, alpha, beta, mask, initial)
    if name == "triton":
        from attar.ops.triton import gram as kernels

        return kernels.encode(f, alpha, beta, mask, initial)
    dtype = checks.accumulation_dtype(f.dtype)
    alpha, beta = neutral_in_padding(alpha, beta, mask, dtype)
    initial = None if initial is None else initial.to(dtype)
    with checks.without_autocast(f):
        if checks.is_transformed():
            return weighted_gram(f, alpha, beta, initial, mask)
        memory: Tensor = WeightedGram.apply(f, alpha, beta, initial, mask)  # type: ignore[no-untyped-call]
        return memory


def weighted_gram(f: States, alpha: Gate, beta: Gate, initial: Memory | None, mask: Mask) -> Memory:
    """α̂ C₀ + Fᵀ diag(w) F by plain operations, which any transform differentiates."""
    F = blank_padding(f, mask)
    after, kept = (None, None) if alpha is None else decay_after(alpha)
    weights = times(after, beta)
    weighted = F if weights is None else F * weights[:, :, None]
    if initial is None:
        return torch.bmm(weighted.mT, F)
    decayed = initial if kept is None else initial * kept[:, None, None]
    return torch.baddbmm(decayed, weighted.mT, F)


class WeightedGram(torch.autograd.Function):
    """Fᵀ diag(w) F with the closed-form gradient, itself differentiable."""

    generate_vmap_rule = True

    @staticmethod
    def forward(
        f: Tensor, alpha: Tensor | None, beta: Tensor | None, initial: Tensor | None, mask: Tensor | None
    ) -> Tensor:
        """C of each document."""
        return weighted_gram(f, alpha, beta, initial, mask)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        """Save the inputs, which the caller holds anyway, and nothing else."""
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, G: Tensor) -> tuple[Tensor | None, ...]:
        """∂f, ∂α, ∂β, ∂C₀; one array of the size of F is made, the gradient itself."""
        f, alpha, beta, initial, mask = ctx.saved_tensors
        with checks.without_autocast(G):
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
            grad_f = _scale_rows(y, times(after, beta), mask) if ctx.needs_input_grad[0] else None
        return None if grad_f is None else grad_f.to(f.dtype), grad_alpha, grad_beta, grad_initial, None


def decay_after(alpha: Float[Tensor, "*B n"]) -> tuple[Float[Tensor, "*B n"], Float[Tensor, "*B"]]:
    """s_t = ∏_{u>t} α_u for each token, and α̂ = ∏ α_u.

    A cumulative product rather than exp of a cumulative sum of logarithms: α = 0 and α < 0 are allowed.

    >>> s, kept = decay_after(torch.tensor([[0.5, 0.0, 0.25]]))
    >>> s.tolist(), kept.tolist()
    ([[0.0, 0.25, 1.0]], [0.0])
    """
    ones = alpha.new_ones(*alpha.shape[:-1], 1)
    products = torch.cat([ones, alpha.flip(-1)], -1).cumprod(-1).flip(-1)
    return products[..., 1:], products[..., 0]


def energy_before(
    alpha: Float[Tensor, "B n"], written: Float[Tensor, "B n"], initial: Memory | None, G: Memory
) -> Float[Tensor, "B n"]:
    """p_t = ⟨G, C_t⟩ before token t: p_{t+1} = α_t p_t + written_t."""
    first = G.new_zeros(G.shape[0]) if initial is None else (G * initial).sum((1, 2))
    decay, overlap = torch.cat([first[:, None] * 0, alpha], 1), torch.cat([first[:, None], written], 1)
    # Doubling: after the step of size 2^i each position sums its last 2^(i+1) tokens. There is no division.
    step = 1
    while step < decay.shape[1]:
        overlap = torch.cat([overlap[:, :step], overlap[:, step:] + decay[:, step:] * overlap[:, :-step]], 1)
        decay = torch.cat([decay[:, :step], decay[:, step:] * decay[:, :-step]], 1)
        step *= 2
    return overlap[:, :-1]


def _scale_rows(y: States, weights: Gate, mask: Mask) -> States:
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


def blank_gates(gate: Float[Tensor, "B n"], mask: Mask, blank: float = 0.0) -> Float[Tensor, "B n"]:
    """A gate with a fixed value after the end of each document."""
    return gate if mask is None else gate.masked_fill(~mask, blank)


def neutral_in_padding(alpha: Gate, beta: Gate, mask: Mask, dtype: torch.dtype) -> tuple[Gate, Gate]:
    """Gates with α = 1 and β = 0 after the end of each document: nothing changes there."""
    alpha = None if alpha is None else blank_gates(alpha.to(dtype), mask, 1.0)
    return alpha, None if beta is None else blank_gates(beta.to(dtype), mask)
