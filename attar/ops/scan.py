"""The memory whose gates read it, in exact chunks.

    α_t, β_t = cell(h_t, C_t f_t)        C_{t+1} = α_t C_t + β_t f_t f_tᵀ

Only the gates are sequential. Inside a chunk that starts from C₀

    C_t f_t = a_t C₀ f_t + Σ_{s<t} w_s (f_s · f_t) f_s        a_t = ∏_{u<t} α_u    w_s = β_s ∏_{s<u<t} α_u

so one product with C₀ serves all of the chunk's tokens, the loop handles the chunk's own few vectors, and one more
product adds the chunk to the memory. `AffineGates` have a faster chunk with a closed-form gradient, `fast_scan`. A
segment is several chunks: what backward recomputes at a time, from a memory kept at its start ("checkpoint") or by
undoing the recurrence ("invert", the paper's section 4).

Undoing. From C_{t+1} = α_t C_t + β_t f fᵀ follows C_t = (C_{t+1} − β_t f fᵀ) / α_t. The paper prints it with α and β
exchanged, which is another matrix. Undoing a segment at once, C_start = (C_end − Fᵀ diag(w) F) / a with a = ∏ α_u,
turns an error of ε in C_end into ε / a: it costs −log₁₀ a of the 7 digits that float32 has (at α = 0.9, all of them
after 150 tokens). A guard keeps the memory of a segment's start before too many digits are lost.
"""

import math
from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from attar.errors import DtypeError, OptionError
from attar.ops import checks, fast_scan, reference
from attar.ops.gram import decay_after
from attar.ops.reference import AffineGates, Cell, Gates, Mask, Memory, States, blank_padding, start_memory

Backward = Literal["checkpoint", "invert"]
# Longer chunks mean fewer products of size k², but a longer history for each step to read.
CHUNK = 32
# The −log a that may be undone: it costs three decimal digits of the seven of float32. At α = 0.9, 65 tokens.
BUDGET = 3 * math.log(10)


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


def encode_plainly(
    logits: Gates, f: States, read_weight: Tensor, energy_weight: Tensor | None, C: Memory, mask: Mask
) -> Memory:
    """The memory of `AffineGates` by operations that any transform differentiates, any number of times."""
    return read_segment(
        C, logits, blank_padding(f, mask), AffineGates(None, read_weight, None, energy_weight), mask
    )


def read_segment(C: Memory, h: Float[Tensor, "B n d"], f: States, cell: Cell, mask: Mask) -> Memory:
    for part in chunks(0, f.shape[1], CHUNK):
        C = _read_chunk(C, h[:, part], f[:, part], cell, None if mask is None else mask[:, part])
    return C


def segments(f: States) -> list[slice]:
    """The tokens between the memories kept for backward: k or more, so that these are no larger than F itself.

    >>> segments(torch.zeros(1, 140, 2))
    [slice(0, 64, None), slice(64, 128, None), slice(128, 140, None)]
    """
    return chunks(0, f.shape[1], segment_length(f))


