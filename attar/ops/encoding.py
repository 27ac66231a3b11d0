"""The doors: what callers use to write memories. Each checks its arguments and hands over to a backend."""

from types import ModuleType
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from attar.errors import OptionError
from attar.ops import checks, gram, reference, scan
from attar.ops.backends import choose_backend
from attar.ops.gates import AffineGates, Cell

Backend = Literal["auto", "reference", "torch", "triton"]


def encode(
    f: Float[Tensor, "B n k"],
    *,
    alpha: Float[Tensor, "B n"] | None = None,
    beta: Float[Tensor, "B n"] | None = None,
    lengths: checks.Lengths = None,
    initial: Float[Tensor, "B k k"] | None = None,
    backend: Backend = "auto",
) -> Float[Tensor, "B k k"]:
    """The memory C ← α_t C + β_t f_t f_tᵀ of each document, as one weighted Gram product.

    α and β default to 1. `lengths` says how many tokens each document has; what lies behind them is not read.
    `initial` is a memory to go on from. Sums are float32 (float64 for float64), and so is the memory.

    >>> encode(torch.tensor([[[1.0, 2.0], [0.0, 1.0]]]))[0].tolist()
    [[1.0, 2.0], [2.0, 5.0]]
    """
    checks.check_floats("f", f, "B n k")
    checks.check_gate("alpha", alpha, f)
    checks.check_gate("beta", beta, f)
    checks.check_initial(initial, f)
    mask = checks.mask_of(lengths, f)
    memory: Tensor = gram_of(choose_backend(backend, f)).encode(f, alpha, beta, mask, initial)
    return memory


def encode_gated(
    h: Float[Tensor, "B n k"],
    weight: Float[Tensor, "k k"],
    bias: Float[Tensor, " k"],
    *,
    alpha: Float[Tensor, "B n"] | None = None,
    beta: Float[Tensor, "B n"] | None = None,
    lengths: checks.Lengths = None,
    initial: Float[Tensor, "B k k"] | None = None,
    backend: Backend = "auto",
) -> Float[Tensor, "B k k"]:
    """`encode` of f = σ(W h + b) ⊙ h, the paper's experiment; on a GPU f never leaves the chip.

    >>> W, b = torch.zeros(2, 2), torch.zeros(2)  # every gate half open
    >>> encode_gated(torch.tensor([[[2.0, 4.0]]]), W, b)[0].tolist()
    [[1.0, 2.0], [2.0, 4.0]]
    """
    checks.check_floats("h", h, "B n k")
    k = h.shape[2]
    for what, tensor, shape in (("weight", weight, (k, k)), ("bias", bias, (k,))):
        checks.check_floats(what, tensor, "k k" if len(shape) == 2 else "k")
        checks.check_shape(what, tensor, shape, f"the gate of states of size {k}")
        checks.check_device(what, tensor, h)
    checks.check_gate("alpha", alpha, h)
    checks.check_gate("beta", beta, h)
    checks.check_initial(initial, h)
    mask = checks.mask_of(lengths, h)
    name = choose_backend(backend, h)
    if name == "triton":
        memory: Tensor = gram_of(name).encode_gated(h, weight, bias, alpha, beta, mask, initial)
    else:
        # What lies in padding must not meet the gate: 0 · NaN would reach the gradients of W and b.
        h = h if mask is None else h.masked_fill(~mask[:, :, None], 0)
        memory = gram_of(name).encode(gated(h, weight, bias), alpha, beta, mask, initial)
    return memory


def encode_adaptive(
    h: Float[Tensor, "B n d"],
    f: Float[Tensor, "B n k"],
    cell: Cell,
    *,
    lengths: checks.Lengths = None,
    initial: Float[Tensor, "B k k"] | None = None,
    backward: Literal["checkpoint", "invert"] = "checkpoint",
    digits: float = 4.0,
    backend: Backend = "auto",
) -> Float[Tensor, "B k k"]:
    """The memory whose gates look at it: α_t, β_t = cell(h_t, C_t f_t).

    `backward="checkpoint"` keeps a memory every so many tokens and rebuilds the others forwards;
    `backward="invert"` rebuilds them backwards from the last one, the paper's way, and keeps one only where
    undoing the decay would leave fewer than `digits` correct decimal digits.

    >>> always = lambda h, reading: (torch.ones(1), torch.ones(1))
    >>> encode_adaptive(torch.zeros(1, 2, 1), torch.tensor([[[1.0, 2.0], [0.0, 1.0]]]), always)[0].tolist()
    [[1.0, 2.0], [2.0, 5.0]]
    """
    checks.check_floats("h", h, "B n d")
    checks.check_floats("f", f, "B n k")
    checks.check_shape("h", h, (*f.shape[:2], h.shape[2]), "h and f hold the same tokens")
    checks.check_device("h", h, f)
    checks.check_initial(initial, f)
    if backward not in ("checkpoint", "invert"):
        raise OptionError("backward", "'checkpoint' or 'invert'", repr(backward))
    mask = checks.mask_of(lengths, f)
    name = choose_backend(backend, f)
    if name == "reference":
        return reference.encode_adaptive(h, f, cell, mask, initial)
    if name == "triton" and isinstance(cell, AffineGates) and backward == "checkpoint":
        from attar.ops.fused import scan as fused

        memory: Tensor = fused.encode_adaptive(h, f, cell, mask, initial)
        return memory
    if backend == "triton":
        wanted, came = "AffineGates and backward='checkpoint'", f"{type(cell).__name__} and {backward!r}"
        raise OptionError("backend 'triton'", wanted, came, "use backend='torch'")
    return scan.encode_adaptive(h, f, cell, mask, initial, backward=backward, digits=digits)


def gated(
    h: Float[Tensor, "*batch k"], weight: Float[Tensor, "k k"], bias: Float[Tensor, " k"]
) -> Float[Tensor, "*batch k"]:
    """f = σ(W h + b) ⊙ h (section 4)."""
    return torch.sigmoid(torch.nn.functional.linear(h, weight.to(h.dtype), bias.to(h.dtype))) * h


def gram_of(backend: str) -> ModuleType:
    """The backend's own weighted Gram product; Triton is imported when it is first used."""
    if backend == "triton":
        from attar.ops.fused import gram as fused

        return fused
    return reference if backend == "reference" else gram
