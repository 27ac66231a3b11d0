"""Numbers where they lie: numpy arrays, torch CPU tensors and raw bytes, seen as arrays without a copy."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from attar.errors import DeviceError, DtypeError, OptionError, ShapeError
from attar.ops.packed.blas import KERNELS, Array

# Raw bytes, such as a store's read-only memoryview, hold numbers of the query's type.
Bytes: TypeAlias = memoryview | bytes | bytearray
Buffer: TypeAlias = npt.NDArray[Any] | Tensor | Bytes

BYTES = (memoryview, bytes, bytearray)

# What a memoryview says that it holds: bytes, or numbers of the type itself.
FORMATS = {"f": ("B", "f"), "d": ("B", "d")}


def array_of(what: str, numbers: object, dtype: np.dtype[Any] | None = None) -> Array:
    """The numbers as an array over the same memory: float32 or float64, in order and without gaps.

    >>> array_of("packed", memoryview(bytes(8)), np.dtype(np.float32)).tolist()
    [0.0, 0.0]
    """
    if not isinstance(numbers, np.ndarray):
        numbers = array_over(what, numbers, dtype)
    found = numbers.dtype
    if found is not dtype and found not in KERNELS:
        raise DtypeError(what, "float32 or float64", str(found), "convert it when it is stored")
    if dtype is not None and found != dtype:
        raise DtypeError(what, f"{dtype} as the others", str(found), "convert one of them")
    if not numbers.flags.c_contiguous:
        remedy = "it is used in place: store it in order"
        raise ShapeError(what, "numbers without gaps", f"strides {list(numbers.strides)}", remedy)
    return numbers


def array_over(what: str, numbers: object, dtype: np.dtype[Any] | None) -> Array:
    """What is not an array itself as one."""
    if isinstance(numbers, BYTES):
        return array_of_bytes(what, numbers, dtype or np.dtype(np.float32))
    if isinstance(numbers, Tensor):
        return array_of_tensor(what, numbers)
    wanted = "a numpy array, a torch tensor or a buffer"
    raise DtypeError(what, wanted, type(numbers).__name__, "np.asarray makes one")


def array_of_tensor(what: str, tensor: Tensor) -> Array:
    """A CPU tensor's own memory as an array."""
    if not tensor.is_cpu:
        remedy = "call .cpu() first, or use attar.ops.lookup there"
        raise DeviceError(what, "a tensor on the CPU", str(tensor.device), remedy)
    if tensor.dtype not in (torch.float32, torch.float64):
        raise DtypeError(what, "float32 or float64", str(tensor.dtype), f"call {what}.float() first")
    if tensor.requires_grad:
        remedy = "call .detach(), or use unpack and attar.ops.lookup, which differentiate"
        raise DtypeError(what, "a tensor without gradient", "requires_grad=True", remedy)
    array: Array = tensor.numpy()
    return array


def array_of_bytes(what: str, numbers: Bytes, dtype: np.dtype[Any]) -> Array:
    """Raw bytes as an array of the type."""
    if isinstance(numbers, memoryview) and numbers.format not in FORMATS[dtype.char]:
        raise DtypeError(what, f"bytes of {dtype}", f"a buffer of format {numbers.format!r}")
    try:
        return np.frombuffer(numbers, dtype)
    except ValueError as problem:  # an odd number of bytes, none, or gaps between them
        wanted = f"numbers of {dtype.itemsize} bytes without gaps"
        raise ShapeError(what, wanted, f"{memoryview(numbers).nbytes} bytes", str(problem)) from None


def in_step(array: Array) -> Array:
    """The array where a processor may read it: itself, or a copy of bytes at an odd address."""
    return array if array.flags.aligned else array.copy()


def writable(what: str, array: Array) -> Array:
    """The array, if it may be written in place."""
    if not array.flags.writeable:
        raise OptionError(what, "memory that may be written", "read-only memory", "update a copy of it")
    if not array.flags.aligned:
        remedy = f"store it at a multiple of {array.itemsize} bytes"
        raise OptionError(what, "numbers in step with memory", "an odd address", remedy)
    return array


def places_of(documents: Sequence[int] | Array | Tensor, count: int) -> list[int]:
    """Document indices as a list, all within the count.

    >>> places_of(np.array([2, 0]), 3)
    [2, 0]
    """
    indices = np.asarray(documents)
    if indices.ndim != 1:
        raise ShapeError("documents", "[m], one a query", str(list(indices.shape)))
    if indices.size and indices.dtype.kind not in "iu":
        raise DtypeError("documents", "whole numbers", str(indices.dtype))
    if indices.size and (indices.min() < 0 or indices.max() >= count):
        wrong = indices.min() if indices.min() < 0 else indices.max()
        raise ShapeError("documents", f"numbers from 0 to {count - 1}", str(wrong))
    found: list[int] = indices.tolist()
    return found
