"""The memory whose gates read it, in exact chunks.

    α_t, β_t = cell(h_t, C_t f_t)        C_{t+1} = α_t C_t + β_t f_t f_tᵀ

Only the gates are sequential. Inside a chunk that starts from C₀

    C_t f_t = a_t C₀ f_t + Σ_{s<t} w_s (f_s · f_t) f_s        a_t = ∏_{u<t} α_u    w_s = β_s ∏_{s<u<t} α_u

so one product with C₀ serves all of the chunk's tokens, the loop handles the chunk's own few vectors, and one more
product adds the chunk to the memory. A segment is several chunks: what backward recomputes at a time, from a memory
kept at its start ("checkpoint") or by undoing the recurrence ("invert", the paper's section 4).

Undoing. From C_{t+1} = α_t C_t + β_t f fᵀ follows C_t = (C_{t+1} − β_t f fᵀ) / α_t. The paper prints it with α and β
exchanged, which is another matrix. Undoing a segment at once, C_start = (C_end − Fᵀ diag(w) F) / a with a = ∏ α_u,
turns an error of ε in C_end into ε / a: it costs −log₁₀ a of the 7 digits that float32 has (at α = 0.9, all of them
after 150 tokens). A guard keeps the memory of a segment's start before too many digits are lost.
"""

import math
from collections.abc import Callable
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint

from attar.errors import DtypeError, OptionError
from attar.ops import checks, fast_scan, reference
from attar.ops.gram import decay_after
from attar.ops.reference import AffineGates, Cell, Gates, Mask, Memory, States, blank_padding, start_memory

# Longer chunks mean fewer products of size k², but a longer history for each step to read.
CHUNK = 32


