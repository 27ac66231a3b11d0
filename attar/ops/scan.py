"""The memory whose gates look at it, in exact chunks (torch backend).

    α_t, β_t = cell(h_t, C_t f_t)        C_{t+1} = α_t C_t + β_t f_t f_tᵀ

Only the gates are sequential. Inside a chunk that starts from C₀

    C_t f_t = a_t C₀ f_t + Σ_{s<t} w_s (f_s · f_t) f_s        a_t = ∏_{u<t} α_u    w_s = β_s ∏_{s<u<t} α_u

so C₀ is met by one product for all of the chunk's tokens, the loop handles the chunk's own few vectors, and
one more product folds the chunk in. A segment is several chunks: what backward rebuilds at a time.

Where nothing is differentiated, the loop over a chunk's tokens gives way to `sweeps`.
"""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from attar.ops import sweeps
from attar.ops.checks import accumulation_dtype
from attar.ops.gates import AffineGates, Cell
from attar.ops.gram import blank_padding

Mask = Bool[Tensor, "B n"] | None
Memory = Float[Tensor, "B k k"]
Gates = Float[Tensor, "B n 2"]

# Longer chunks mean fewer products of size k², but a longer history for each step to look through.
CHUNK = 32


def encode_adaptive(
    h: Float[Tensor, "B n d"],
    f: Float[Tensor, "B n k"],
    cell: Cell,
    mask: Mask = None,
    initial: Memory | None = None,
    *,
    backward: str = "checkpoint",
    digits: float = 4.0,
) -> Memory:
    """The memory of each document; backward rebuilds the memories between segments, and keeps none within."""
    from attar.ops.inversion import encode_inverting

    dtype = accumulation_dtype(f.dtype)
    C = f.new_zeros(f.shape[0], f.shape[2], f.shape[2], dtype=dtype) if initial is None else initial.to(dtype)
    with torch.autocast(f.device.type, enabled=False):
        if backward == "invert" and torch.is_grad_enabled():
            return encode_inverting(h, f, cell, mask, C, digits)
        if not records(cell, h, f, C):
            return read_segment(C, h, f, cell, mask)[0] if f.shape[1] else C
        for part in segments(f):
            args = h[:, part], f[:, part], cell, None if mask is None else mask[:, part]
            C = checkpoint(read_segment, C, *args, use_reentrant=False, preserve_rng_state=False)[0]
    return C


def segments(f: Float[Tensor, "B n k"]) -> list[slice]:
    """Where memories are kept for backward: every k tokens or more, so that they weigh no more than F itself.

    >>> segments(torch.zeros(1, 70, 2))
    [slice(0, 32, None), slice(32, 64, None), slice(64, 70, None)]
    """
    k = f.shape[2]
    return chunks(f, CHUNK * max(1, -(-k // CHUNK)))


def read_segment(
    C: Memory, h: Float[Tensor, "B n d"], f: Float[Tensor, "B n k"], cell: Cell, mask: Mask
) -> tuple[Memory, Gates]:
    """The memory after a segment, and the gates of its tokens."""
    h, f = blank_padding(h, mask), blank_padding(f, mask)
    gates = []
    if isinstance(cell, AffineGates) and sweepable(f) and not records(cell, h, f, C):
        logits = cell.of_hidden(h)
        for part in chunks(f, sweeps.CHUNK):
            visible = None if mask is None else mask[:, part]
            C, found = sweeps.read_chunk(C, f[:, part], logits[:, part], cell, visible)
            gates.append(found)
    else:
        gate_at = gates_by_token(cell, h)
        for part in chunks(f, CHUNK):
            visible = None if mask is None else mask[:, part]
            C, found = read_chunk(C, f[:, part], gate_at, visible, part.start)
            gates.append(found)
    return C, torch.cat(gates, 1)


def chunks(f: Float[Tensor, "B n k"], length: int) -> list[slice]:
    """The tokens of f, so many at a time.

    >>> chunks(torch.zeros(1, 70, 2), 32)
    [slice(0, 32, None), slice(32, 64, None), slice(64, 70, None)]
    """
    n = f.shape[1]
    return [slice(start, min(start + length, n)) for start in range(0, n, length)]


def records(cell: Cell, *tensors: Tensor) -> bool:
    """Whether autograd will want to go back; what a cell other than AffineGates holds is not known."""
    if not torch.is_grad_enabled() or not isinstance(cell, AffineGates):
        return torch.is_grad_enabled()
    return any(tensor.requires_grad for tensor in (*tensors, *cell.tensors()))


def sweepable(f: Float[Tensor, "B n k"]) -> bool:
    """Whether sweeps can run: they look at values to know when to stop, and sum logarithms in float64.

    Compilers and the transforms of torch.func (vmap, jvp) have no values to look at.
    """
    traced = torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()
    return not traced and f.device.type in ("cpu", "cuda")


def gates_by_token(cell: Cell, h: Float[Tensor, "B n d"]) -> Callable[[int, Tensor], Tensor]:
    """The cell as a function of (token, reading) that gives α and β side by side, [B, 2].

    What AffineGates learn from the states alone is computed here for all tokens at once.
    """
    if isinstance(cell, AffineGates):
        logits = cell.of_hidden(h).unbind(1)
        return lambda t, reading: cell.of_reading(logits[t], reading)
    states = h.unbind(1)
    return lambda t, reading: torch.stack(cell(states[t], reading), -1)


def read_chunk(
    C: Memory,
    f: Float[Tensor, "B n k"],
    gate_at: Callable[[int, Tensor], Tensor],
    mask: Mask,
    start: int,
) -> tuple[Memory, Gates]:
    """The memory after a chunk, and the gates of its tokens; `start` is the chunk's place in its segment."""
    at_start = torch.bmm(f, C.mT).unbind(1)
    overlaps = torch.bmm(f, f.mT).unbind(1)
    # [a_t, w_0, …, w_(t-1)]: what is left of the chunk's start, and of each of its tokens so far.
    left = f.new_ones(f.shape[0], 1)
    gates = []
    for t in range(f.shape[1]):
        reading = left[:, :1] * at_start[t]
        if t:
            history = left[:, 1:] * overlaps[t][:, :t]
            reading = torch.baddbmm(reading[:, None], history[:, None], f[:, :t])[:, 0]
        gate = gate_at(start + t, reading)
        if mask is not None:
            gate = torch.where(mask[:, t, None], gate, gate.new_tensor([1.0, 0.0]))
        left = torch.cat([left * gate[:, :1], gate[:, 1:]], 1)
        gates.append(gate)
    C = torch.baddbmm(left[:, :1, None] * C, (f * left[:, 1:, None]).mT, f)
    return C, torch.stack(gates, 1)
