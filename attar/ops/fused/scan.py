"""The adaptive scan on a GPU, with AffineGates: forward and backward exact, the memory on the chip for k ≤ 128."""

from typing import Any

import torch
import triton
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from attar.ops.fused import scan_kernels as kernels
from attar.ops.fused import wide
from attar.ops.fused.decay import decay_after
from attar.ops.fused.gram import lengths_of
from attar.ops.fused.gram_kernels import LARGEST_ON_CHIP, precision_for, rows_together
from attar.ops.gates import AffineGates
from attar.ops.gram import Mask, Memory

# Tokens between the memories that are kept for backward.
EVERY = 64
# Registers a thread may have: left alone, the assembler may choose 32 and spill the memory. More programs at a time
# (fewer registers), and more warps a program, were both slower on an H200.
WARPS = {"num_warps": 4, "maxnreg": 255}


def encode_adaptive(
    h: Float[Tensor, "B n d"],
    f: Float[Tensor, "B n k"],
    cell: AffineGates,
    mask: Mask = None,
    initial: Memory | None = None,
) -> Memory:
    """The memory of each document."""
    if mask is not None:  # what lies in padding must not reach the gradients of U and b
        h = h.masked_fill(~mask[:, :, None], 0)
    with torch.autocast(f.device.type, enabled=False):
        tensors = (
            cell.of_hidden(h.float()),
            f,
            cell.read_weight.float(),
            None if initial is None else initial.float(),
            lengths_of(mask),
        )
        memory: Tensor = FusedScan.apply(*tensors)
        return memory


class FusedScan(torch.autograd.Function):
    """The scan from U h + b on; what the states alone say is differentiated outside."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Float[Tensor, "B n 2"],
        f: Float[Tensor, "B n k"],
        V: Float[Tensor, "2 k"],
        initial: Memory | None,
        lengths: Int[Tensor, " B"] | None,
    ) -> Memory:
        """C of each document; held transposed, which without an initial memory is the same."""
        f, hidden, V = rows_together(f), hidden.contiguous(), V.contiguous()
        start = None if initial is None else initial.mT.contiguous()
        read = wide.read if f.shape[2] > LARGEST_ON_CHIP else read_on_chip
        training = any(ctx.needs_input_grad)
        last, *saved = read(hidden, f, V, start, lengths, training)
        if training:
            ctx.save_for_backward(
                f, V, lengths, last, *saved, None if initial is None else is_symmetric(initial)
            )
        return last if initial is None else last.mT

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """∂(U h + b), ∂f, ∂V, ∂C₀."""
        f, V, lengths, last, gates, rho, phi, kept, symmetric = ctx.saved_tensors
        saved, G = (last, gates, rho, phi, kept), grad.float().mT
        start: Tensor | None
        with torch.autocast(f.device.type, enabled=False):
            if f.shape[2] > LARGEST_ON_CHIP:
                grad_hidden, grad_f, grad_V, start = wide.gradients(f, V, lengths, *saved, G)
            else:
                grad_hidden, grad_f, grad_V, start = gradients_on_chip(f, V, lengths, *saved, symmetric, G)
        return grad_hidden, grad_f, grad_V, None if start is None or symmetric is None else start.mT, None


def read_on_chip(
    hidden: Tensor, f: Tensor, V: Tensor, initial: Tensor | None, lengths: Tensor | None, training: bool
) -> tuple[Tensor, Tensor | None, Tensor | None, Tensor | None, Tensor | None]:
    """The last memory; for training also the gates, ρ, φ and the kept memories."""
    batch, n, k = f.shape
    keeps = triton.cdiv(n, EVERY)
    last = f.new_empty(batch, k, k, dtype=torch.float32)
    gates = rho = phi = kept = None
    if training:
        gates, phi = hidden.new_empty(batch, n, 2), hidden.new_empty(batch, n)
        kept = last.new_empty(batch, keeps, k, k)
        # Squashed readings stay below √k, so that half precision holds them.
        rho = torch.empty_like(f, memory_format=torch.contiguous_format)
    if n == 0:
        last = torch.zeros_like(last) if initial is None else initial
    elif batch:
        kernels.read_kernel[(batch,)](
            *(f, hidden, V, lengths, initial, last, gates, rho, phi, kept),
            *(f.stride(0), f.stride(1), n, k, EVERY, keeps),
            RAGGED=lengths is not None,
            INITIAL=initial is not None,
            TRAINING=training,
            K=padded(k),
            **WARPS,
        )
    return last, gates, rho, phi, kept


def gradients_on_chip(
    f: Tensor,
    V: Tensor,
    lengths: Tensor | None,
    last: Tensor,
    gates: Tensor,
    rho: Tensor,
    phi: Tensor,
    kept: Tensor,
    symmetric: Tensor | None,
    G: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """∂(U h + b), ∂f, ∂V, and ∂C₀ where there was a C₀; G and ∂C₀ are transposed, as `last` is."""
    batch, n, k = f.shape
    grad_hidden, grad_f, d = torch.zeros_like(gates), torch.zeros_like(rho), torch.zeros_like(rho)
    grad_V = torch.zeros(batch, 2, k, device=f.device)
    strides, keeps, ragged = (f.stride(0), f.stride(1)), kept.shape[1], lengths is not None
    if batch and n:
        kernels.gradient_kernel[(batch,)](
            *(
                f,
                rho,
                phi,
                gates,
                V,
                lengths,
                kept,
                symmetric,
                (G * last).sum((1, 2)),
                (G + G.mT).contiguous(),
            ),
            *(grad_f, d, grad_hidden, grad_V, *strides, n, k, EVERY, keeps),
            RAGGED=ragged,
            INITIAL=symmetric is not None,
            K=padded(k),
            **WARPS,
        )
        kernels.through_memory_kernel[(batch, keeps)](
            *(f, gates, lengths, kept, d, grad_f, *strides, n, k, keeps),
            RAGGED=ragged,
            L=EVERY,
            K=padded(k),
            PRECISION=precision_for(f.dtype),
            num_warps=8,
        )
    start = None if symmetric is None else initial_gradient(f, d, gates, lengths, G)
    return grad_hidden, grad_f, grad_V.sum(0), start


def initial_gradient(f: Tensor, d: Tensor, gates: Tensor, lengths: Tensor | None, G: Tensor) -> Tensor:
    """∂C₀ = ∏ α G + Σ_s (∏_{u<s} α_u) d_s f_sᵀ, transposed."""
    alpha, F = gates[..., 0], f.float()
    if lengths is not None:
        outside = torch.arange(f.shape[1], device=f.device) >= lengths[:, None]
        alpha, F = alpha.masked_fill(outside, 1), F.masked_fill(outside[:, :, None], 0)
    before, kept = decay_after(alpha.flip(1))
    return torch.baddbmm(kept[:, None, None] * G, (F * before.flip(1)[:, :, None]).mT, d.float())


def is_symmetric(memory: Memory) -> Tensor:
    """Which memories are symmetric up to rounding, as they are unless somebody made one by hand."""
    return ((memory - memory.mT).abs().amax((1, 2)) <= 1e-5 * memory.abs().amax((1, 2))).to(torch.int32)


def padded(k: int) -> int:
    """The next power of two, which is what a kernel's tensors can measure; a warp's 32 lanes at least."""
    return max(32, int(triton.next_power_of_2(k)))
