"""The kernels of the weighted Gram product, and the shapes they are launched with."""

import math

import torch
import triton
import triton.language as tl
from jaxtyping import Float, Int
from torch import Tensor

# A k × k sum in float32 fills the registers of one program at k = 128; beyond, it is made in tiles.
LARGEST_ON_CHIP = 128
# Programs that keep every multiprocessor of a large GPU busy; documents are split until there are as many.
ENOUGH_PROGRAMS = 512
ROWS, ROWS_GATED = 64, 32


def gram(
    x: Float[Tensor, "B n k"],
    weight: Float[Tensor, "k k"] | None,
    bias: Float[Tensor, " k"] | None,
    weights: Float[Tensor, "B n"] | None,
    lengths: Int[Tensor, " B"] | None,
    initial: Float[Tensor, "B k k"] | None,
) -> Float[Tensor, "B k k"]:
    """Fᵀ diag(w) F + C₀ for each document."""
    x = rows_together(x)
    batch, n, k = x.shape
    if batch == 0 or n == 0:
        return x.new_zeros(batch, k, k, dtype=torch.float32) if initial is None else initial.clone()
    if weight is None and precision_for(x.dtype) == "tf32x3":
        return exact_gram(x, weights, lengths, initial)
    tile = min(LARGEST_ON_CHIP, max(16, triton.next_power_of_2(k)))
    rows = ROWS if weight is None else ROWS_GATED
    across = triton.cdiv(k, tile)
    tiles = across * (across + 1) // 2
    splits = max(1, min(triton.cdiv(n, 4 * rows), ENOUGH_PROGRAMS // (batch * tiles)))
    per_split = triton.cdiv(triton.cdiv(n, splits), rows) * rows
    aligned = alignment(k, x.stride(0), x.stride(1))
    sums = x.new_empty(splits, batch, k, k, dtype=torch.float32)
    initial = None if initial is None else initial.contiguous()
    gram_kernel[(batch, splits, tiles)](
        *(x, weight_as(weight, x), bias, weights, lengths, initial, sums),
        *(x.stride(0) // aligned, x.stride(1) // aligned, n, k // aligned, per_split, batch),
        GATED=weight is not None,
        WEIGHTED=weights is not None,
        RAGGED=lengths is not None,
        INITIAL=initial is not None,
        ONE_TILE=tiles == 1,
        ROWS=rows,
        TILE=tile,
        ALIGNED=aligned,
        PRECISION=precision_for(x.dtype),
        num_warps=4,
        num_stages=2 if x.element_size() == 4 else 3,
    )
    return sums[0] if splits == 1 else sums.sum(0)


def largest_gated(dtype: torch.dtype) -> int:
    """The largest k whose W fits on the chip beside the gradient's sums.

    At 128 the gradient of float32 states would need 240 KB of shared memory (460 in three tf32 products); an
    H100 or H200 has 227.

    >>> largest_gated(torch.bfloat16), largest_gated(torch.float32)
    (128, 64)
    """
    return LARGEST_ON_CHIP if dtype.itemsize == 2 else LARGEST_ON_CHIP // 2


def stages_for(x: Tensor, gated: bool, one_tile: bool) -> dict[str, int]:
    """Warps, and loads under way at once: as many as the shared memory of an H100 or H200 holds."""
    # Beyond one tile, tiles of G and of its transpose, in float32, are loaded in the innermost loop.
    if x.element_size() == 4 or not one_tile:
        return {"num_warps": 8, "num_stages": 2 if one_tile and not gated else 1}
    return {"num_warps": 4, "num_stages": 2} if gated else {"num_warps": 8, "num_stages": 3}


def exact_gram(x: Tensor, weights: Tensor | None, lengths: Tensor | None, initial: Tensor | None) -> Tensor:
    """The same for float32 without tf32, where cuBLAS is quicker than three tf32 products (0.25 to 0.37 ms)."""
    if lengths is not None:
        outside = torch.arange(x.shape[1], device=x.device) >= lengths[:, None]
        x = x.masked_fill(outside[:, :, None], 0)
    left = x if weights is None else x * weights[:, :, None]
    return torch.bmm(left.mT, x) if initial is None else torch.baddbmm(initial, left.mT, x)


def gram_gradient(
    x: Float[Tensor, "B n k"],
    weight: Float[Tensor, "k k"] | None,
    bias: Float[Tensor, " k"] | None,
    weights: Float[Tensor, "B n"] | None,
    lengths: Int[Tensor, " B"] | None,
    G: Float[Tensor, "B k k"],
    want_energy: bool,
) -> tuple[Tensor, Tensor | None, Tensor | None, Tensor | None]:
    """∂x, ∂W, ∂b and the energies f_tᵀ G f_t, in one pass over x."""
    x = rows_together(x)
    batch, n, k = x.shape
    energy = x.new_zeros(batch, n, dtype=torch.float32) if want_energy else None
    grad = x.new_zeros(x.shape) if lengths is not None else x.new_empty(x.shape)
    if batch == 0 or n == 0:
        return grad, zeros_like(weight), zeros_like(bias), energy
    tile = min(LARGEST_ON_CHIP, max(16, triton.next_power_of_2(k)))
    rows = ROWS if weight is None else ROWS_GATED
    splits = max(1, min(triton.cdiv(n, 4 * rows), ENOUGH_PROGRAMS // batch))
    per_split = triton.cdiv(triton.cdiv(n, splits), rows) * rows
    aligned = alignment(k, x.stride(0), x.stride(1))
    gated = weight is not None
    grad_weight = x.new_empty(batch, splits, k, k, dtype=torch.float32) if gated else None
    grad_bias = x.new_empty(batch, splits, k, dtype=torch.float32) if gated else None
    gradient_kernel[(batch, splits)](
        *(
            x,
            weight_as(weight, x),
            bias,
            weights,
            lengths,
            G.contiguous(),
            grad,
            grad_weight,
            grad_bias,
            energy,
        ),
        *(x.stride(0) // aligned, x.stride(1) // aligned, n, k // aligned, per_split),
        GATED=gated,
        WEIGHTED=weights is not None,
        RAGGED=lengths is not None,
        ENERGY=want_energy,
        ONE_TILE=k <= tile,
        ROWS=rows,
        TILE=tile,
        ALIGNED=aligned,
        PRECISION=precision_for(x.dtype),
        **stages_for(x, gated, k <= tile),
    )
    if weight is None or bias is None or grad_weight is None or grad_bias is None:
        return grad, None, None, energy
    return grad, grad_weight.sum((0, 1)).to(weight.dtype), grad_bias.sum((0, 1)).to(bias.dtype), energy


def precision_for(dtype: torch.dtype) -> str:
    """How products of float32 are made: exactly enough for float32 inputs, once for half-precision ones.

    Half-precision numbers are exact in tf32; float32 takes three tf32 products, unless torch was told that one
    will do.
    """
    exact = dtype == torch.float32 and not torch.backends.cuda.matmul.allow_tf32
    return "tf32x3" if exact else "tf32"


def alignment(*sizes: int) -> int:
    """The largest power of two up to 16 that divides all sizes: loads may be as wide as that.

    Kernels take their sizes divided by it and multiply it back, which is how their compiler learns of it.

    >>> alignment(100, 75000), alignment(128)
    (4, 16)
    """
    common = math.gcd(16, *sizes)
    return common & -common


def rows_together(x: Float[Tensor, "B n k"]) -> Float[Tensor, "B n k"]:
    """The same numbers with each row's beside each other, which is what the kernels read."""
    return x if x.stride(2) == 1 or x.shape[2] == 1 else x.contiguous()


def weight_as(weight: Tensor | None, x: Tensor) -> Tensor | None:
    """W in the type of the states that it meets."""
    return None if weight is None else weight.to(x.dtype).contiguous()


def zeros_like(tensor: Tensor | None) -> Tensor | None:
    """No gradient, for a tensor that may not be there."""
    return None if tensor is None else torch.zeros_like(tensor)


# Documents of a batch have any length: kernels made for some lengths would be made again and again.
@triton.jit(do_not_specialize=["n", "per_split"])
def gram_kernel(
    x, weight, bias, weights, lengths, initial, sums,
    stride_b, stride_n, n, k, per_split, batch,
    GATED: tl.constexpr, WEIGHTED: tl.constexpr, RAGGED: tl.constexpr, INITIAL: tl.constexpr,
    ONE_TILE: tl.constexpr, ROWS: tl.constexpr, TILE: tl.constexpr, ALIGNED: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """One tile of one document's sum over one part of its tokens."""
    b, split, tile = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.program_id(2)
    k, stride_b, stride_n = k * ALIGNED, stride_b * ALIGNED, stride_n * ALIGNED
    # The sum is symmetric: only tiles on and below the diagonal are made.
    tile_i = ((tl.sqrt(8.0 * tile + 1.0) - 1.0) * 0.5).to(tl.int32)
    tile_j = tile - tile_i * (tile_i + 1) // 2
    i = tile_i * TILE + tl.arange(0, TILE)
    j = tile_j * TILE + tl.arange(0, TILE)
    end = tl.minimum(split * per_split + per_split, n)
    if RAGGED:
        end = tl.minimum(end, tl.load(lengths + b))
    if GATED:
        w_gate = tl.load(weight + i[None, :] * k + i[:, None], (i[None, :] < k) & (i[:, None] < k), 0.0)
        b_gate = tl.load(bias + i, i < k, 0.0).to(tl.float32)
    total = tl.zeros([TILE, TILE], tl.float32)
    for start in tl.range(split * per_split, end, ROWS):
        t = start + tl.arange(0, ROWS)
        rows = x + b * stride_b + t[:, None].to(tl.int64) * stride_n
        left = tl.load(rows + i[None, :], (t[:, None] < end) & (i[None, :] < k), 0.0)
        if GATED:
            left = gate_states(left, w_gate, b_gate, PRECISION)[0]
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


# Documents of a batch have any length: kernels made for some lengths would be made again and again.
@triton.jit(do_not_specialize=["n", "per_split"])
def gradient_kernel(
    x, weight, bias, weights, lengths, G, grad, grad_weight, grad_bias, energy,
    stride_b, stride_n, n, k, per_split,
    GATED: tl.constexpr, WEIGHTED: tl.constexpr, RAGGED: tl.constexpr, ENERGY: tl.constexpr,
    ONE_TILE: tl.constexpr, ROWS: tl.constexpr, TILE: tl.constexpr, ALIGNED: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """∂x for one part of one document's tokens: ∂f_t = w_t (G + Gᵀ) f_t, and on through the gate."""
    b, split = tl.program_id(0).to(tl.int64), tl.program_id(1)
    k, stride_b, stride_n = k * ALIGNED, stride_b * ALIGNED, stride_n * ALIGNED
    i = tl.arange(0, TILE)
    square = (i[:, None] < k) & (i[None, :] < k)
    end = tl.minimum(split * per_split + per_split, n)
    if RAGGED:
        end = tl.minimum(end, tl.load(lengths + b))
    matrix = G + b * k * k
    # Half-precision states meet a gradient of their own type, but for float16, whose range G may leave.
    operand = tl.bfloat16 if x.dtype.element_ty == tl.bfloat16 else tl.float32
    if ONE_TILE:
        s = tl.load(matrix + i[:, None] * k + i[None, :], square, 0.0)
        s = (s + tl.trans(s)).to(operand)
    if GATED:
        w_gate = tl.load(weight + i[None, :] * k + i[:, None], square, 0.0)
        b_gate = tl.load(bias + i, i < k, 0.0).to(tl.float32)
        sum_weight = tl.zeros([TILE, TILE], tl.float32)
        sum_bias = tl.zeros([TILE], tl.float32)
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
            states = tl.load(rows + i[None, :], inside, 0.0)
            f = states
            if GATED:
                f, g = gate_states(states, w_gate, b_gate, PRECISION)
            y = tl.dot(f.to(s.dtype), s, input_precision=PRECISION)
            found = tl.sum(f.to(tl.float32) * y, 1) * 0.5
            y = y * w[:, None]
            if GATED:
                z = y * states.to(tl.float32) * g * (1 - g)
                z_as = z.to(states.dtype)
                y = tl.dot(z_as, tl.trans(w_gate), y * g, input_precision=PRECISION)
                sum_weight = tl.dot(tl.trans(z_as), states, sum_weight, input_precision=PRECISION)
                sum_bias += tl.sum(z, 0)
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
    if GATED:
        part = b * tl.num_programs(1) + split
        tl.store(grad_weight + part * k * k + i[:, None] * k + i[None, :], sum_weight, square)
        tl.store(grad_bias + part * k + i, sum_bias, i < k)


@triton.jit
def gate_states(h, w_gate, b_gate, PRECISION: tl.constexpr):
    """σ(W h + b) ⊙ h in the states' own type, and the gate in float32; `w_gate` is W transposed."""
    g = tl.sigmoid(tl.dot(h, w_gate, input_precision=PRECISION) + b_gate[None, :])
    return (g * h.to(tl.float32)).to(h.dtype), g
