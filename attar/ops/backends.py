"""Which implementation runs: the reference loops, torch everywhere, or Triton on a GPU."""

import functools
import importlib.util
import os
import warnings

import torch
from torch import Tensor

from attar.errors import DeviceError, DtypeError, MissingError, OptionError

BACKENDS = ("auto", "reference", "torch", "triton")
TRITON_IS_INSTALLED = importlib.util.find_spec("triton") is not None
TRITON_DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def choose_backend(asked: str, tensor: Tensor) -> str:
    """The backend that will run: what was asked for, or the fastest one that takes this tensor.

    >>> choose_backend("auto", torch.zeros(2, 3, 4))
    'torch'
    """
    if asked not in BACKENDS:
        raise OptionError("backend", "one of " + ", ".join(BACKENDS), repr(asked))
    if asked == "triton":
        require_triton(tensor)
    if asked != "auto":
        return asked
    if tensor.device.type != "cuda" or tensor.dtype not in TRITON_DTYPES:
        return "torch"
    if not TRITON_IS_INSTALLED:
        warn_once("Triton is not installed: the slower torch backend runs; pip install 'attar[gpu]'")
        return "torch"
    return "triton"


def require_triton(tensor: Tensor) -> None:
    """Refuse what Triton kernels cannot run on."""
    if not TRITON_IS_INSTALLED:
        raise MissingError("backend 'triton'", "the package triton", "none", "pip install 'attar[gpu]'")
    if tensor.device.type != "cuda" and not interpreting():
        raise DeviceError(
            "backend 'triton'", "tensors on a CUDA device", str(tensor.device), "use backend='torch'"
        )
    if tensor.dtype not in TRITON_DTYPES:
        wanted = "float32, float16 or bfloat16"
        raise DtypeError("backend 'triton'", wanted, str(tensor.dtype), "use backend='torch'")


def interpreting() -> bool:
    """Whether Triton runs its kernels in Python on the CPU, as the tests do where there is no GPU."""
    return os.environ.get("TRITON_INTERPRET") == "1"


@functools.cache
def warn_once(message: str) -> None:
    """Say it the first time only."""
    warnings.warn(message, RuntimeWarning, stacklevel=4)
