"""Triton kernels with the signatures of the torch backend, and what their launches share. Imported when first used."""

import math

import torch
from torch import Tensor

from attar.ops.checks import LARGEST_ON_CHIP as LARGEST_ON_CHIP

Maybe = Tensor | None


def precision_for(dtype: torch.dtype) -> str:
    """How products of float32 are computed: three tf32 products for float32 inputs, one for half precision.

    Half-precision values are exact in tf32; float32 takes three tf32 products, unless torch allows one.
    """
    exact = dtype == torch.float32 and not torch.backends.cuda.matmul.allow_tf32
    return "tf32x3" if exact else "tf32"


def alignment(*sizes: int) -> int:
    """The largest power of two up to 16 that divides all sizes: the width that loads may have.

    Kernels take their sizes divided by it and multiply it back, which tells their compiler.

    >>> alignment(100, 75000), alignment(128)
    (4, 16)
    """
    common = math.gcd(16, *sizes)
    return common & -common


def contiguous_rows(x: Tensor) -> Tensor:
    """The states `[B, n, k]` with the values of each row adjacent in memory, as the kernels read them."""
    return x if x.stride(2) == 1 or x.shape[2] == 1 else x.contiguous()


def kernel_lengths(mask: Maybe) -> Maybe:
    """The number of tokens per document, as the kernels take it."""
    return None if mask is None else mask.sum(1, dtype=torch.int32)
