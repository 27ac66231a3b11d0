"""Gates on a GPU: f = σ(W h + b) ⊙ h for states too large for `gram`'s kernels, and cumulative products of α.

PyTorch's operations would make a dozen passes over the states, and a training step spends more time launching them
than running them. Here the gate is one product and one pass forward, three products and one pass backward; the
cumulative products and sums of `attar.ops.gram` are one launch each.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from attar.ops.triton import Maybe

BLOCK = 1024


def gate_states(h: Tensor, weight: Tensor, bias: Tensor, lengths: Maybe) -> Tensor:
    """The gated states `[B, n, k]`, 0 after the end of each document, whatever is there."""
    gated: Tensor = FusedGate.apply(h, weight, bias, lengths)
    return gated


class FusedGate(torch.autograd.Function):
    """The gate and its gradient; W h is recomputed for the gradient, not kept."""

    @staticmethod
    def forward(h: Tensor, weight: Tensor, bias: Tensor, lengths: Maybe) -> Tensor:
        """f."""
        states = h.contiguous()
        inputs, f = _product(states, weight), torch.empty_like(states)
        if f.numel():
            tensors, sizes = (states, inputs, bias, lengths, f), (f.numel(), *f.shape[1:])
            gate_kernel[_grid(f)](*tensors, *sizes, RAGGED=lengths is not None, BLOCK=BLOCK)
        return f

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        """Save the inputs, which the caller holds anyway."""
        ctx.save_for_backward(*inputs)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """With g = σ(z), z = W h + b: ∂z = ∂f ⊙ h ⊙ g (1 − g), ∂h = ∂f ⊙ g + Wᵀ ∂z."""
        h, weight, bias, lengths = ctx.saved_tensors
        states, k = h.contiguous(), h.shape[2]
        inputs = _product(states, weight)
        grad_inputs, direct = torch.empty_like(states), torch.empty_like(states)
        # Padding must not meet ∂z = 0 in a product: 0 · NaN would reach the gradient of W.
        read = states if lengths is None else torch.empty_like(states)
        if states.numel():
            tensors = (states, inputs, bias, lengths, grad.contiguous(), grad_inputs, direct, read)
            sizes = (states.numel(), *states.shape[1:])
            gradient_kernel[_grid(states)](*tensors, *sizes, RAGGED=lengths is not None, BLOCK=BLOCK)
        flat = grad_inputs.view(-1, k)
        grad_h = torch.addmm(direct.view(-1, k), flat, weight.to(h.dtype)).view_as(h)
        grad_weight = (flat.mT @ read.view(-1, k)).to(weight.dtype)
        return grad_h, grad_weight, flat.sum(0, dtype=torch.float32).to(bias.dtype), None


def _product(states: Tensor, weight: Tensor) -> Tensor:
    """W h of every token, `[B n, k]`."""
    return states.view(-1, states.shape[2]) @ weight.to(states.dtype).mT


def _grid(states: Tensor) -> tuple[int]:
    """Enough programs for one pass over all values."""
    return (triton.cdiv(states.numel(), BLOCK),)


# Batches have any length: kernels specialised to one would be compiled again for the next.
@triton.jit(do_not_specialize=["count", "n"])
def gate_kernel(h, inputs, bias, lengths, f, count, n, k, RAGGED: tl.constexpr, BLOCK: tl.constexpr):
    """f of one block of values."""
    at, live = places(lengths, count, n, k, RAGGED, BLOCK)
    z = tl.load(inputs + at, live, 0.0).to(tl.float32) + tl.load(bias + at % k, live, 0.0).to(tl.float32)
    states = tl.load(h + at, live, 0.0).to(tl.float32)
    tl.store(f + at, (tl.sigmoid(z) * states).to(f.dtype.element_ty), at < count)


@triton.jit(do_not_specialize=["count", "n"])
def gradient_kernel(
    h, inputs, bias, lengths, grad, grad_inputs, direct, read, count, n, k,
    RAGGED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """∂z, the part of ∂h that does not go through W, and h with 0 in padding, of one block of values."""
    at, live = places(lengths, count, n, k, RAGGED, BLOCK)
    z = tl.load(inputs + at, live, 0.0).to(tl.float32) + tl.load(bias + at % k, live, 0.0).to(tl.float32)
    states, y = tl.load(h + at, live, 0.0), tl.load(grad + at, live, 0.0).to(tl.float32)
    g = tl.sigmoid(z)
    through = y * states.to(tl.float32) * g * (1 - g)
    tl.store(grad_inputs + at, through.to(grad_inputs.dtype.element_ty), at < count)
    tl.store(direct + at, (y * g).to(direct.dtype.element_ty), at < count)
    if RAGGED:
        tl.store(read + at, states, at < count)


@triton.jit
def places(lengths, count, n, k, RAGGED: tl.constexpr, BLOCK: tl.constexpr):
    """The values of one program, and which of them belong to a token."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    live = at < count
    if RAGGED:
        token = at // k
        live = live & (token % n < tl.load(lengths + token // n, live, 0))
    return at, live


def decay_after(alpha: Tensor) -> tuple[Tensor, Tensor]:
    """∏_{u>t} α_u for each token, `[B, n]`, and ∏ α_u, `[B]`."""
    alpha = alpha.contiguous()
    batch, n = alpha.shape
    after, kept = torch.empty_like(alpha), alpha.new_ones(batch)
    if batch and n:
        after_kernel[(batch,)](alpha, after, kept, n, BLOCK=BLOCK)
    return after, kept


def energy_before(alpha: Tensor, written: Tensor, first: Tensor) -> Tensor:
    """p_t `[B, n]`, where p_0 = first and p_{t+1} = α_t p_t + written_t."""
    alpha, written = alpha.contiguous(), written.contiguous()
    before = torch.empty_like(alpha)
    if before.numel():
        tensors = (alpha, written, first.contiguous(), before)
        before_kernel[(alpha.shape[0],)](*tensors, alpha.shape[1], BLOCK=BLOCK)
    return before


@triton.jit
def multiply(left, right):
    """The operator of a cumulative product."""
    return left * right


@triton.jit
def chain(decay, total, next_decay, next_total):
    """The operator of p ← decay · p + total."""
    return decay * next_decay, total * next_decay + next_total


@triton.jit
def after_kernel(alpha, after, kept, n, BLOCK: tl.constexpr):
    """One document, from its last token to its first."""
    b = tl.program_id(0).to(tl.int64)
    carried = 1.0
    for start in range(0, n, BLOCK):
        back = start + tl.arange(0, BLOCK)
        t = n - 1 - back
        later = tl.load(alpha + b * n + t + 1, (t >= 0) & (back > 0), 1.0)
        tl.store(after + b * n + t, tl.associative_scan(later, 0, multiply) * carried, t >= 0)
        carried *= tl.reduce(later, 0, multiply)
    tl.store(kept + b, carried * tl.load(alpha + b * n))


@triton.jit
def before_kernel(alpha, written, first, before, n, BLOCK: tl.constexpr):
    """One document, from its first token to its last."""
    b = tl.program_id(0).to(tl.int64)
    carried = tl.load(first + b)
    for start in range(0, n, BLOCK):
        t = start + tl.arange(0, BLOCK)
        earlier = (t > 0) & (t < n)
        decay = tl.load(alpha + b * n + t - 1, earlier, 1.0)
        total = tl.load(written + b * n + t - 1, earlier, 0.0)
        decay, total = tl.associative_scan((decay, total), 0, chain)
        found = total + decay * carried
        tl.store(before + b * n + t, found, t < n)
        carried = tl.sum(tl.where(t == start + BLOCK - 1, found, 0.0), 0)
