"""The adaptive scan on a GPU, with AffineGates: forward and backward exact, the memory on the chip for k ≤ 128.

One program per document keeps its memory in registers from the first token to the last. In forward, a step is
r = C f, the gates, C ← α C + β f fᵀ; in backward, with S = G + Gᵀ and d = ∂L/∂r,

    y = S f        e = fᵀ G f = y · f / 2        ∂f = β y + Cᵀ d        S ← α S + d fᵀ + f dᵀ

where ρ = φ r is the squashed reading (φ = 1 / √(1 + mean r²)), z the gates' logits, V and w their weights; without w:

    ∂z = ((q − β e)(1 − α),  e β (1 − β))        d = φ (Vᵀ ∂z − κ ρ)        κ = (V ρ) · ∂z / k
    q = ⟨G, C⟩,  which a step back turns into  q − β e + d · r,   d · r = φ² (V ρ) · ∂z

The energy's part, with u = f · r and its slope s = ‖f‖⁴ / (‖f‖⁴ + u)², is c = s (w · ∂z): c f is added to d, c u to
d · r, and c (r − 4 u f / ‖f‖²) to ∂f.

With q, ∂α needs no C_t, and the sigmoid's own α cancels the division: α ∂α = q − β e. It is summed again from every
kept memory. The part Cᵀ d of ∂f does not depend on the order of tokens and has a kernel of its own.
Matrices are stored transposed.
"""

from typing import Any

import torch
import triton
from torch import Tensor
from torch.autograd.function import once_differentiable

from attar.ops.reference import AffineGates
from attar.ops.triton import Maybe, contiguous_rows, kernel_lengths, precision_for
from attar.ops.triton.gates import decay_after
from attar.ops.triton.scan_kernels import gradient_kernel, read_kernel, through_memory_kernel

# Tokens between the memories that are kept for backward.
EVERY = 64
# The registers per thread: by default the assembler may choose 32 and spill the memory. More programs at a time
# (fewer registers), and more warps per program, were both slower on an H200.
WARPS = {"num_warps": 4, "maxnreg": 255}


def encode_adaptive(h: Tensor, f: Tensor, cell: AffineGates, mask: Maybe, initial: Maybe) -> Tensor:
    """The memory of each document."""
    if mask is not None:  # padding must not reach the gradients of U and b
        h = h.masked_fill(~mask[:, :, None], 0)
    initial = None if initial is None else initial.float()
    with torch.autocast(f.device.type, enabled=False):
        hidden, V = cell.of_hidden(h.float()), cell.read_weight.float()
        w = None if cell.energy_weight is None else cell.energy_weight.float()
        memory: Tensor = FusedScan.apply(hidden, f, V, w, initial, kernel_lengths(mask))
        return memory