def encode_adaptive(
    h: Float[Tensor, "B n d"],
    f: States,
    cell: Cell,
    *,
    lengths: checks.Lengths = None,
    initial: Memory | None = None,
    backward: Literal["checkpoint", "invert"] = "checkpoint",
    digits: float = 4.0,
    backend: checks.Backend = "auto",
) -> Memory:
    """The memory whose gates read it: α_t, β_t = cell(h_t, C_t f_t).

    `backward="checkpoint"` keeps a memory per segment of tokens and recomputes the others forward;
    `backward="invert"` recomputes them backward from the last one, as the paper does, and keeps one only where
    undoing the decay would leave fewer than `digits` correct decimal digits.

    >>> always = lambda h, reading: (torch.ones(1), torch.ones(1))
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
    mask = checks.length_mask(lengths, f)
    name = checks.choose_backend(backend, f)
    if name == "reference":
        return reference.encode_adaptive(h, f, cell, mask, initial)
    if name == "triton" and isinstance(cell, AffineGates) and backward == "checkpoint":
        from attar.ops.triton import scan as kernels

        return kernels.encode_adaptive(h, f, cell, mask, initial)
    if backend == "triton":
        came = f"{type(cell).__name__} and {backward!r}"
        raise OptionError.expected(
            "backend 'triton'", "AffineGates and backward='checkpoint'", came, "use backend='torch'"
        )
    with torch.autocast(f.device.type, enabled=False):
        if backward == "invert" and torch.is_grad_enabled():
            return _encode_inverting(h, f, cell, mask, start_memory(f, initial), digits)
        return _encode_checkpointing(h, f, cell, mask, start_memory(f, initial))


def _encode_checkpointing(h: Float[Tensor, "B n d"], f: States, cell: Cell, mask: Mask, C: Memory) -> Memory:
    if not _needs_gradient(cell, h, f, C):
        return read_segment(C, h, f, cell, mask)[0] if f.shape[1] else C
    for part in segments(f):
        args = h[:, part], f[:, part], cell, None if mask is None else mask[:, part]
        C = checkpoint(read_segment, C, *args, use_reentrant=False, preserve_rng_state=False)[0]
    return C


def segments(f: States) -> list[slice]:
    """The tokens between the memories kept for backward: k or more, so that these are no larger than F itself.

    >>> segments(torch.zeros(1, 70, 2))
    [slice(0, 32, None), slice(32, 64, None), slice(64, 70, None)]
    """
    k = f.shape[2]
    return _chunks(f, CHUNK * max(1, -(-k // CHUNK)))


def _chunks(f: States, length: int) -> list[slice]:
    n = f.shape[1]
    return [slice(start, min(start + length, n)) for start in range(0, n, length)]


def _needs_gradient(cell: Cell, *tensors: Tensor) -> bool:
    """Whether autograd records this; a cell other than AffineGates may hold parameters that are not known here."""
    if not torch.is_grad_enabled() or not isinstance(cell, AffineGates):
        return torch.is_grad_enabled()
    return any(tensor.requires_grad for tensor in (*tensors, *cell.tensors()))


def read_segment(
    C: Memory, h: Float[Tensor, "B n d"], f: States, cell: Cell, mask: Mask
) -> tuple[Memory, Gates]:
    """The memory after a segment, and the gates of its tokens."""
    h, f = blank_padding(h, mask), blank_padding(f, mask)
    # The fast chunk reads values to know when to stop, and sums logarithms in float64.
    fast = f.device.type in ("cpu", "cuda") and not checks.is_traced() and not _needs_gradient(cell, h, f, C)
    fast_cell = cell if fast and isinstance(cell, AffineGates) else None
    logits = cell.of_hidden(h) if isinstance(cell, AffineGates) else h
    gates = []
    for part in _chunks(f, CHUNK if fast_cell is None else fast_scan.CHUNK):
        visible = None if mask is None else mask[:, part]
        if fast_cell is None:
            C, of_chunk = _read_chunk(C, f[:, part], logits[:, part], cell, visible)
        else:
            C, of_chunk = fast_scan.read_chunk(C, f[:, part], logits[:, part], fast_cell, visible)
        gates.append(of_chunk)
    return C, torch.cat(gates, 1)


def _read_chunk(
    C: Memory, f: States, logits: Float[Tensor, "B n d"], cell: Cell, mask: Mask
) -> tuple[Memory, Gates]:
    """The memory after a chunk, and the gates of its tokens; `logits` are U h + b, or h for cells of other kinds."""
    at_start = torch.bmm(f, C.mT).unbind(1)
    overlaps = torch.bmm(f, f.mT).unbind(1)
    gate_at = _gates_of(cell, logits)
    # [a_t, w_0, …, w_(t-1)]: what remains of the chunk's start, and of each of its tokens so far.
    left = f.new_ones(f.shape[0], 1)
    gates = []
    for t in range(f.shape[1]):
        reading = left[:, :1] * at_start[t]
        if t:
            history = left[:, 1:] * overlaps[t][:, :t]
            reading = torch.baddbmm(reading[:, None], history[:, None], f[:, :t])[:, 0]
        gate = gate_at(t, reading)
        if mask is not None:
            gate = torch.where(mask[:, t, None], gate, gate.new_tensor([1.0, 0.0]))
        left = torch.cat([left * gate[:, :1], gate[:, 1:]], 1)
        gates.append(gate)
    C = torch.baddbmm(left[:, :1, None] * C, (f * left[:, 1:, None]).mT, f)
    return C, torch.stack(gates, 1)


def _gates_of(cell: Cell, logits: Float[Tensor, "B n d"]) -> Callable[[int, Tensor], Tensor]:
    """The cell as a function of (token, reading) that returns α and β stacked, [B, 2]."""
    states = logits.unbind(1)
    if isinstance(cell, AffineGates):
        return lambda t, reading: cell.of_reading(states[t], reading)
    return lambda t, reading: torch.stack(cell(states[t], reading), -1)


def _encode_inverting(
    h: Float[Tensor, "B n d"], f: States, cell: Cell, mask: Mask, initial: Memory, digits: float
) -> Memory:
    # The tensors that the gates' gradients go to must be known: gates are recomputed outside of autograd.
    parameters: tuple[Tensor, ...]
    if isinstance(cell, AffineGates):
        parameters = cell.tensors()
    elif isinstance(cell, nn.Module):
        parameters = tuple(p for p in cell.parameters() if p.requires_grad)
    else:
        remedy = "with another cell use backward='checkpoint'"
        raise DtypeError.expected("cell", "AffineGates or an nn.Module", type(cell).__name__, remedy)
    memory: Tensor = InvertedScan.apply(h, f, initial, mask, cell, digits, *parameters)  # type: ignore[no-untyped-call]
    return memory


class InvertedScan(torch.autograd.Function):
    """The adaptive scan that saves its gates and its last memory, not the memories between."""

    @staticmethod
    def forward(
        ctx: Any, h: Tensor, f: Tensor, C: Tensor, mask: Mask, cell: Cell, digits: float, *parameters: Tensor
    ) -> Tensor:
        """C of each document; keeps the memory at a segment's start where undoing it would cost too many digits."""
        anchors: list[Tensor | None] = []
        gates: list[Tensor] = []
        budget, spent = decay_budget(digits, C.dtype), 0.0
        for part in segments(f):
            before, visible = C, None if mask is None else mask[:, part]
            C, of_segment = read_segment(C, h[:, part], f[:, part], cell, visible)
            gates.append(of_segment)
            spent += decay_of(of_segment[..., 0])
            anchors.append(before if spent > budget else None)
            spent = 0.0 if spent > budget else spent
        ctx.cell, ctx.anchors, ctx.gates = cell, anchors, gates
        ctx.save_for_backward(h, f, mask, C, *parameters)
        return C

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, G: Tensor) -> tuple[Tensor | None, ...]:
        """Segment by segment from the last: recompute its start, read it again, differentiate that."""
        h, f, mask, C, *leaves = ctx.saved_tensors
        cell = ctx.cell
        if isinstance(cell, AffineGates):
            leaves = [p.detach().requires_grad_() for p in leaves]
            cell = AffineGates(*leaves)
        grad_h, grad_f = torch.zeros_like(h), torch.zeros_like(f)
        grads: list[Tensor | None] = [None] * len(leaves)
        for part, anchor, gates in reversed(list(zip(segments(f), ctx.anchors, ctx.gates, strict=True))):
            visible = None if mask is None else mask[:, part]
            start = undo_segment(C, blank_padding(f[:, part], visible), gates) if anchor is None else anchor
            with torch.enable_grad():
                start, states, written = (
                    x.detach().requires_grad_() for x in (start, h[:, part], f[:, part])
                )
                end = read_segment(start, states, written, cell, visible)[0]
            found = torch.autograd.grad(end, [start, states, written, *leaves], G, allow_unused=True)
            G, C = found[0], start.detach()
            grad_h[:, part], grad_f[:, part] = (0 if g is None else g for g in found[1:3])
            for i, new in enumerate(found[3:]):
                total = grads[i]
                grads[i] = new if total is None else total if new is None else total + new
        return grad_h, grad_f, G, None, None, None, *grads


def undo_segment(C: Memory, f: States, gates: Gates) -> Memory:
    """The memory before a segment, from the one after it and its gates.

    >>> f, gates = torch.ones(1, 1, 1), torch.tensor([[[0.5, 2.0]]])
    >>> undo_segment(torch.tensor([[[3.5]]]), f, gates).item()  # 3.5 = 0.5 · 3 + 2 · 1
    3.0
    """
    after, kept = decay_after(gates[..., 0])
    weights = after * gates[..., 1]
    return torch.baddbmm(C, (f * weights[:, :, None]).mT, f, alpha=-1) / kept[:, None, None]


def decay_budget(digits: float, dtype: torch.dtype) -> float:
    """The −log a that may be undone while `digits` decimal digits stay correct: ε / a ≤ 10^−digits.

    >>> round(decay_budget(3.0, torch.float32), 1)  # at α = 0.9, 86 tokens
    9.0
    """
    return -digits * math.log(10) - math.log(torch.finfo(dtype).eps)


def decay_of(alpha: Float[Tensor, "B n"]) -> float:
    """The largest −log ∏ α of the documents; infinite where a gate is 0."""
    return float(-alpha.log().sum(1).min()) if alpha.numel() else 0.0
