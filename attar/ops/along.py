"""Readouts at every position: the t-th query meets the memory of the tokens up to t, itself included.

    C_t = α_t C_{t-1} + β_t k_t v_tᵀ        R_t = C_tᵀ q_t

In chunks: within a chunk scores q_t · k_s for s ≤ t, decayed, times the values; from before the chunk one product with
the memory at its start. These memories are sums over chunks, n / L of them and not n.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attar.errors import OptionError, ShapeError
from attar.ops import checks
from attar.ops.gram import decay_after, neutral_in_padding
from attar.ops.reference import Gate, blank_padding

CHUNK = 64


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
        readouts = _in_chunks(k_, v, q, alpha, None if initial is None else initial.to(dtype))
    return readouts.to(queries.dtype)


def _in_chunks(
    k: Float[Tensor, "B n k"],
    v: Float[Tensor, "B n d"],
    q: Float[Tensor, "B n k"],
    alpha: Gate,
    initial: Float[Tensor, "B k d"] | None,
) -> Float[Tensor, "B n d"]:
    n = k.shape[1]
    # A graph of any length is padded by a constant, and has two chunks or more: a compiler takes 1 for a constant.
    traced = torch.compiler.is_compiling()
    missing = 2 * CHUNK - 1 if traced else -n % CHUNK
    if n == 0:
        return v
    if missing:
        k, v, q = (torch.nn.functional.pad(x, (0, 0, 0, missing)) for x in (k, v, q))
    sums_before = _sums_before_as_product if traced else _sums_before
    k, v, q = (_chunked(x) for x in (k, v, q))
    scores = q @ k.mT
    first = torch.zeros_like(k[:, 0].mT @ v[:, 0]) if initial is None else initial
    if alpha is None:
        scores = scores.tril_()
        before = sums_before(first, k.mT @ v, None)
    else:
        alpha = torch.nn.functional.pad(alpha, (0, missing), value=1.0)
        alpha = _chunked(alpha[:, :, None])[..., 0]
        # ∏_{s<u≤t} α_u as a running product down each column: α = 0 and α < 0 are allowed.
        below = torch.ones(CHUNK, CHUNK, dtype=torch.bool, device=k.device).tril(-1)
        scores = scores * torch.where(below, alpha[..., :, None], 1).cumprod(2).tril()
        after, kept = decay_after(alpha)
        before = sums_before(first, (k * after[..., None]).mT @ v, kept)
        q = q * alpha.cumprod(2)[..., None]
    # One product adds to the other: a pass over all readouts less.
    both = torch.baddbmm(*(x.flatten(0, 1) for x in (q @ before, scores, v)))
    readouts = both.view(v.shape[0], v.shape[1] * CHUNK, v.shape[3])
    return readouts.index_select(1, torch.arange(n, device=k.device)) if traced else readouts[:, :n]


def _chunked(x: Float[Tensor, "B n d"]) -> Float[Tensor, "B c chunk d"]:
    """A copy in a graph of any length, whose compiler cannot prove that a view divides it."""
    if torch.compiler.is_compiling():
        place = torch.arange(CHUNK, device=x.device)
        return x[:, CHUNK * torch.arange(x.shape[1] // CHUNK, device=x.device)[:, None] + place]
    return x.reshape(x.shape[0], x.shape[1] // CHUNK, CHUNK, x.shape[2])


def _sums_before(
    first: Float[Tensor, "B k d"], written: Float[Tensor, "B c k d"], kept: Float[Tensor, "B c"] | None
) -> Float[Tensor, "B c k d"]:
    """The memory before each chunk; a loop, which takes half the time of a cumulative sum."""
    memories = [first]
    for chunk, new in enumerate(written.unbind(1)[:-1]):
        last = memories[-1]
        memories.append(last + new if kept is None else torch.addcmul(new, last, kept[:, chunk, None, None]))
    return torch.stack(memories, 1)


def _sums_before_as_product(
    first: Float[Tensor, "B k d"], written: Float[Tensor, "B c k d"], kept: Float[Tensor, "B c"] | None
) -> Float[Tensor, "B c k d"]:
    """The same without a loop, for a graph of any number of chunks: O(c²) products."""
    batch, chunks = written.shape[:2]
    kept = written.new_ones(batch, chunks) if kept is None else kept
    # ∏ of what the chunks from s + 1 to t - 1 keep, in row t and column s.
    row = torch.arange(chunks, device=written.device)
    between = row[:, None] - 1 > row
    since = torch.where(between, kept.roll(1, 1)[:, :, None], 1).cumprod(1)
    since = since * (row[:, None] > row)
    whole = torch.where(row > 0, kept.roll(1, 1), 1).cumprod(1)
    return torch.einsum("bts,bskd->btkd", since, written) + whole[:, :, None, None] * first[:, None]


def sequence_starts(cu_seqlens: Tensor | list[int] | tuple[int, ...], n: int) -> Int[Tensor, " starts"]:
    """The places of the first tokens of packed sequences; places that go backwards are refused.

    >>> sequence_starts(torch.tensor([0, 2, 2, 5]), 5).tolist()  # the second is empty
    [0, 2, 2]
    """
    places = torch.as_tensor(cu_seqlens)
    if places.ndim != 1 or len(places) == 0 or places.is_floating_point() or places.dtype == torch.bool:
        raise ShapeError.expected(
            "cu_seqlens", "whole numbers [S + 1]", f"{places.dtype} {checks.shape_of(places)}"
        )
    starts = places[:-1].to(torch.int64)
    if checks.is_traced() or places.is_meta:
        return starts
    if int(places[0]) != 0 or int(places[-1]) != n or bool((places.diff() < 0).any()):
        came = str(places.tolist()) if len(places) < 9 else f"{places[:8].tolist()} …"
        raise ShapeError.expected("cu_seqlens", f"numbers that go from 0 up to {n}", came)
    return starts[starts < n]
