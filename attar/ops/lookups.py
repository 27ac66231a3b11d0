"""Lookups in whole matrices: R = C q in constant time, and softmax over all states for comparison."""

import torch
from jaxtyping import Float
from torch import Tensor

from attar.ops.checks import Lengths, check_device, check_floats, check_shape, length_mask


def lookup(memory: Float[Tensor, "B k d"], queries: Float[Tensor, "B m d"]) -> Float[Tensor, "B m k"]:
    """R = C q for every query of every document: O(k²) each, independent of the document's length.

    Readouts have the queries' dtype; the product is computed in the wider of the two.

    >>> lookup(torch.tensor([[[1.0, 2.0], [2.0, 5.0]]]), torch.tensor([[[1.0, 0.0]]])).tolist()
    [[[1.0, 2.0]]]
    """
    check_floats("memory", memory, "B k k")
    check_floats("queries", queries, "B m k")
    batch, _, size = memory.shape
    check_shape("queries", queries, (batch, queries.shape[1], size), "one row of queries per memory")
    check_device("queries", queries, memory)
    dtype = torch.promote_types(memory.dtype, queries.dtype)
    with torch.autocast(queries.device.type, enabled=False):
        return torch.bmm(queries.to(dtype), memory.mT.to(dtype)).to(queries.dtype)


def softmax_lookup(
    hidden: Float[Tensor, "B n k"], queries: Float[Tensor, "B m k"], *, lengths: Lengths = None
) -> Float[Tensor, "B m k"]:
    """R = Hᵀ softmax(H q): the paper's upper baseline, with all of H as its memory and a cost that grows with n.

    The readout of a document of no tokens is 0.

    >>> softmax_lookup(torch.tensor([[[1.0], [3.0]]]), torch.zeros(1, 1, 1)).tolist()
    [[[2.0]]]
    """
    check_floats("hidden", hidden, "B n k")
    check_floats("queries", queries, "B m k")
    batch, n, k = hidden.shape
    check_shape("queries", queries, (batch, queries.shape[1], k), "one row of queries per document")
    check_device("queries", queries, hidden)
    mask = length_mask(lengths, hidden)
    if n == 0 or queries.numel() == 0:
        return queries * 0
    hidden = hidden.to(queries.dtype)
    if mask is not None:
        hidden = hidden.masked_fill(~mask[:, :, None], 0)
    # A document of no tokens attends to its blank padding, which reads as 0.
    visible = None if mask is None else (mask | ~mask.any(1, keepdim=True))[:, None, :]
    return torch.nn.functional.scaled_dot_product_attention(queries, hidden, hidden, visible, scale=1.0)
