"""The adaptive scan for k > 128, where no memory fits on the chip: products by cuBLAS, gates by a kernel.

The same mathematics as `scan_kernels`, a chunk at a time for all documents: everything of size k is a matrix
product, and only `solve` looks at one token after the other. Memories and their gradients are transposed, as there.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from attar.ops.fused.decay import decay_after
from attar.ops.fused.solve import solve_gates, solve_gradients

CHUNK = 64


def read(
    hidden: Tensor, f: Tensor, V: Tensor, initial: Tensor | None, lengths: Tensor | None, training: bool
) -> tuple[Tensor, Tensor, Tensor | None, Tensor, Tensor | None]:
    """The last memory; for training also the gates, ρ, φ and a memory every `spacing` tokens."""
    batch, n, k = f.shape
    counts = torch.full((batch,), n, dtype=torch.int32, device=f.device) if lengths is None else lengths
    T = f.new_zeros(batch, k, k, dtype=torch.float32) if initial is None else initial
    gates, phi = hidden.new_empty(batch, n, 2), hidden.new_empty(batch, n)
    rho = torch.zeros_like(f, memory_format=torch.contiguous_format) if training else None
    kept = T.new_empty(batch, -(-n // spacing(k)), k, k) if training else None
    for start in range(0, n, CHUNK):
        part = slice(start, start + CHUNK)
        if kept is not None and start % spacing(k) == 0:
            kept[:, start // spacing(k)] = T
        F = states(f, part, counts)
        P, overlaps = F @ T, F @ F.mT
        solve(F, P, overlaps, V, hidden, counts, start, gates, phi)
        alphas, betas = gates[:, part].unbind(-1)
        if rho is not None:
            later, before = decays_between(alphas)
            history = later.mT * betas[:, None, :] * overlaps
            rho[:, part] = (phi[:, part, None] * torch.baddbmm(before[:, :, None] * P, history, F)).to(
                f.dtype
            )
        T = fold_in(T, F, alphas, betas)
    return T, gates, rho, phi, kept


def gradients(
    f: Tensor,
    V: Tensor,
    lengths: Tensor | None,
    last: Tensor,
    gates: Tensor,
    rho: Tensor,
    phi: Tensor,
    kept: Tensor,
    grad_last: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """∂(U h + b), ∂f, ∂V and ∂C₀."""
    batch, n, k = f.shape
    counts = torch.full((batch,), n, dtype=torch.int32, device=f.device) if lengths is None else lengths
    grad_hidden, grad_f, grad_V = torch.zeros_like(gates), torch.zeros_like(rho), torch.zeros_like(V)
    G, end = grad_last, last
    for segment in reversed(range(kept.shape[1])):
        first = segment * spacing(k)
        starts = memories_between(kept[:, segment], f, gates, counts, first, min(first + spacing(k), n))
        for place in reversed(range(len(starts))):
            start = first + place * CHUNK
            part, T = slice(start, start + CHUNK), starts[place]
            F, R = states(f, part, counts), states(rho, part, counts)
            dz, G, grad = chunk_gradient(F, R, T, end, G, V, gates[:, part], phi[:, part], counts, start)
            grad_hidden[:, part], grad_f[:, part] = dz, grad.to(f.dtype)
            grad_V += torch.einsum("bnc,bnk->ck", dz, R)
            end = T
    return grad_hidden, grad_f, grad_V, G


def chunk_gradient(
    F: Tensor,
    R: Tensor,
    T: Tensor,
    end: Tensor,
    G: Tensor,
    V: Tensor,
    gates: Tensor,
    phi: Tensor,
    counts: Tensor,
    start: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """∂z, the gradient of the memory before the chunk, and ∂f."""
    alphas, betas = gates.unbind(-1)
    Y, overlaps = F @ (G + G.mT), F @ F.mT
    dz, kappas = solve_back(F, R, Y, overlaps, V, gates, phi, (G * end).sum((1, 2)), counts, start)
    D = phi[:, :, None] * (dz @ V - kappas[:, :, None] * R)
    D = D.masked_fill(~inside(F, counts, start), 0)
    later, before = decays_between(alphas)
    along = F @ D.mT
    after, kept_share = decay_after(alphas)
    grad = torch.baddbmm(Y * after[:, :, None], later * overlaps, D)
    grad = betas[:, :, None] * torch.baddbmm(grad, later * along, F)
    through = torch.bmm(D, T.mT) * before[:, :, None]
    grad = grad + torch.baddbmm(through, later.mT * betas[:, None, :] * along.mT, F)
    G = torch.baddbmm(kept_share[:, None, None] * G, (F * before[:, :, None]).mT, D)
    return dz, G, grad


def memories_between(
    T: Tensor, f: Tensor, gates: Tensor, counts: Tensor, first: int, end: int
) -> list[Tensor]:
    """The memories at the starts of a segment's chunks, rebuilt from its first: the gates are known."""
    found = [T]
    for start in range(first, end - CHUNK, CHUNK):
        part = slice(start, start + CHUNK)
        found.append(fold_in(found[-1], states(f, part, counts), *gates[:, part].unbind(-1)))
    return found


def fold_in(T: Tensor, F: Tensor, alphas: Tensor, betas: Tensor) -> Tensor:
    """The memory after a chunk, its gates being known."""
    after, kept_share = decay_after(alphas)
    return torch.baddbmm(kept_share[:, None, None] * T, (F * (after * betas)[:, :, None]).mT, F)


