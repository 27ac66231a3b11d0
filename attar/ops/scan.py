"""The memory whose gates read it, in exact chunks.

    α_t, β_t = cell(h_t, C_t f_t)        C_{t+1} = α_t C_t + β_t f_t f_tᵀ

Only the gates are sequential. Inside a chunk that starts from C₀

    C_t f_t = a_t C₀ f_t + Σ_{s<t} w_s (f_s · f_t) f_s        a_t = ∏_{u<t} α_u    w_s = β_s ∏_{s<u<t} α_u

so one product with C₀ serves all of the chunk's tokens, the loop handles the chunk's own few vectors, and one more
product adds the chunk to the memory. `AffineGates` have a faster chunk with a closed-form gradient, `fast_scan`. A
segment is several chunks: what backward recomputes at a time, from a memory kept at its start ("checkpoint") or by
undoing the recurrence ("invert", the paper's section 4).
"""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from attar.errors import DtypeError, OptionError
from attar.ops import checks, reference
from attar.ops.affine_scan import AdaptiveScan, Backward, encode_plainly, read_segment, segments
from attar.ops.reference import AffineGates, Cell, Mask, Memory, States, blank_padding, start_memory


def encode_adaptive(
    h: Float[Tensor, "B n d"],
    f: States,
    cell: Cell,
    *,
    lengths: checks.Lengths = None,
    initial: Memory | None = None,
    backward: Backward = "checkpoint",
    backend: checks.Backend = "auto",
) -> Memory:
    """The memory whose gates read it: α_t, β_t = cell(h_t, f_t, C_t f_t).

    A cell may return a third, what is written in place of f_t. `backward="checkpoint"` keeps a memory per segment of
    tokens and recomputes the others forward. `backward="invert"`, for `AffineGates`, recomputes them backward from the
    last one, as the paper does, and keeps one only where undoing the decay would cost more than three decimal
    digits.

    >>> always = lambda h, f, reading: (torch.ones(1), torch.ones(1))
    >>> encode_adaptive(torch.zeros(1, 2, 1), torch.tensor([[[1.0, 2.0], [0.0, 1.0]]]), always)[0].tolist()
    [[1.0, 2.0], [2.0, 5.0]]
    """
    checks.check_floats("h", h, "B n d")
    checks.check_floats("f", f, "B n k")
    checks.check_shape("h", h, (*f.shape[:2], h.shape[2]), "h and f are of the same tokens")
    checks.check_device("h", h, f)
    checks.check_initial(initial, f)
    if backward not in ("checkpoint", "invert"):
        raise OptionError.expected("backward", "'checkpoint' or 'invert'", repr(backward))
    if backward == "invert" and not isinstance(cell, AffineGates):
        remedy = "with another cell use backward='checkpoint'"
        raise DtypeError.expected("cell", "AffineGates", type(cell).__name__, remedy)
    mask = checks.length_mask(lengths, f)
    name = checks.choose_backend(backend, f)
    if name == "reference":
        return reference.encode_adaptive(h, f, cell, mask, initial)
    on_chip = f.shape[2] <= checks.LARGEST_ON_CHIP and backward == "checkpoint"
    if name == "triton" and isinstance(cell, AffineGates) and on_chip:
        from attar.ops.triton import scan as kernels

        return kernels.encode_adaptive(h, f, cell, mask, initial)
    if backend == "triton":
        came = f"{type(cell).__name__}, {backward!r} and k = {f.shape[2]}"
        expected = f"AffineGates, backward='checkpoint' and k up to {checks.LARGEST_ON_CHIP}"
        raise OptionError.expected("backend 'triton'", expected, came, "use backend='torch'")
    with checks.without_autocast(f):
        C, h = start_memory(f, initial), blank_padding(h, mask)
        if not isinstance(cell, AffineGates):
            return _encode_any(h, f, cell, mask, C)
        energies = None if cell.energy_weight is None else cell.energy_weight.to(C.dtype)
        inputs = cell.of_hidden(h), f, cell.read_weight.to(C.dtype), energies, C, mask
        if f.shape[1] == 0 or checks.is_transformed() or f.is_meta:
            return encode_plainly(*inputs)
        if torch.compiler.is_compiling():
            compiled: Tensor = torch.ops.attar.adaptive_scan(*inputs)[0]
            return compiled
        memory: Tensor = AdaptiveScan.apply(*inputs, backward)  # type: ignore[no-untyped-call]
        return memory


def _encode_any(h: Float[Tensor, "B n d"], f: States, cell: Cell, mask: Mask, C: Memory) -> Memory:
    """Segment by segment; of each only the first memory is kept for backward."""
    kept = torch.is_grad_enabled() and not checks.is_transformed()
    for part in segments(f):
        visible = None if mask is None else mask[:, part]
        args = h[:, part], blank_padding(f[:, part], visible), cell, visible
        if kept:
            C = checkpoint(read_segment, C, *args, use_reentrant=False, preserve_rng_state=False)
        else:
            C = read_segment(C, *args)
    return C
