"""Lookups in whole matrices: R = C q in constant time, with a ridge or without, and softmax over all states."""

import torch
from jaxtyping import Float
from torch import Tensor

from attar.errors import ShapeError
from attar.ops import checks

# λ of a ridge readout, compared with the mean of G's diagonal. The same as in `attar.memory`, which needs no torch.
RIDGE = 0.1


def lookup(memory: Float[Tensor, "B k d"], queries: Float[Tensor, "B m k"]) -> Float[Tensor, "B m d"]:
    """R = Cᵀ q for every query of every document: O(k d) each, independent of the document's length.

    Queries meet the rows of C = Σ key valueᵀ, its keys. A symmetric C, with keys that are their own values, is the
    paper's: R = C q. Readouts have the queries' dtype; the product is computed in the wider of the two.

    >>> lookup(torch.tensor([[[1.0, 2.0], [2.0, 5.0]]]), torch.tensor([[[1.0, 0.0]]])).tolist()
    [[[1.0, 2.0]]]
    """
    checks.check_floats("memory", memory, "B k d")
    checks.check_floats("queries", queries, "B m k")
    batch, size, _ = memory.shape
    checks.check_shape("queries", queries, (batch, queries.shape[1], size), "one row of queries per memory")
    checks.check_device("queries", queries, memory)
    dtype = torch.promote_types(memory.dtype, queries.dtype)
    with checks.without_autocast(queries):
        return torch.bmm(queries.to(dtype), memory.to(dtype)).to(queries.dtype)


def ridge_solution(memory: Float[Tensor, "B k dk"], *, ridge: float = RIDGE) -> Float[Tensor, "B k d"]:
    """(G + λI)⁻¹ C of a memory `[C, G]`: C = Σ key valueᵀ `[k, d]` next to G = Σ key keyᵀ `[k, k]`.

    λ is `ridge` times the mean of G's diagonal, so that it grows with what is written. Without G, values with similar
    keys would drown each other. C and G are sums, so memories add up; this is computed once per document for all of
    its queries. It is 0 for an empty memory.

    >>> ridge_solution(torch.tensor([[[4.0, 1.0]]]), ridge=1.0).tolist()
    [[[2.0]]]
    """
    checks.check_floats("memory", memory, "B k dk")
    _, k, width = memory.shape
    if width < k:
        raise ShapeError.expected("memory", f"[B, {k}, d + {k}], C next to G", checks.shape_of(memory))
    with checks.without_autocast(memory):
        C, G = torch.tensor_split(memory.to(checks.accumulation_dtype(memory.dtype)), (width - k,), 2)
        trace = G.diagonal(dim1=-2, dim2=-1).sum(-1).clamp(min=1e-6)
        diagonal = (ridge / k * trace)[:, None, None] * torch.eye(k, dtype=G.dtype, device=G.device)
        solution: Tensor = torch.linalg.solve(G + diagonal, C)
        return solution


def softmax_lookup(
    hidden: Float[Tensor, "B n k"], queries: Float[Tensor, "B m k"], *, lengths: checks.Lengths = None
) -> Float[Tensor, "B m k"]:
    """R = Hᵀ softmax(H q): the paper's upper baseline, with all of H as its memory and a cost that grows with n.

    The readout of a document of no tokens is 0.

    >>> softmax_lookup(torch.tensor([[[1.0], [3.0]]]), torch.zeros(1, 1, 1)).tolist()
    [[[2.0]]]
    """
    checks.check_floats("hidden", hidden, "B n k")
    checks.check_floats("queries", queries, "B m k")
    batch, n, k = hidden.shape
    checks.check_shape("queries", queries, (batch, queries.shape[1], k), "one row of queries per document")
    checks.check_device("queries", queries, hidden)
    mask = checks.length_mask(lengths, hidden)
    if n == 0 or queries.numel() == 0:
        return queries * 0
    hidden = hidden.to(queries.dtype)
    if mask is not None:
        hidden = hidden.masked_fill(~mask[:, :, None], 0)
    # A document of no tokens attends to its blank padding, which reads as 0.
    visible = None if mask is None else (mask | ~mask.any(1, keepdim=True))[:, None, :]
    return torch.nn.functional.scaled_dot_product_attention(queries, hidden, hidden, visible, scale=1.0)
