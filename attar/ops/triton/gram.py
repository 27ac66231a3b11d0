"""The weighted Gram product on a GPU: C = α̂ C₀ + Fᵀ diag(w) F in one pass over F, and its gradient in another.

Sums are float32. Memories that are differentiated twice need backend="torch".
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from attar.ops.gram import blank_gates, neutral_in_padding, times
from attar.ops.triton import LARGEST_ON_CHIP, Maybe, alignment, contiguous_rows, kernel_lengths, precision_for
from attar.ops.triton.gates import decay_after, energy_before

# Programs that keep every multiprocessor of a large GPU busy; documents are split until there are as many.
ENOUGH_PROGRAMS = 512
ROWS = 64


def encode(f: Tensor, alpha: Maybe, beta: Maybe, mask: Maybe, initial: Maybe) -> Tensor:
    """The memory of each document."""
    alpha, beta = neutral_in_padding(alpha, beta, mask, torch.float32)
    beta = None if beta is None else beta.contiguous()
    initial = None if initial is None else initial.float()
    with torch.autocast(f.device.type, enabled=False):
        memory: Tensor = FusedGram.apply(f, alpha, beta, initial, mask)
        return memory


class FusedGram(torch.autograd.Function):
    """As `attar.ops.gram.WeightedGram`."""

    @staticmethod
    def forward(f: Tensor, alpha: Maybe, beta: Maybe, initial: Maybe, mask: Maybe) -> Tensor:
        """C of each document."""
        after, kept = (None, None) if alpha is None else decay_after(alpha)
        decayed = initial if initial is None or kept is None else initial * kept[:, None, None]
        return _gram(f, times(after, beta), kernel_lengths(mask), decayed)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        """Save the inputs, which the caller holds anyway, and nothing else."""
        ctx.save_for_backward(*inputs)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, G: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients of `attar.ops.gram`."""
        f, alpha, beta, initial, mask = ctx.saved_tensors
        after, kept = (None, None) if alpha is None else decay_after(alpha)
        _, want_alpha, want_beta, want_initial, _ = ctx.needs_input_grad
        grad_f, energy = _gram_gradient(
            f, times(after, beta), kernel_lengths(mask), G, want_alpha or want_beta
        )
        grad_alpha = grad_beta = grad_initial = None
        if energy is not None:
            energy = blank_gates(energy, mask)
            grad_beta = times(after, energy) if want_beta else None
            if want_alpha:
                written = energy if beta is None else beta * energy
                first = G.new_zeros(len(G)) if initial is None else (G * initial).sum((1, 2))
                grad_alpha = times(after, energy_before(alpha, written, first))
        if want_initial:
            grad_initial = G if kept is None else G * kept[:, None, None]
        return grad_f, grad_alpha, grad_beta, grad_initial, None


