"""From the matrix to its triangle and back, differentiably, on any device."""

import functools
import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attar.errors import DtypeError, ShapeError
from attar.ops.checks import shape_of


def pack(memory: Float[Tensor, "*batch k k"]) -> Float[Tensor, "*batch p"]:
    """The lower triangle of each memory, row by row; what lies above the diagonal is not read.

    >>> pack(torch.tensor([[1.0, 2.0], [2.0, 5.0]])).tolist()
    [1.0, 2.0, 5.0]
    """
    check_real("memory", memory)
    if memory.ndim < 2 or memory.shape[-1] != memory.shape[-2] or memory.shape[-1] == 0:
        raise ShapeError("memory", "[..., k, k] with k ≥ 1", shape_of(memory))
    lower, _ = places(memory.shape[-1], memory.device)
    # index_select takes 1.3 ns a number here; indexing with rows and columns takes 4.
    return memory.flatten(-2).index_select(-1, lower)


def unpack(packed: Float[Tensor, "*batch p"]) -> Float[Tensor, "*batch k k"]:
    """The whole symmetric matrix of each packed memory.

    >>> unpack(torch.tensor([1.0, 2.0, 5.0])).tolist()
    [[1.0, 2.0], [2.0, 5.0]]
    """
    check_real("packed", packed)
    if packed.ndim < 1:
        raise ShapeError("packed", "[..., k(k+1)/2]", shape_of(packed))
    k = side_of(packed.shape[-1])
    _, whole = places(k, packed.device)
    return packed.index_select(-1, whole).view(*packed.shape[:-1], k, k)


def check_real(what: str, tensor: object) -> None:
    """Refuse what is not a tensor of real numbers."""
    if not isinstance(tensor, Tensor):
        raise DtypeError(what, "a tensor", type(tensor).__name__, "torch.as_tensor makes one")
    if not tensor.is_floating_point():
        raise DtypeError(what, "floating-point numbers", str(tensor.dtype), f"call {what}.float() first")


def side_of(p: int, what: str = "packed") -> int:
    """The k whose triangle holds p numbers.

    >>> side_of(5050)
    100
    """
    k = (math.isqrt(8 * p + 1) - 1) // 2
    if k < 1 or triangle_of(k) != p:
        fitting = triangle_of(max(k, 1))
        raise ShapeError(
            what, "k(k+1)/2 numbers", str(p), f"the nearest sizes are {fitting} and {fitting + max(k, 1) + 1}"
        )
    return k


def triangle_of(k: int) -> int:
    """How many numbers the triangle of a k × k matrix holds.

    >>> triangle_of(100)
    5050
    """
    return k * (k + 1) // 2


def places(k: int, device: torch.device) -> tuple[Int[Tensor, " p"], Int[Tensor, " kk"]]:
    """Where the triangle's numbers lie in the flat matrix, and where the matrix's lie in the triangle."""
    # A compiler makes constants of its own: it cannot share tensors with eager code.
    return make_places(k, device) if torch.compiler.is_compiling() else keep_places(k, device)


def corners(k: int, device: torch.device) -> tuple[Int[Tensor, " p"], Int[Tensor, " p"]]:
    """The row and the column of each number of the triangle.

    >>> [indices.tolist() for indices in corners(2, torch.device("cpu"))]
    [[0, 1, 1], [0, 0, 1]]
    """
    rows, columns = torch.tril_indices(k, k, device=device).unbind()
    return rows, columns


def make_places(k: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """The places, made now."""
    rows, columns = corners(k, device)
    side = torch.arange(k, device=device)
    larger, smaller = torch.maximum(side[:, None], side), torch.minimum(side[:, None], side)
    return rows * k + columns, (larger * (larger + 1) // 2 + smaller).flatten()


@functools.lru_cache(maxsize=32)
def keep_places(k: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """The places, made once for each size and device."""
    # Tensors made under inference_mode could not serve a backward pass later.
    with torch.inference_mode(False):
        return make_places(k, device)