def segment_length(f: States) -> int:
    return fast_scan.CHUNK * max(1, -(-f.shape[2] // fast_scan.CHUNK))


def chunks(first: int, end: int, length: int) -> list[slice]:
    return [slice(start, min(start + length, end)) for start in range(first, end, length)]


def _read_chunk(C: Memory, h: Float[Tensor, "B n d"], f: States, cell: Cell, mask: Mask) -> Memory:
    """The memory after a chunk, token by token."""
    at_start, states, rows = torch.bmm(f, C.mT).unbind(1), h.unbind(1), f.unbind(1)
    # [a_t, w_0, …, w_(t-1)]: what remains of the chunk's start, and of each of its tokens so far.
    left = f.new_ones(f.shape[0], 1)
    written: list[Tensor] = []
    for t, row in enumerate(rows):
        reading = left[:, :1] * at_start[t]
        if t:
            history = torch.stack(written, 1)
            along = left[:, 1:] * torch.bmm(history, row[:, :, None])[:, :, 0]
            reading = torch.baddbmm(reading[:, None], along[:, None], history)[:, 0]
        alpha, beta, *instead = cell(states[t], row, reading)
        gate = torch.stack([alpha, beta], -1).to(f.dtype)
        if mask is not None:
            gate = torch.where(mask[:, t, None], gate, gate.new_tensor([1.0, 0.0]))
        left = torch.cat([left * gate[:, :1], gate[:, 1:]], 1)
        written.append(instead[0].to(f.dtype) if instead else row)
    F = torch.stack(written, 1)
    return torch.baddbmm(left[:, :1, None] * C, (F * left[:, 1:, None]).mT, F)


class Kept(NamedTuple):
    """What backward needs of a scan: its last memory, its gates, and the memories at the starts of segments."""

    last: Memory
    gates: Gates
    starts: list[Memory | None]


def read_fast(
    logits: Gates,
    f: States,
    read_weight: Tensor,
    energy_weight: Tensor | None,
    C: Memory,
    mask: Mask,
    budget: float = -1.0,
) -> Kept:
    """The scan of `AffineGates`; a segment's first memory is kept where undoing its decay would exceed the budget."""
    gates, starts, spent = [], [], 0.0
    for segment in segments(f):
        before, of_segment = C, []
        for part in chunks_of(segment):
            visible = None if mask is None else mask[:, part]
            states = blank_padding(f[:, part], visible)
            C, found = fast_scan.read_chunk(C, states, logits[:, part], read_weight, energy_weight, visible)
            of_segment.append(found)
        gates += of_segment
        spent += decay_of(torch.cat(of_segment, 1)[..., 0]) if budget >= 0 else 0.0
        starts.append(before if spent > budget else None)
        spent = 0.0 if spent > budget else spent
    return Kept(C, torch.cat(gates, 1), starts)


def chunks_of(segment: slice) -> list[slice]:
    """The chunks of a segment."""
    return chunks(segment.start, segment.stop, fast_scan.CHUNK)


def gradients(
    kept: Kept, f: States, read_weight: Tensor, energy_weight: Tensor | None, mask: Mask, G: Memory
) -> tuple[Tensor | None, ...]:
    """∂(U h + b), ∂f, ∂V, ∂w and ∂C₀: segment by segment, and chunk by chunk, from the last."""
    grad_logits, grad_f = torch.empty_like(kept.gates), torch.empty_like(f)
    grad_V, grad_w = torch.zeros_like(read_weight), None
    grad_w = None if energy_weight is None else torch.zeros_like(energy_weight)
    end = kept.last
    for segment, start in reversed(list(zip(segments(f), kept.starts, strict=True))):
        visible = None if mask is None else mask[:, segment]
        parts, states = chunks_of(segment), blank_padding(f[:, segment], visible)
        C = undo_segment(end, states, kept.gates[:, segment]) if start is None else start
        memories = [C]
        for part in parts[:-1]:
            rows = states[:, part.start - segment.start : part.stop - segment.start]
            memories.append(fast_scan.add_chunk(memories[-1], rows, kept.gates[:, part]))
        for part, C in reversed(list(zip(parts, memories, strict=True))):
            rows = states[:, part.start - segment.start : part.stop - segment.start]
            visible = None if mask is None else mask[:, part]
            found = fast_scan.chunk_gradients(
                C, end, rows, kept.gates[:, part], read_weight, energy_weight, visible, G
            )
            end, G = C, found.start
            grad_logits[:, part], grad_f[:, part] = found.logits, found.f
            grad_V += found.read_weight
            if grad_w is not None and found.energy_weight is not None:
                grad_w += found.energy_weight
    return grad_logits, grad_f, grad_V, grad_w, G


class AdaptiveScan(torch.autograd.Function):
    """The scan of `AffineGates`, which saves its gates and few memories; its gradient can be differentiated again."""

    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, f: Tensor, V: Tensor, w: Tensor | None, C: Tensor, mask: Mask,
        backward: Backward,
    ) -> Tensor:  # fmt: skip
        """C of each document."""
        budget = BUDGET if backward == "invert" else -1.0
        kept = read_fast(logits, f, V, w, C, mask, budget)
        if any(ctx.needs_input_grad):
            ctx.starts = kept.starts
            ctx.save_for_backward(logits, f, V, w, C, mask, kept.last, kept.gates)
        return kept.last

    @staticmethod
    def backward(ctx: Any, G: Tensor) -> tuple[Tensor | None, ...]:
        """The closed form, or autograd through the plain scan for what it cannot: a gradient of it, several at once."""
        *inputs, mask, last, gates = ctx.saved_tensors
        if torch.is_grad_enabled() or checks.is_batched(G):
            return *_differentiable_gradients(inputs, mask, G), None, None
        _, f, V, w, _ = inputs
        found = gradients(Kept(last, gates, ctx.starts), f, V, w, mask, G)
        return *found, None, None


def _differentiable_gradients(inputs: list[Any], mask: Mask, G: Memory) -> list[Tensor | None]:
    logits, f, V, w, C = inputs
    wanted = [x for x in inputs if x is not None and x.requires_grad]
    twice = torch.is_grad_enabled()
    with torch.enable_grad():
        memory = encode_plainly(logits, f, V, w, C, mask)
    found = iter(torch.autograd.grad(memory, wanted, G, create_graph=twice))
    return [next(found) if x is not None and x.requires_grad else None for x in inputs]


# The scan as one node of a compiled or exported graph, for any number of tokens.
@torch.library.custom_op("attar::adaptive_scan", mutates_args=())
def _scan_op(
    logits: Tensor, f: Tensor, V: Tensor, w: Tensor | None, C: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    kept = read_fast(logits, f, V, w, C, mask)
    starts = C.new_zeros(_rooms(f), *C.shape)
    for room, start in zip(starts, kept.starts, strict=False):
        room.copy_(C if start is None else start)
    return kept.last.clone(), kept.gates, starts


@torch.library.custom_op("attar::adaptive_scan_backward", mutates_args=())
def _scan_gradient_op(
    last: Tensor,
    gates: Tensor,
    starts: Tensor,
    f: Tensor,
    V: Tensor,
    w: Tensor | None,
    mask: Tensor | None,
    G: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    found = gradients(Kept(last, gates, list(starts[: len(segments(f))])), f, V, w, mask, G)
    logits, grad_f, grad_V, grad_w, start = (V.new_zeros(0) if x is None else x for x in found)
    return logits, grad_f, grad_V, grad_w, start.clone()


@_scan_op.register_fake
def _(logits: Tensor, f: Tensor, V: Tensor, w: Any, C: Tensor, mask: Any) -> tuple[Tensor, Tensor, Tensor]:
    return torch.empty_like(C), torch.empty_like(logits), C.new_empty(_rooms(f), *C.shape)


def _rooms(f: States) -> int:
    """Room for the memories at the starts of segments: two at least, as a compiler takes 1 for a constant."""
    return f.shape[1] // segment_length(f) + 2


@_scan_gradient_op.register_fake
def _(
    last: Tensor, gates: Tensor, starts: Tensor, f: Tensor, V: Tensor, w: Any, mask: Any, G: Tensor
) -> tuple[Tensor, ...]:
    of_w = V.new_empty(0) if w is None else torch.empty_like(w)
    return torch.empty_like(gates), torch.empty_like(f), torch.empty_like(V), of_w, torch.empty_like(last)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    _, f, V, w, _, mask = inputs
    ctx.save_for_backward(*output, f, V, w, mask)


def _scan_backward(ctx: Any, G: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
    *kept, f, V, w, mask = ctx.saved_tensors
    logits, grad_f, grad_V, grad_w, start = _scan_gradient_op(*kept, f, V, w, mask, G.contiguous())
    return logits, grad_f, grad_V, None if w is None else grad_w, start, None


_scan_op.register_autograd(_scan_backward, setup_context=_save)


def undo_segment(C: Memory, f: States, gates: Gates) -> Memory:
    """The memory before a segment, from the one after it and its gates.

    >>> f, gates = torch.ones(1, 1, 1), torch.tensor([[[0.5, 2.0]]])
    >>> undo_segment(torch.tensor([[[3.5]]]), f, gates).item()  # 3.5 = 0.5 · 3 + 2 · 1
    3.0
    """
    after, kept = decay_after(gates[..., 0])
    weights = after * gates[..., 1]
    return torch.baddbmm(C, (f * weights[:, :, None]).mT, f, alpha=-1) / kept[:, None, None]


def decay_of(alpha: Float[Tensor, "B n"]) -> float:
    """The largest −log ∏ α of the documents; infinite where a gate is 0."""
    return float(-alpha.log().sum(1).min()) if alpha.numel() else 0.0
