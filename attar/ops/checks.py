"""What operations accept: shapes, dtypes, devices, lengths and backends. Each mistake is one clear line."""

import functools
import importlib.util
import os
import warnings
from contextlib import AbstractContextManager, nullcontext
from typing import Literal, get_args

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attar.errors import DeviceError, DtypeError, MissingError, OptionError, ShapeError, install_command

Device = torch.device | str | int | None
Dtype = torch.dtype | None
Lengths = Tensor | list[int] | tuple[int, ...] | None
# The plain loops, PyTorch's operations on any device, or Triton kernels on a GPU.
Backend = Literal["auto", "reference", "torch", "triton"]
BACKENDS = get_args(Backend)
TRITON_IS_INSTALLED = importlib.util.find_spec("triton") is not None
# A k × k sum in float32 fills the registers of one program at k = 128; larger ones are computed in tiles, or by torch.
LARGEST_ON_CHIP = 128
TRITON_DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def accumulation_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype that memories are summed and returned in: float64 stays, all else becomes float32.

    >>> accumulation_dtype(torch.bfloat16), accumulation_dtype(torch.float64)
    (torch.float32, torch.float64)
    """
    return torch.float64 if dtype == torch.float64 else torch.float32


def shape_of(tensor: Tensor) -> str:
    """A tensor's shape for messages.

    >>> shape_of(torch.zeros(2, 3))
    '[2, 3]'
    """
    return str(list(tensor.shape))


def is_traced() -> bool:
    """Whether a compiler or a transform of torch.func (vmap, jvp) runs this: values cannot be read then."""
    return torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()


def is_transformed() -> bool:
    """Whether a transform of torch.func or forward-mode differentiation runs this: only plain operations pass it."""
    return torch._C._are_functorch_transforms_active() or torch.autograd.forward_ad._current_level >= 0


def is_batched(gradient: Tensor) -> bool:
    """Whether it stands for several gradients: those of vmap, or of `is_grads_batched`."""
    batched = torch._C._functorch
    return batched.is_batchedtensor(gradient) or batched.is_legacy_batchedtensor(gradient)


def without_autocast(tensor: Tensor) -> AbstractContextManager[object]:
    """Full precision inside; devices without autocast, such as "meta", have nothing to switch off."""
    kind = tensor.device.type
    available = torch.amp.autocast_mode.is_autocast_available(kind)
    return torch.autocast(kind, enabled=False) if available else nullcontext()


def check_size(what: str, size: object, least: int = 1) -> None:
    """Refuse a size that is not a whole number from `least` up."""
    if isinstance(size, bool) or not isinstance(size, int) or size < least:
        raise OptionError.expected(what, f"a whole number from {least} up", repr(size))


def check_real(what: str, tensor: object, form: str = "a tensor") -> None:
    """Refuse what is not a floating-point tensor."""
    if not isinstance(tensor, Tensor):
        raise DtypeError.expected(what, form, type(tensor).__name__, "torch.as_tensor makes one")
    if not tensor.is_floating_point():
        raise DtypeError.expected(
            what, "floating-point numbers", str(tensor.dtype), f"call {what}.float() first"
        )


def check_floats(what: str, tensor: object, axes: str) -> None:
    """Refuse what is not a floating-point tensor with the named dimensions, such as "B n k"."""
    names = axes.split()
    shape = f"[{', '.join(names)}]"
    check_real(what, tensor, f"a tensor {shape}")
    if isinstance(tensor, Tensor) and tensor.ndim != len(names):
        raise ShapeError.expected(what, shape, shape_of(tensor))


def check_shape(what: str, tensor: Tensor, shape: tuple[int, ...], remedy: str = "") -> None:
    """Refuse a tensor of another shape."""
    if tuple(tensor.shape) != shape:
        raise ShapeError.expected(what, str(list(shape)), shape_of(tensor), remedy)


def check_symmetric(what: str, memory: Tensor, remedy: str) -> None:
    """Refuse matrices that are not symmetric up to rounding: half of them would be lost."""
    if is_traced() or memory.is_meta or memory.numel() == 0:
        return
    difference = (memory - memory.mT).abs().flatten(-2).amax(-1)
    # Written with >, so that NaN passes and is seen in the readouts.
    allowed = max(1e-4, 8 * torch.finfo(memory.dtype).eps) * memory.abs().flatten(-2).amax(-1)
    if bool((difference > allowed).any()):
        raise ShapeError.expected(what, "a symmetric matrix", "one that is not", remedy)


def check_device(what: str, tensor: Tensor, other: Tensor) -> None:
    """Refuse a tensor on another device than the one it is used with."""
    if tensor.device != other.device:
        remedy = f"call {what}.to(...) first"
        raise DeviceError.expected(what, f"a tensor on {other.device}", str(tensor.device), remedy)


def check_gate(what: str, gate: Tensor | None, f: Tensor) -> None:
    """Refuse a gate that does not have one value per token."""
    if gate is not None:
        check_floats(what, gate, "B n")
        check_shape(what, gate, tuple(f.shape[:2]), "a gate is one number per token")
        check_device(what, gate, f)


def check_initial(initial: Tensor | None, f: Tensor) -> None:
    """Refuse an initial memory that is not one k × k matrix per document."""
    if initial is not None:
        check_floats("initial", initial, "B k k")
        check_shape("initial", initial, (f.shape[0], f.shape[2], f.shape[2]), "it is one memory per document")
        check_device("initial", initial, f)


def length_mask(
    lengths: Lengths, hidden: Float[Tensor, "B n k"], what: str = "lengths"
) -> Bool[Tensor, "B n"] | None:
    """True where a document has a token; None where every document fills its row.

    >>> length_mask([2, 0], torch.zeros(2, 3, 1)).int().tolist()
    [[1, 1, 0], [0, 0, 0]]
    """
    if lengths is None:
        return None
    counts = token_counts(lengths, hidden, what)
    return torch.arange(hidden.shape[1], device=hidden.device) < counts[:, None]


def token_counts(
    lengths: Tensor | list[int] | tuple[int, ...], hidden: Float[Tensor, "B n k"], what: str = "lengths"
) -> Int[Tensor, " B"]:
    """The tokens per document, on the device of its states; refused where a row has fewer.

    Lengths may be on the CPU while the states are on a GPU: checking their range then needs no synchronisation.
    """
    batch, n = hidden.shape[:2]
    counts = whole_numbers(what, lengths)
    if tuple(counts.shape) != (batch,):
        raise ShapeError.expected(what, f"[{batch}], one per document", shape_of(counts))
    # Reading values would break a compiled graph in two; a compiled model was checked when it ran eagerly.
    if counts.numel() and not is_traced() and not counts.is_meta:
        low, high = (int(bound) for bound in torch.aminmax(counts))
        if low < 0 or high > n:
            raise ShapeError.expected(what, f"numbers from 0 to {n}", f"{low if low < 0 else high}")
    return counts.to(hidden.device, torch.int64, non_blocking=True)


def whole_numbers(what: str, numbers: object) -> Tensor:
    """A tensor of numbers, of which fractions, booleans and other objects are refused."""
    try:
        found = torch.as_tensor(numbers)
    except (TypeError, ValueError, RuntimeError):
        raise DtypeError.expected(what, "whole numbers", repr(numbers)[:80]) from None
    if found.numel() and (found.is_floating_point() or found.dtype == torch.bool):
        raise DtypeError.expected(what, "whole numbers", str(found.dtype))
    return found


def check_backend(name: str) -> None:
    """Refuse an unknown backend."""
    if name not in BACKENDS:
        raise OptionError.expected("backend", "one of " + ", ".join(BACKENDS), repr(name))


def choose_backend(name: str, tensor: Tensor) -> str:
    """The backend that will run: the named one, or for "auto" the fastest that accepts this tensor.

    >>> choose_backend("auto", torch.zeros(2, 3, 4))
    'torch'
    """
    check_backend(name)
    if name == "triton":
        _require_triton(tensor)
    if name != "auto":
        return name
    if tensor.device.type != "cuda" or tensor.dtype not in TRITON_DTYPES or is_transformed():
        return "torch"
    if not TRITON_IS_INSTALLED:
        _warn_once(f"Triton is not installed: the slower torch backend runs; {install_command('gpu')}")
        return "torch"
    return "triton"


def _require_triton(tensor: Tensor) -> None:
    """Refuse what Triton kernels cannot run on; its interpreter (TRITON_INTERPRET=1, for tests) takes CPU tensors."""
    what, remedy = "backend 'triton'", "use backend='torch'"
    if not TRITON_IS_INSTALLED:
        raise MissingError.expected(what, "the package triton", "none", install_command("gpu"))
    if tensor.device.type != "cuda" and os.environ.get("TRITON_INTERPRET") != "1":
        raise DeviceError.expected(what, "tensors on a CUDA device", str(tensor.device), remedy)
    if tensor.dtype not in TRITON_DTYPES:
        raise DtypeError.expected(what, "float32, float16 or bfloat16", str(tensor.dtype), remedy)


@functools.cache
def _warn_once(message: str) -> None:
    """Warn the first time only."""
    warnings.warn(message, RuntimeWarning, stacklevel=4)
