"""The adaptive scan token by token, in chunks: for any cell, and under any transform. See `scan`."""

import torch
from jaxtyping import Float
from torch import Tensor

from attar.ops import fast_scan
from attar.ops.reference import AffineGates, Cell, Gates, Mask, Memory, States, blank_padding

# Longer chunks mean fewer products of size k², but a longer history for each step to read.
CHUNK = 32


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
