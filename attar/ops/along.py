"""Readouts at every position: the t-th query meets the memory of the tokens up to t, itself included.

    C_t = α_t C_{t-1} + β_t k_t v_tᵀ        R_t = C_tᵀ q_t

In chunks: within a chunk scores q_t · k_s for s ≤ t, decayed, times the values; from before the chunk one product with
the memory at its start. There are n / L of these memories, not n.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attar.errors import OptionError, ShapeError
from attar.ops import checks
from attar.ops.gram import decay_after, neutral_in_padding
from attar.ops.reference import Gate, blank_padding

# On a CPU of 32 to 64 the fastest, for heads of 16 to 256 dimensions.
CHUNK = 48


def lookup_along(
    keys: Float[Tensor, "B n k"],
    values: Float[Tensor, "B n d"],
    queries: Float[Tensor, "B n k"],
    *,
    alpha: Gate = None,
    beta: Gate = None,
    lengths: checks.Lengths = None,
    cu_seqlens: checks.Lengths = None,
    initial: Float[Tensor, "B k d"] | None = None,
) -> Float[Tensor, "B n d"]:
    """The readout at every position, in the queries' dtype; 0 after the end of a document.

    `initial` is a memory to continue from. Where rows are packed, `cu_seqlens` are the places of the first token of
    each sequence and of the end, `[0, …, n]`: every sequence has a memory of its own.

    >>> x = torch.tensor([[[1.0], [2.0], [3.0]]])
    >>> lookup_along(x, x, torch.ones(1, 3, 1)).flatten().tolist()
    [1.0, 5.0, 14.0]
    >>> lookup_along(x, x, torch.ones(1, 3, 1), cu_seqlens=torch.tensor([0, 2, 3])).flatten().tolist()
    [1.0, 5.0, 9.0]
    """
    for what, tensor, axes in (
        ("keys", keys, "B n k"),
        ("values", values, "B n d"),
        ("queries", queries, "B n k"),
    ):
        checks.check_floats(what, tensor, axes)
        checks.check_device(what, tensor, keys)
    batch, n, k = keys.shape
    checks.check_shape("values", values, (batch, n, values.shape[2]), "one value per token")
    checks.check_shape("queries", queries, (batch, n, k), "one query per token")
    checks.check_gate("alpha", alpha, keys)
    checks.check_gate("beta", beta, keys)
    if initial is not None:
        checks.check_shape("initial", initial, (batch, k, values.shape[2]), "it is one memory per document")
        checks.check_device("initial", initial, keys)
    if cu_seqlens is not None and (lengths is not None or initial is not None):
        other = "lengths" if lengths is not None else "an initial memory"
        raise OptionError.expected("cu_seqlens", "packed rows alone", f"{other} as well")
    mask = checks.length_mask(lengths, keys)
    dtype = checks.accumulation_dtype(keys.dtype)
    alpha, beta = neutral_in_padding(alpha, beta, mask, dtype)
    if cu_seqlens is not None:
        # α is 0 at the first token of each sequence: nothing of the one before it is kept.
        alpha = keys.new_ones(batch, n, dtype=dtype) if alpha is None else alpha
        alpha = alpha.index_fill(1, sequence_starts(cu_seqlens, n).to(keys.device), 0.0)
    k_, v, q = (blank_padding(x, mask) for x in (keys, values, queries))
    v = v if beta is None else v * beta[:, :, None]
    with checks.without_autocast(keys):
        memory = k_.new_zeros(batch, k, v.shape[2]) if initial is None else initial.to(dtype)
        read = _as_graph if torch.compiler.is_compiling() else _in_chunks
        readouts = read(k_, v, q, alpha, memory)
    return readouts.to(queries.dtype)


class Decays(NamedTuple):
    """What is kept within chunks: running products, so that α = 0 and α < 0 are allowed."""

    between: Float[Tensor, "*B chunk chunk"]  # ∏_{s<u≤t} α_u in row t and column s ≤ t, else 0
    since: Float[Tensor, "*B chunk"]  # ∏_{u≤t} α_u
    after: Float[Tensor, "*B chunk"]  # ∏_{u>t} α_u
    kept: Float[Tensor, "*B"]  # ∏ α_u


def _decays(alpha: Float[Tensor, "B c chunk"]) -> Decays:
    below = torch.ones(alpha.shape[2], alpha.shape[2], dtype=torch.bool, device=alpha.device).tril(-1)
    between = torch.where(below, alpha[..., :, None], 1).cumprod(2).tril()
    return Decays(between, alpha.cumprod(2), *decay_after(alpha))


def _in_chunks(
    k: Float[Tensor, "B n k"],
    v: Float[Tensor, "B n d"],
    q: Float[Tensor, "B n k"],
    alpha: Gate,
    memory: Float[Tensor, "B k d"],
) -> Float[Tensor, "B n d"]:
    """One chunk of all documents after the other: what a chunk needs stays in a processor's cache."""
    n = k.shape[1]
    if n == 0:
        return v
    chunk = min(n, CHUNK if k.is_cpu else 4 * CHUNK)  # a GPU's time is that of its launches
    readouts, each = [], []
    if alpha is not None:
        padded = torch.nn.functional.pad(alpha, (0, -n % chunk), value=1.0)
        decays = _decays(padded.view(len(k), -1, chunk))
        each = [Decays(*of_chunk) for of_chunk in zip(*(x.unbind(1) for x in decays), strict=True)]
    parts = zip(*(torch.split(x, chunk, 1) for x in (k, v, q)), strict=True)
    for i, (keys, values, queries) in enumerate(parts):
        scores, before = torch.bmm(queries, keys.mT).tril(), memory
        if alpha is not None:
            part, decay = slice(keys.shape[1]), each[i]  # the last chunk may be shorter
            scores = scores * decay.between[:, part, part]
            queries = queries * decay.since[:, part, None]
            keys = keys * decay.after[:, part, None]
            memory = memory * decay.kept[:, None, None]
        readouts.append(torch.baddbmm(torch.bmm(queries, before), scores, values))
        memory = torch.baddbmm(memory, keys.mT, values)
    return torch.cat(readouts, 1)


