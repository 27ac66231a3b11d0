"""GRUs over ragged batches: forward over documents, and backward over the sentences of all documents at once."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from attar.ops.checks import Lengths, choose_backend

Hidden = tuple[Float[Tensor, "B n k"], Float[Tensor, "B s"]]
# As `attar.ops.triton.gru.LARGEST`, which is imported on a GPU only.
LARGEST_IN_KERNEL = 128


def blank(x: Float[Tensor, "B n d"], mask: Bool[Tensor, "B n"] | None) -> Float[Tensor, "B n d"]:
    """The same with 0 in padding."""
    return x if mask is None else x.masked_fill(~mask[:, :, None], 0)


def cut_long_sentences(ends: Bool[Tensor, "B n"], longest: int) -> Bool[Tensor, "B n"]:
    """The ends, and additional ones after every `longest` tokens of a sentence.

    >>> cut_long_sentences(torch.tensor([[False, True, False, False, False, True]]), 2).int().tolist()
    [[0, 1, 0, 1, 0, 1]]
    """
    if ends.numel() == 0:
        return ends
    # A sentence without an end in its row is cut as if it ended there: padding is not read.
    last = nn.functional.pad(ends[:, :-1], (0, 1), value=True).flatten().nonzero()[:, 0]
    before = nn.functional.pad(last[:-1], (1, 0), value=-1)
    cuts = (last - before) // longest
    sentence = torch.repeat_interleave(cuts)
    nth = torch.arange(1, len(sentence) + 1, device=ends.device) - (cuts.cumsum(0) - cuts)[sentence]
    return ends.flatten().index_fill(0, before[sentence] + longest * nth, True).view_as(ends)


def read_forward(
    gru: nn.GRU, x: Float[Tensor, "B n d"], mask: Bool[Tensor, "B n"] | None, state: Float[Tensor, "B s"]
) -> Hidden:
    """The states from left to right, and each document's last one: padding comes after it, and is not read."""
    batch, n, _ = x.shape
    if batch == 0 or n == 0:
        return x.new_zeros(batch, n, gru.hidden_size), state
    if uses_kernel(gru, x):
        starts = torch.arange(0, batch * n, n, device=x.device)
        lengths = starts.new_full((batch,), n) if mask is None else mask.sum(1)
        hidden = _read_sequences(gru, x, state, starts, lengths, 1)  # 0 in padding
        last = hidden[:, -1]
    else:
        hidden, final = gru(x, state[None].contiguous())
        hidden, last = blank(hidden, mask), final[0]
    if mask is None:
        return hidden, last
    tokens = mask.sum(1)[:, None]
    at = (tokens - 1).clamp(min=0)[:, :, None].expand(-1, -1, gru.hidden_size)
    return hidden, torch.where(tokens > 0, hidden.gather(1, at)[:, 0], state.to(hidden.dtype))


def read_backward(
    gru: nn.GRU, x: Float[Tensor, "B n d"], lengths: Lengths, ends: Bool[Tensor, "B n"]
) -> Float[Tensor, "B n s"]:
    """The states from right to left, from 0 at every end; all sentences of all documents in one batch."""
    batch, n, _ = x.shape
    if uses_kernel(gru, x):
        last, counts = _sentences(ends, lengths)
        state = x.new_zeros(len(last), gru.hidden_size)
        last, counts = (each.to(x.device, non_blocking=True) for each in (last, counts))
        return _read_sequences(gru, x, state, last, counts, -1)
    source, at_once = sort_backward(ends, lengths)
    if source.numel() == 0:
        return x.new_zeros(batch, n, gru.hidden_size)
    source = source.to(x.device, non_blocking=True)
    # Packed, so that one long sentence does not pad the others to its own length.
    packed = PackedSequence(x.flatten(0, 1).index_select(0, source), at_once.cpu())
    states: Tensor = gru(packed)[0].data
    hidden = states.new_zeros(batch * n, gru.hidden_size).index_copy(0, source, states)
    return hidden.view(batch, n, gru.hidden_size)


