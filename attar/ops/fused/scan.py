"""The adaptive scan on a GPU, with AffineGates: forward and backward exact, the memory on the chip for k ≤ 128."""

from typing import Any

import torch
import triton
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from attar.ops.fused import scan_kernels as kernels
from attar.ops.fused import wide
from attar.ops.fused.gram import lengths_of
from attar.ops.fused.gram_kernels import LARGEST_ON_CHIP, precision_for, rows_together
from attar.ops.gates import AffineGates
from attar.ops.gram import Mask, Memory

# Tokens whose gates are solved together, and tokens between the memories that are kept for backward.
CHUNK, EVERY = 16, 64


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
        hidden = cell.of_hidden(h.float())
    tensors = hidden, f, cell.read_weight.float(), None if initial is None else initial.float(), lengths_of(mask)
    memory: Tensor = FusedScan.apply(*tensors)  # type: ignore[no-untyped-call]
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
        last, *saved = read(hidden, f, V, start, lengths, any(ctx.needs_input_grad))
        ctx.save_for_backward(f, V, lengths, last, *saved)
        ctx.has_start = initial is not None
        return last.mT if ctx.has_start else last

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """∂(U h + b), ∂f, ∂V, ∂C₀."""
        f, V, lengths, *saved = ctx.saved_tensors
        gradients = wide.gradients if f.shape[2] > LARGEST_ON_CHIP else gradients_on_chip
        G = grad.float().mT.contiguous()
        grad_hidden, grad_f, grad_V, start = gradients(f, V, lengths, *saved, G)
        return grad_hidden, grad_f, grad_V, start.mT if ctx.has_start else None, None


def read_on_chip(
    hidden: Tensor, f: Tensor, V: Tensor, initial: Tensor | None, lengths: Tensor | None, training: bool
) -> tuple[Tensor, ...]:
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
            L=CHUNK,
            **shape_for(f),
        )
    return (last, gates, rho, phi, kept) if training else (last,)


def gradients_on_chip(
    f: Tensor,
    V: Tensor,
    lengths: Tensor | None,
    last: Tensor,
    gates: Tensor,
    rho: Tensor,
    phi: Tensor,
    kept: Tensor,
    G: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """∂(U h + b), ∂f, ∂V and ∂C₀; G and ∂C₀ are transposed, as `last` is."""
    batch, n, k = f.shape
    grad_hidden, grad_f, d = torch.zeros_like(gates), torch.zeros_like(rho), torch.empty_like(rho)
    grad_V, grad_initial = torch.zeros(batch, 2, k, device=f.device), torch.empty_like(G)
    if batch == 0 or n == 0:
        return grad_hidden, grad_f, grad_V.sum(0), G
    strides, keeps, ragged, shape = (f.stride(0), f.stride(1)), kept.shape[1], lengths is not None, shape_for(f)
    overlap = torch.linalg.vecdot(G.flatten(1), last.flatten(1))
    kernels.gradient_kernel[(batch,)](
        *(f, rho, phi, gates, V, lengths, kept, overlap, G, grad_f, d, grad_hidden, grad_V, grad_initial),
        *(*strides, n, k, EVERY, keeps),
        RAGGED=ragged,
        L=CHUNK,
        **shape,
    )
    kernels.through_memory_kernel[(batch, keeps)](
        *(f, gates, lengths, kept, d, grad_f, *strides, n, k, keeps),
        RAGGED=ragged,
        L=EVERY,
        **shape,
    )
    return grad_hidden, grad_f, grad_V.sum(0), grad_initial


def shape_for(f: Tensor) -> dict[str, Any]:
    """The memory's padded size, how products are made, and by how many warps."""
    K = max(16, triton.next_power_of_2(f.shape[2]))
    return {"K": K, "PRECISION": precision_for(f.dtype), "num_warps": 4 if K <= 64 else 8}