class FusedScan(torch.autograd.Function):
    """The scan from U h + b on, which is differentiated outside."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, f: Tensor, V: Tensor, w: Maybe, initial: Maybe, lengths: Maybe
    ) -> Tensor:
        """C of each document; stored transposed, which without an initial memory is the same."""
        f, hidden, V = contiguous_rows(f), hidden.contiguous(), V.contiguous()
        w = None if w is None else w.contiguous()
        start = None if initial is None else initial.mT.contiguous()
        training = any(ctx.needs_input_grad)
        last, *saved = _read(hidden, f, V, w, start, lengths, training)
        if training:
            symmetric = None if initial is None else _is_symmetric(initial)
            ctx.save_for_backward(f, V, w, lengths, last, *saved, symmetric)
        return last if initial is None else last.mT

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """∂(U h + b), ∂f, ∂V, ∂w, ∂C₀."""
        f, V, w, lengths, last, gates, rho, phi, kept, symmetric = ctx.saved_tensors
        saved, G = (last, gates, rho, phi, kept), grad.float().mT
        with torch.autocast(f.device.type, enabled=False):
            *found, first = _gradients(f, V, w, lengths, *saved, symmetric, G)
        return *found, None if first is None or symmetric is None else first.mT, None


def _read(
    hidden: Tensor, f: Tensor, V: Tensor, w: Maybe, initial: Maybe, lengths: Maybe, training: bool
) -> tuple[Tensor, Maybe, Maybe, Maybe, Maybe]:
    """The last memory; for training also the gates, ρ, φ and the kept memories."""
    batch, n, k = f.shape
    keeps = triton.cdiv(n, EVERY)
    last = f.new_empty(batch, k, k, dtype=torch.float32)
    gates = rho = phi = kept = None
    if training:
        gates, phi = hidden.new_empty(batch, n, 2), hidden.new_empty(batch, n)
        kept = last.new_empty(batch, keeps, k, k)
        # Squashed readings stay below √k, so half precision is enough.
        rho = torch.empty_like(f, memory_format=torch.contiguous_format)
    if n == 0:
        last = torch.zeros_like(last) if initial is None else initial
    elif batch:
        read_kernel[(batch,)](
            *(f, hidden, V, w, None if w is None else fourth_powers(f), lengths, initial),
            *(last, gates, rho, phi, kept, f.stride(0), f.stride(1), n, k, EVERY, keeps),
            RAGGED=lengths is not None,
            INITIAL=initial is not None,
            TRAINING=training,
            ENERGY=w is not None,
            OWN=V.ndim == 3,
            K=_padded(k),
            **WARPS,
        )
    return last, gates, rho, phi, kept


def _gradients(
    f: Tensor, V: Tensor, w: Maybe, lengths: Maybe, last: Tensor, gates: Tensor, rho: Tensor, phi: Tensor,
    kept: Tensor, symmetric: Maybe, G: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Maybe, Maybe]:  # fmt: skip
    """∂(U h + b), ∂f, ∂V, ∂w, and ∂C₀ if there was a C₀; G and ∂C₀ are transposed, as `last` is."""
    batch, n, k = f.shape
    grad_hidden, grad_f, d = torch.zeros_like(gates), torch.zeros_like(rho), torch.zeros_like(rho)
    grad_V, grad_w = torch.zeros(batch, 2, k, device=f.device), torch.zeros(batch, 2, device=f.device)
    strides, keeps, ragged = (f.stride(0), f.stride(1)), kept.shape[1], lengths is not None
    overlap, both = (G * last).sum((1, 2)), (G + G.mT).contiguous()
    if batch and n:
        gradient_kernel[(batch,)](
            *(f, rho, phi, gates, V, w, None if w is None else fourth_powers(f), lengths, kept, symmetric),
            *(overlap, both, grad_f, d, grad_hidden, grad_V, grad_w, *strides, n, k, EVERY, keeps),
            RAGGED=ragged,
            INITIAL=symmetric is not None,
            ENERGY=w is not None,
            OWN=V.ndim == 3,
            K=_padded(k),
            **WARPS,
        )
        through_memory_kernel[(batch, keeps)](
            *(f, gates, lengths, kept, d, grad_f, *strides, n, k, keeps),
            RAGGED=ragged,
            L=EVERY,
            K=_padded(k),
            PRECISION=precision_for(f.dtype),
            num_warps=8,
        )
    start = None if symmetric is None else _initial_gradient(f, d, gates, lengths, G)
    if V.ndim == 2:
        grad_V, grad_w = grad_V.sum(0), grad_w.sum(0)
    return grad_hidden, grad_f, grad_V, None if w is None else grad_w, start


def fourth_powers(f: Tensor) -> Tensor:
    """‖f_t‖⁴ of each token."""
    powers: Tensor = torch.linalg.vector_norm(f, dim=-1, dtype=torch.float32).pow(4)
    return powers


def _initial_gradient(f: Tensor, d: Tensor, gates: Tensor, lengths: Maybe, G: Tensor) -> Tensor:
    """∂C₀ = ∏ α G + Σ_s (∏_{u<s} α_u) d_s f_sᵀ, transposed."""
    alpha, F = gates[..., 0], f.float()
    if lengths is not None:
        outside = torch.arange(f.shape[1], device=f.device) >= lengths[:, None]
        alpha, F = alpha.masked_fill(outside, 1), F.masked_fill(outside[:, :, None], 0)
    before, kept = decay_after(alpha.flip(1))
    return torch.baddbmm(kept[:, None, None] * G, (F * before.flip(1)[:, :, None]).mT, d.float())


def _is_symmetric(memory: Tensor) -> Tensor:
    """Which memories are symmetric up to rounding, as all are that were encoded."""
    return ((memory - memory.mT).abs().amax((1, 2)) <= 1e-5 * memory.abs().amax((1, 2))).to(torch.int32)


def _padded(k: int) -> int:
    """The next power of two, the size that a kernel's tensors must have; at least the 32 lanes of a warp."""
    return max(32, int(triton.next_power_of_2(k)))
