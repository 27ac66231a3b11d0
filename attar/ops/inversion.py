"""Backward by undoing the recurrence, the paper's way (section 4), corrected and guarded.

From C_{t+1} = α_t C_t + β_t f fᵀ follows C_t = (C_{t+1} − β_t f fᵀ) / α_t. The paper prints it with α and β
exchanged, which is another matrix. Undoing a segment at once,

    C_start = (C_end − Fᵀ diag(w) F) / a        a = ∏ α_u    w_t = β_t ∏_{u>t} α_u

divides by a, so an error of ε in C_end becomes ε / a: undoing costs −log₁₀ a of the 7 digits that float32 has
(at α = 0.9, all of them after 150 tokens). The guard keeps a memory before too many are spent.
"""

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from attar.errors import DtypeError
from attar.ops.gates import AffineGates, Cell
from attar.ops.gram import blank_padding, decay_after
from attar.ops.scan import Gates, Mask, Memory, read_segment, segments


def encode_inverting(
    h: Float[Tensor, "B n d"],
    f: Float[Tensor, "B n k"],
    cell: Cell,
    mask: Mask,
    initial: Memory,
    digits: float,
) -> Memory:
    """The memory of each document; backward holds the last one and as few others as the guard allows."""
    tensors = (h, f, initial, mask)
    memory: Tensor = InvertedScan.apply(*tensors, cell, digits, *parameters_of(cell))  # type: ignore[no-untyped-call]
    return memory


def parameters_of(cell: Cell) -> tuple[Tensor, ...]:
    """The tensors that the gates' gradients go to: they must be known to be rebuilt outside of autograd."""
    if isinstance(cell, AffineGates):
        return cell.tensors()
    if isinstance(cell, nn.Module):
        return tuple(p for p in cell.parameters() if p.requires_grad)
    wanted = "AffineGates or an nn.Module"
    raise DtypeError("cell", wanted, type(cell).__name__, "with another cell use backward='checkpoint'")


class InvertedScan(torch.autograd.Function):
    """The adaptive scan that saves its gates and its last memory, not the memories between."""

    @staticmethod
    def forward(
        ctx: Any,
        h: Tensor,
        f: Tensor,
        C: Tensor,
        mask: Tensor | None,
        cell: Cell,
        digits: float,
        *parameters: Tensor,
    ) -> Tensor:
        """Read on, noting for each segment the memory at its start where undoing it would cost too much."""
        anchors: list[Tensor | None] = []
        gates: list[Tensor] = []
        budget, spent = decay_budget(digits, C.dtype), 0.0
        for part in segments(f):
            before = C
            C, found = read_segment(C, h[:, part], f[:, part], cell, None if mask is None else mask[:, part])
            spent += decay_of(found[..., 0])
            if spent > budget:
                anchors.append(before)
                spent = 0.0
            else:
                anchors.append(None)
            gates.append(found)
        ctx.cell, ctx.anchors, ctx.gates = cell, anchors, gates
        ctx.save_for_backward(h, f, mask, C, *parameters)
        return C

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, G: Tensor) -> tuple[Tensor | None, ...]:
        """Segment by segment from the last: rebuild its start, read it again, differentiate that."""
        h, f, mask, C, *parameters = ctx.saved_tensors
        cell, leaves = cell_on_leaves(ctx.cell, parameters)
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
            G = found[0]
            grad_h[:, part], grad_f[:, part] = (0 if g is None else g for g in found[1:3])
            grads = [sum_of(total, new) for total, new in zip(grads, found[3:], strict=True)]
            C = start.detach()
        return grad_h, grad_f, G, None, None, None, *grads


def undo_segment(C: Memory, f: Float[Tensor, "B n k"], gates: Gates) -> Memory:
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
    """The −log ∏ α of the document that forgets most; infinite where a gate shuts."""
    return float(-alpha.log().sum(1).min()) if alpha.numel() else 0.0


def cell_on_leaves(cell: Cell, parameters: list[Tensor]) -> tuple[Cell, list[Tensor]]:
    """The same gates on tensors that a gradient can be asked for."""
    if isinstance(cell, AffineGates):
        leaves = [p.detach().requires_grad_() for p in parameters]
        return AffineGates(*leaves), leaves
    return cell, parameters


def sum_of(total: Tensor | None, new: Tensor | None) -> Tensor | None:
    """A running sum that starts and may stay at nothing."""
    if total is None or new is None:
        return new if total is None else total
    return total + new