def _gram(x: Tensor, weights: Maybe, lengths: Maybe, initial: Maybe) -> Tensor:
    """Fᵀ diag(w) F + C₀ for each document."""
    x = contiguous_rows(x)
    batch, n, k = x.shape
    if batch == 0 or n == 0:
        return x.new_zeros(batch, k, k, dtype=torch.float32) if initial is None else initial.clone()
    if precision_for(x.dtype) == "tf32x3":
        return _exact_gram(x, weights, lengths, initial)
    tile = _tile(k)
    across = triton.cdiv(k, tile)
    tiles = across * (across + 1) // 2
    splits, per_split = _split(n, batch * tiles)
    aligned = alignment(k, x.stride(0), x.stride(1))
    sums = x.new_empty(splits, batch, k, k, dtype=torch.float32)
    initial = None if initial is None else initial.contiguous()
    gram_kernel[(batch, splits, tiles)](
        *(x, weights, lengths, initial, sums),
        *(x.stride(0) // aligned, x.stride(1) // aligned, n, k // aligned, per_split, batch),
        WEIGHTED=weights is not None,
        RAGGED=lengths is not None,
        INITIAL=initial is not None,
        ONE_TILE=tiles == 1,
        ROWS=ROWS,
        TILE=tile,
        ALIGNED=aligned,
        PRECISION=precision_for(x.dtype),
        num_warps=4,
        num_stages=2 if x.element_size() == 4 else 3,
    )
    return sums[0] if splits == 1 else sums.sum(0)


def _tile(k: int) -> int:
    """The columns of a tile."""
    return min(LARGEST_ON_CHIP, max(16, int(triton.next_power_of_2(k))))


def _split(n: int, programs: int) -> tuple[int, int]:
    """The parts that n tokens are split into, and the tokens per part."""
    splits = max(1, min(triton.cdiv(n, 4 * ROWS), ENOUGH_PROGRAMS // programs))
    return splits, triton.cdiv(triton.cdiv(n, splits), ROWS) * ROWS


def _exact_gram(x: Tensor, weights: Maybe, lengths: Maybe, initial: Maybe) -> Tensor:
    """The same for float32 without tf32, where cuBLAS is faster than three tf32 products (0.25 to 0.37 ms)."""
    if lengths is not None:
        outside = torch.arange(x.shape[1], device=x.device) >= lengths[:, None]
        x = x.masked_fill(outside[:, :, None], 0)
    left = x if weights is None else x * weights[:, :, None]
    return torch.bmm(left.mT, x) if initial is None else torch.baddbmm(initial, left.mT, x)


def _gram_gradient(
    x: Tensor, weights: Maybe, lengths: Maybe, G: Tensor, want_energy: bool
) -> tuple[Tensor, Maybe]:
    """∂x and the energies f_tᵀ G f_t, in one pass over x."""
    x = contiguous_rows(x)
    batch, n, k = x.shape
    energy = x.new_zeros(batch, n, dtype=torch.float32) if want_energy else None
    grad = x.new_zeros(x.shape) if lengths is not None else x.new_empty(x.shape)
    if batch == 0 or n == 0:
        return grad, energy
    tile = _tile(k)
    splits, per_split = _split(n, batch)
    aligned = alignment(k, x.stride(0), x.stride(1))
    # As many stages as the shared memory of an H100 or H200 holds: with more than one tile, tiles of G and of its
    # transpose, in float32, are loaded in the innermost loop.
    stages = 1 if k > tile else 2 if x.element_size() == 4 else 3
    gradient_kernel[(batch, splits)](
        *(x, weights, lengths, G.contiguous(), grad, energy),
        *(x.stride(0) // aligned, x.stride(1) // aligned, n, k // aligned, per_split),
        WEIGHTED=weights is not None,
        RAGGED=lengths is not None,
        ENERGY=want_energy,
        ONE_TILE=k <= tile,
        ROWS=ROWS,
        TILE=tile,
        ALIGNED=aligned,
        PRECISION=precision_for(x.dtype),
        num_warps=8,
        num_stages=stages,
    )
    return grad, energy


# Batches have any length: kernels specialised to one would be compiled again for the next.
@triton.jit(do_not_specialize=["n", "per_split"])
def gram_kernel(
    x, weights, lengths, initial, sums,
    stride_b, stride_n, n, k, per_split, batch,
    WEIGHTED: tl.constexpr, RAGGED: tl.constexpr, INITIAL: tl.constexpr,
    ONE_TILE: tl.constexpr, ROWS: tl.constexpr, TILE: tl.constexpr, ALIGNED: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """One tile of one document's sum over one part of its tokens."""
    b, split, tile = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.program_id(2)
    k, stride_b, stride_n = k * ALIGNED, stride_b * ALIGNED, stride_n * ALIGNED
    # The sum is symmetric: only tiles on and below the diagonal are computed.
    tile_i = ((tl.sqrt(8.0 * tile + 1.0) - 1.0) * 0.5).to(tl.int32)
    tile_j = tile - tile_i * (tile_i + 1) // 2
    i = tile_i * TILE + tl.arange(0, TILE)
    j = tile_j * TILE + tl.arange(0, TILE)
    end = tl.minimum(split * per_split + per_split, n)
    if RAGGED:
        end = tl.minimum(end, tl.load(lengths + b))
    total = tl.zeros([TILE, TILE], tl.float32)
    for start in tl.range(split * per_split, end, ROWS):
        t = start + tl.arange(0, ROWS)
        rows = x + b * stride_b + t[:, None].to(tl.int64) * stride_n
        left = tl.load(rows + i[None, :], (t[:, None] < end) & (i[None, :] < k), 0.0)
        right = left
        if not ONE_TILE:
            right = tl.load(rows + j[None, :], (t[:, None] < end) & (j[None, :] < k), 0.0)
        if WEIGHTED:
            w = tl.load(weights + b * n + t, t < end, 0.0)
            left = (left * w[:, None]).to(right.dtype)
        total = tl.dot(tl.trans(left), right, total, input_precision=PRECISION)
    out = sums + (split * batch + b) * k * k
    inside = (i[:, None] < k) & (j[None, :] < k)
    if INITIAL:
        if split == 0:
            start_ij = tl.load(initial + b * k * k + i[:, None] * k + j[None, :], inside, 0.0)
            tl.store(out + i[:, None] * k + j[None, :], total + start_ij, inside)
            if tile_i != tile_j:
                start_ji = tl.load(initial + b * k * k + j[None, :] * k + i[:, None], inside, 0.0)
                tl.store(out + j[None, :] * k + i[:, None], total + start_ji, inside)
            return
    tl.store(out + i[:, None] * k + j[None, :], total, inside)
    if tile_i != tile_j:
        tl.store(out + j[None, :] * k + i[:, None], total, inside)


# Batches have any length: kernels specialised to one would be compiled again for the next.
@triton.jit(do_not_specialize=["n", "per_split"])
def gradient_kernel(
    x, weights, lengths, G, grad, energy,
    stride_b, stride_n, n, k, per_split,
    WEIGHTED: tl.constexpr, RAGGED: tl.constexpr, ENERGY: tl.constexpr,
    ONE_TILE: tl.constexpr, ROWS: tl.constexpr, TILE: tl.constexpr, ALIGNED: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """∂x for one part of one document's tokens: ∂f_t = w_t (G + Gᵀ) f_t."""
    b, split = tl.program_id(0).to(tl.int64), tl.program_id(1)
    k, stride_b, stride_n = k * ALIGNED, stride_b * ALIGNED, stride_n * ALIGNED
    i = tl.arange(0, TILE)
    square = (i[:, None] < k) & (i[None, :] < k)
    end = tl.minimum(split * per_split + per_split, n)
    if RAGGED:
        end = tl.minimum(end, tl.load(lengths + b))
    matrix = G + b * k * k
    # Half-precision states meet a gradient of their own dtype, except float16, whose range G may exceed.
    operand = tl.bfloat16 if x.dtype.element_ty == tl.bfloat16 else tl.float32
    if ONE_TILE:
        s = tl.load(matrix + i[:, None] * k + i[None, :], square, 0.0)
        s = (s + tl.trans(s)).to(operand)
    for start in tl.range(split * per_split, end, ROWS):
        t = start + tl.arange(0, ROWS)
        rows = x + b * stride_b + t[:, None].to(tl.int64) * stride_n
        out = grad + b * n * k + t[:, None].to(tl.int64) * k
        w = tl.full([ROWS], 1.0, tl.float32)
        if WEIGHTED:
            w = tl.load(weights + b * n + t, t < end, 0.0)
        found = tl.zeros([ROWS], tl.float32)
        if ONE_TILE:
            inside = (t[:, None] < end) & (i[None, :] < k)
            f = tl.load(rows + i[None, :], inside, 0.0)
            y = tl.dot(f.to(s.dtype), s, input_precision=PRECISION)
            found = tl.sum(f.to(tl.float32) * y, 1) * 0.5
            y = y * w[:, None]
            tl.store(out + i[None, :], y.to(grad.dtype.element_ty), inside)
        else:
            for j0 in tl.range(0, k, TILE):
                j = j0 + i
                y = tl.zeros([ROWS, TILE], tl.float32)
                for m0 in tl.range(0, k, TILE):
                    m = m0 + i
                    part = tl.load(rows + m[None, :], (t[:, None] < end) & (m[None, :] < k), 0.0)
                    both = (m[:, None] < k) & (j[None, :] < k)
                    s_mj = tl.load(matrix + m[:, None] * k + j[None, :], both, 0.0)
                    s_mj = (s_mj + tl.load(matrix + j[None, :] * k + m[:, None], both, 0.0)).to(operand)
                    y = tl.dot(part.to(operand), s_mj, y, input_precision=PRECISION)
                inside = (t[:, None] < end) & (j[None, :] < k)
                f = tl.load(rows + j[None, :], inside, 0.0)
                found += tl.sum(f.to(tl.float32) * y, 1) * 0.5
                tl.store(out + j[None, :], (y * w[:, None]).to(grad.dtype.element_ty), inside)
        if ENERGY:
            tl.store(energy + b * n + t, found, t < end)
