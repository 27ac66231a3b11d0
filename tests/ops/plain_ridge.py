"""The ridge readout with an inverse, as it is written down: what solves of a system are compared with."""

import torch


def plain_ridge(memory, q, ridge):
    """R = Cᵀ (G + λI)⁻¹ q, with λ = ridge · trace(G) / k; 0 where nothing was written."""
    k = q.shape[2]
    C, G = memory[:, :, :-k], memory[:, :, -k:]
    trace = torch.einsum("bii->b", G)
    ridges = torch.where(trace > 0, ridge * trace / k, 1)
    inverse = torch.linalg.inv(G + ridges[:, None, None] * torch.eye(k, dtype=G.dtype))
    # G is symmetric: this is the order of the indices of (q · inverse) C.
    return torch.einsum("bkd,bjk,bmj->bmd", C, inverse, q)