def spacing(k: int) -> int:
    """Tokens between kept memories: k or more, so that they weigh no more than the states.

    >>> spacing(200)
    256
    """
    return CHUNK * -(-k // CHUNK)


def states(x: Tensor, part: slice, counts: Tensor) -> Tensor:
    """A chunk's rows in float32, 0 behind a document's end."""
    rows = x[:, part].float()
    return rows.masked_fill(~inside(rows, counts, part.start), 0)


def inside(rows: Tensor, counts: Tensor, start: int) -> Tensor:
    """Which rows of a chunk are tokens, [B, n, 1]."""
    return (start + torch.arange(rows.shape[1], device=rows.device) < counts[:, None])[:, :, None]


def decays_between(alphas: Tensor) -> tuple[Tensor, Tensor]:
    """∏_{t<u<s} α_u as [B, t, s] for t < s, else 0; and ∏_{u<s} α_u."""
    log = alphas.clamp_min(1e-37).log()
    logs = log.cumsum(1)
    before = logs - log
    return torch.exp(before[:, None, :] - logs[:, :, None]).triu(1), before.exp()


def solve(
    F: Tensor,
    P: Tensor,
    overlaps: Tensor,
    V: Tensor,
    hidden: Tensor,
    counts: Tensor,
    start: int,
    gates: Tensor,
    phi: Tensor,
) -> None:
    """Find a chunk's gates and φ, and write them to their places."""
    batch, rows, k = F.shape
    gates_kernel[(batch,)](
        *(overlaps, P @ F.mT, P.square().sum(-1), P @ V.T, F @ V.T, hidden, counts, gates, phi),
        *(start, rows, gates.shape[1], k),
        L=CHUNK,
        SETTLED=2e-7,
    )


def solve_back(
    F: Tensor,
    R: Tensor,
    Y: Tensor,
    overlaps: Tensor,
    V: Tensor,
    gates: Tensor,
    phi: Tensor,
    q: Tensor,
    counts: Tensor,
    start: int,
) -> tuple[Tensor, Tensor]:
    """∂z and κ of a chunk."""
    batch, rows, k = F.shape
    dz, kappas = F.new_empty(batch, rows, 2), F.new_empty(batch, rows)
    energies = (F * Y).sum(-1) / 2
    gradients_kernel[(batch,)](
        *(overlaps, F @ R.mT, energies, gates.contiguous(), phi.contiguous(), R @ V.T, F @ V.T, q, counts),
        *(dz, kappas, start, rows, k),
        L=CHUNK,
        SETTLED=2e-7,
    )
    return dz, kappas


@triton.jit
def gates_kernel(
    overlaps, readings, P2, PV, FV, hidden, counts, gates, phi, start, rows, n, k,
    L: tl.constexpr, SETTLED: tl.constexpr,
):  # fmt: skip
    """`solve_gates` for one document."""
    b = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, L)
    here, row = at < rows, b * rows + at
    token = b * n + start + at
    square, cell = here[:, None] & here[None, :], row[:, None] * rows + at[None, :]
    alphas, betas, phis = solve_gates(
        tl.load(overlaps + cell, square, 0.0), tl.load(readings + cell, square, 0.0), tl.load(P2 + row, here, 0.0),
        tl.load(PV + row * 2, here, 0.0), tl.load(PV + row * 2 + 1, here, 0.0),
        tl.load(FV + row * 2, here, 0.0), tl.load(FV + row * 2 + 1, here, 0.0),
        tl.load(hidden + token * 2, here, 0.0), tl.load(hidden + token * 2 + 1, here, 0.0),
        tl.minimum(tl.load(counts + b) - start, rows), k, L, SETTLED,
    )  # fmt: skip
    tl.store(gates + token * 2, alphas, here)
    tl.store(gates + token * 2 + 1, betas, here)
    tl.store(phi + token, phis, here)


@triton.jit
def gradients_kernel(
    overlaps, N, energies, gates, phi, RV, FV, q, counts, dz, kappas, start, rows, k,
    L: tl.constexpr, SETTLED: tl.constexpr,
):  # fmt: skip
    """`solve_gradients` for one document."""
    b = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, L)
    here, row = at < rows, b * rows + at
    square, cell = here[:, None] & here[None, :], row[:, None] * rows + at[None, :]
    z0, z1, kappa, _ = solve_gradients(
        tl.load(overlaps + cell, square, 0.0), tl.load(N + cell, square, 0.0), tl.load(energies + row, here, 0.0),
        tl.load(gates + row * 2, here, 1.0), tl.load(gates + row * 2 + 1, here, 0.0), tl.load(phi + row, here, 0.0),
        tl.load(RV + row * 2, here, 0.0), tl.load(RV + row * 2 + 1, here, 0.0),
        tl.load(FV + row * 2, here, 0.0), tl.load(FV + row * 2 + 1, here, 0.0),
        tl.load(q + b), tl.minimum(tl.load(counts + b) - start, rows), k, L, SETTLED,
    )  # fmt: skip
    tl.store(dz + row * 2, z0, here)
    tl.store(dz + row * 2 + 1, z1, here)
    tl.store(kappas + row, kappa, here)