def _as_graph(
    k: Float[Tensor, "B n k"],
    v: Float[Tensor, "B n d"],
    q: Float[Tensor, "B n k"],
    alpha: Gate,
    initial: Float[Tensor, "B k d"],
) -> Float[Tensor, "B n d"]:
    """The same without a loop, for compiled and exported graphs of any length: O((n / chunk)²) products."""
    alpha = torch.ones_like(k[:, :, 0]) if alpha is None else alpha
    # Padded by a constant, to two chunks or more: a compiler takes 1 for a constant, and cannot prove that a view
    # divides any length, so places are looked up.
    n, more = k.shape[1], 2 * CHUNK - 1
    row = torch.arange((n + more) // CHUNK, device=k.device)
    places = CHUNK * row[:, None] + torch.arange(CHUNK, device=k.device)
    k, v, q = (torch.nn.functional.pad(x, (0, 0, 0, more))[:, places] for x in (k, v, q))
    decays = _decays(torch.nn.functional.pad(alpha, (0, more), value=1.0)[:, places])
    written = (k * decays.after[..., None]).mT @ v
    # What is left, at the start of chunk t, of chunk s and of the initial memory.
    kept = decays.kept.roll(1, 1)
    left = torch.where(row[:, None] - 1 > row, kept[:, :, None], 1).cumprod(1) * (row[:, None] > row)
    of_initial = torch.where(row > 0, kept, 1).cumprod(1)[:, :, None, None] * initial[:, None]
    before = torch.einsum("bts,bskd->btkd", left, written) + of_initial
    readouts = (q * decays.since[..., None]) @ before + ((q @ k.mT) * decays.between) @ v
    return readouts.flatten(1, 2).index_select(1, torch.arange(n, device=k.device))


def sequence_starts(cu_seqlens: Tensor | list[int] | tuple[int, ...], n: int) -> Int[Tensor, " starts"]:
    """The places of the first tokens of packed sequences; places that go backwards are refused.

    >>> sequence_starts(torch.tensor([0, 2, 2, 5]), 5).tolist()  # the second is empty
    [0, 2, 2]
    """
    places = checks.whole_numbers("cu_seqlens", cu_seqlens)
    if places.ndim != 1 or len(places) == 0:
        raise ShapeError.expected("cu_seqlens", "whole numbers [S + 1]", checks.shape_of(places))
    starts = places[:-1].to(torch.int64)
    if checks.is_traced() or places.is_meta:
        return starts
    if int(places[0]) != 0 or int(places[-1]) != n or bool((places.diff() < 0).any()):
        came = str(places.tolist()) if len(places) < 9 else f"{places[:8].tolist()} …"
        raise ShapeError.expected("cu_seqlens", f"numbers that go from 0 up to {n}", came)
    return starts[starts < n]
