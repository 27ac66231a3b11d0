"""What the operations take, said once: wrong shapes, types, devices and lengths become one clear line."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attar.errors import DeviceError, DtypeError, ShapeError

Lengths = Tensor | list[int] | tuple[int, ...] | None


def accumulation_dtype(dtype: torch.dtype) -> torch.dtype:
    """The type that memories are summed and returned in: float64 stays, all else becomes float32.

    >>> accumulation_dtype(torch.bfloat16), accumulation_dtype(torch.float64)
    (torch.float32, torch.float64)
    """
    return torch.float64 if dtype == torch.float64 else torch.float32


def shape_of(tensor: Tensor) -> str:
    """A tensor's shape as people write it.

    >>> shape_of(torch.zeros(2, 3))
    '[2, 3]'
    """
    return str(list(tensor.shape))


def check_floats(what: str, tensor: object, axes: str) -> None:
    """Refuse what is not a tensor of real numbers with the axes named, such as "B n k"."""
    names = axes.split()
    wanted = f"[{', '.join(names)}]"
    if not isinstance(tensor, Tensor):
        raise DtypeError(what, f"a tensor {wanted}", type(tensor).__name__, "torch.as_tensor makes one")
    if not tensor.is_floating_point():
        raise DtypeError(what, "floating-point numbers", str(tensor.dtype), f"call {what}.float() first")
    if tensor.ndim != len(names):
        raise ShapeError(what, wanted, shape_of(tensor))


def check_shape(what: str, tensor: Tensor, shape: tuple[int, ...], remedy: str = "") -> None:
    """Refuse a tensor whose sizes are not exactly those."""
    if tuple(tensor.shape) != shape:
        raise ShapeError(what, str(list(shape)), shape_of(tensor), remedy)


def check_device(what: str, tensor: Tensor, beside: Tensor) -> None:
    """Refuse a tensor that lies elsewhere than the one it is used with."""
    if tensor.device != beside.device:
        raise DeviceError(
            what, f"a tensor on {beside.device}", str(tensor.device), f"call {what}.to(...) first"
        )


def check_gate(what: str, gate: Tensor | None, f: Tensor) -> None:
    """Refuse a gate that does not hold one number a token."""
    if gate is not None:
        check_floats(what, gate, "B n")
        check_shape(what, gate, tuple(f.shape[:2]), "a gate is one number a token")
        check_device(what, gate, f)


def check_initial(initial: Tensor | None, f: Tensor) -> None:
    """Refuse an initial memory that is not one k × k matrix a document."""
    if initial is not None:
        check_floats("initial", initial, "B k k")
        check_shape("initial", initial, (f.shape[0], f.shape[2], f.shape[2]), "it is one memory a document")
        check_device("initial", initial, f)


def mask_of(
    lengths: Lengths, hidden: Float[Tensor, "B n k"], what: str = "lengths"
) -> Bool[Tensor, "B n"] | None:
    """True where a document has a token; None where every document fills its row.

    >>> mask_of([2, 0], torch.zeros(2, 3, 1)).int().tolist()
    [[1, 1, 0], [0, 0, 0]]
    """
    if lengths is None:
        return None
    counts = counts_of(lengths, hidden, what)
    return torch.arange(hidden.shape[1], device=hidden.device) < counts[:, None]


def counts_of(
    lengths: Tensor | list[int] | tuple[int, ...], hidden: Float[Tensor, "B n k"], what: str = "lengths"
) -> Int[Tensor, " B"]:
    """The tokens of each document, beside its states; refused where a row has not as many.

    Lengths may lie on the CPU beside a GPU's states: then checking their range costs no synchronisation.
    """
    batch, n = hidden.shape[:2]
    counts = torch.as_tensor(lengths)
    if counts.numel() and (counts.is_floating_point() or counts.dtype == torch.bool):
        raise DtypeError(what, "whole numbers", str(counts.dtype))
    if tuple(counts.shape) != (batch,):
        raise ShapeError(what, f"[{batch}], one a document", shape_of(counts))
    # Reading values would break a compiled graph in two; a compiled model was checked when it ran eagerly.
    if not torch.compiler.is_compiling() and counts.numel():
        low, high = (int(bound) for bound in torch.aminmax(counts))
        if low < 0 or high > n:
            raise ShapeError(what, f"numbers from 0 to {n}", f"{low if low < 0 else high}")
    return counts.to(hidden.device, torch.int64, non_blocking=True)
