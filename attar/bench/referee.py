"""How far a result lies from the float64 referee's."""

from collections.abc import Sequence

import torch
from torch import Tensor


def distance(found: Tensor, expected: Tensor) -> float:
    """The worst document's ‖found − expected‖ / ‖expected‖, in float64.

    >>> distance(torch.tensor([[3.0, 4.0]]), torch.tensor([[3.0, 5.0]])) == 1 / 34**0.5
    True
    """
    if found.shape != expected.shape:
        return float("inf")
    difference = (found.detach().double() - expected.detach().double().to(found.device)).flatten(1)
    size = expected.detach().double().flatten(1).norm(dim=1).to(found.device)
    errors = difference.norm(dim=1) / size.clamp_min(torch.finfo(torch.float64).tiny)
    return float(errors.max()) if errors.isfinite().all() else float("inf")


def worst_distance(found: Sequence[Tensor], expected: Sequence[Tensor]) -> float:
    """The largest of several distances."""
    return max(distance(f, e) for f, e in zip(found, expected, strict=True))


def tolerance_of(dtype: torch.dtype) -> float:
    """What rounding once to the type may cost, with room for long sums in float32.

    >>> tolerance_of(torch.bfloat16), tolerance_of(torch.float32)
    (0.0078125, 1e-05)
    """
    return max(torch.finfo(dtype).eps, 1e-5)


def sampled(tensor: Tensor, count: int = 8) -> Tensor:
    """A few documents out of a batch, spread over it: float64 loops over all of them would not fit."""
    return tensor[:: max(1, tensor.shape[0] // count)]