def uses_kernel(gru: nn.GRU, x: Float[Tensor, "B n d"]) -> bool:
    """Whether the Triton kernel runs: for float32 on a GPU, where cuDNN's GRU takes more than twice as long to train.

    It is as exact as tf32, which cuDNN's is too unless torch disallows it.
    """
    fits = (
        gru.hidden_size <= LARGEST_IN_KERNEL and x.dtype == torch.float32 and torch.backends.cudnn.allow_tf32
    )
    return fits and not torch.compiler.is_compiling() and choose_backend("auto", x) == "triton"


def _read_sequences(
    gru: nn.GRU,
    x: Float[Tensor, "B n d"],
    state: Float[Tensor, "S s"],
    starts: Int[Tensor, " S"],
    lengths: Int[Tensor, " S"],
    step: int,
) -> Float[Tensor, "B n s"]:
    """The states of sequences of tokens, by their indices in the flattened batch; 0 elsewhere."""
    from attar.ops.triton.gru import scan_gru

    k = gru.hidden_size
    inner, outer = gru.get_parameter("weight_ih_l0"), gru.get_parameter("weight_hh_l0")
    added, recurrent = gru.get_parameter("bias_ih_l0"), gru.get_parameter("bias_hh_l0")
    # All biases are added here except the new gate's recurrent one, which goes through the reset gate.
    bias = added + nn.functional.pad(recurrent[: 2 * k], (0, k))
    with torch.autocast(x.device.type, enabled=False):
        gates = nn.functional.linear(x, inner, bias).flatten(0, 1)
        places = (starts.to(torch.int32), lengths.to(torch.int32))
        hidden = scan_gru(gates, outer, recurrent[2 * k :], state, *places, step)
    return hidden.view(*x.shape[:2], k)


def _sentences(
    ends: Bool[Tensor, "B n"], lengths: Lengths = None
) -> tuple[Int[Tensor, " S"], Int[Tensor, " S"]]:
    """The index of each sentence's last token in the flattened batch, and its length, longest first.

    >>> last, counts = _sentences(torch.tensor([[True, False, False, True, False]]))
    >>> last.tolist(), counts.tolist()  # sentences: 0 | 1 2 3 | 4
    ([3, 0, 4], [3, 1, 1])
    """
    batch, n = ends.shape
    tokens = torch.full((batch,), n) if lengths is None else torch.as_tensor(lengths)
    tokens = tokens.to(ends.device, torch.int64)[:, None]
    place = torch.arange(n, device=ends.device)
    ending = (ends & (place < tokens)) | (place == tokens - 1)
    last = ending.flatten().nonzero()[:, 0]
    row = last // n if n else last
    before = nn.functional.pad(last[:-1], (1, 0), value=-1)
    # A document's first sentence begins with the document, not after the padding of the previous one.
    counts = last - torch.maximum(before, row * n - 1)
    order = counts.argsort(descending=True, stable=True)
    return last[order], counts[order]


def sort_backward(
    ends: Bool[Tensor, "B n"], lengths: Lengths = None
) -> tuple[Int[Tensor, " t"], Int[Tensor, " steps"]]:
    """The order in which tokens are read backward: first every sentence's last token, then those before them.

    The tokens' indices in the flattened batch, longest sentence first within a step, and the number of sentences
    read at each step: the parts of a packed sequence.

    >>> source, at_once = sort_backward(torch.tensor([[True, False, False, True, False]]))
    >>> source.tolist(), at_once.tolist()  # sentences: 0 | 1 2 3 | 4
    ([3, 0, 4, 2, 1], [3, 1, 1])
    """
    last, counts = _sentences(ends, lengths)
    sentence = torch.repeat_interleave(counts)
    step = torch.arange(len(sentence), device=ends.device) - (counts.cumsum(0) - counts)[sentence]
    at_once = torch.bincount(step)
    # Sentences are sorted by length: those that are read at a step are the first ones.
    place = (at_once.cumsum(0) - at_once)[step] + sentence
    source = torch.empty_like(sentence)
    source[place] = last[sentence] - step
    return source, at_once
