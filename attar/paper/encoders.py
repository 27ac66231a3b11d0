"""Encoders: embeddings to hidden states, for documents and for questions.

| name          | a state sees                          |
|---------------|---------------------------------------|
| gru           | what came before: the paper's         |
| lookahead     | also the rest of its own sentence     |
| bidirectional | the whole text                        |
| second-order  | what came before, through C = Σ h hᵀ  |
"""

from abc import ABC, abstractmethod
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from attar.ops.checks import accumulation_dtype, choose_backend, length_mask
from attar.ops.reference import squash

States = Float[Tensor, "B n k"]
Embeddings = Float[Tensor, "B n d"]
Lengths = Int[Tensor, " B"]
Ends = Bool[Tensor, "B n"]
Mask = Bool[Tensor, "B n"] | None
# As `attar.paper.gru_kernel.LARGEST`, which is imported on a GPU only.
LARGEST_IN_KERNEL = 128
# A longer sentence is cut: a GPU reads all sentences in one batch, in as many steps as the longest has. 93 % of the
# novels' sentences are no longer, and 96 % of the Wikipedia texts'.
LONGEST_LOOK = 48


class Encoder(nn.Module, ABC):
    """Embeddings of `input_size` dimensions to states of `size` dimensions."""

    def __init__(self, input_size: int, size: int) -> None:
        super().__init__()
        self.input_size, self.size = input_size, size

    def forward(self, x: Embeddings, lengths: Lengths, sentence_ends: Ends | None = None) -> States:
        """The states, 0 in padding. `sentence_ends` is true at the last token of each sentence.

        Lengths and ends may be on the CPU while the embeddings are on a GPU, which then waits for nothing.
        """
        mask = length_mask(lengths, x)
        # Padding must not meet a weight: 0 · NaN would reach its gradient.
        return self.read(_blank(x, mask), lengths, mask, sentence_ends)

    @abstractmethod
    def read(self, x: Embeddings, lengths: Lengths, mask: Mask, ends: Ends | None) -> States:
        """The states of embeddings that are 0 in padding; they are 0 there, too."""


class GRUEncoder(Encoder):
    """A forward GRU, the paper's encoder."""

    def __init__(self, input_size: int, size: int) -> None:
        super().__init__(input_size, size)
        self.forward_gru = nn.GRU(input_size, size, batch_first=True)

    def read(self, x: Embeddings, lengths: Lengths, mask: Mask, ends: Ends | None) -> States:
        return read_forward(self.forward_gru, x, mask)


class TwoWayEncoder(Encoder):
    """A forward and a backward GRU: of size k / 2 each and concatenated ("halves"), or of size k and added ("sum").

    The backward GRU starts from 0 at the end of every sentence ("lookahead"), or of the text ("bidirectional").
    """

    def __init__(
        self, input_size: int, size: int, join: Literal["halves", "sum"], *, whole_text: bool
    ) -> None:
        super().__init__(input_size, size)
        self.join, self.whole_text = join, whole_text
        back_size = size if join == "sum" else size // 2
        forward_size = size if join == "sum" else size - back_size
        self.forward_gru = nn.GRU(input_size, forward_size, batch_first=True)
        self.backward_gru = nn.GRU(input_size, back_size, batch_first=True)

    def read(self, x: Embeddings, lengths: Lengths, mask: Mask, ends: Ends | None) -> States:
        if self.whole_text or ends is None:
            # On the CPU, where sorting sentences needs no GPU.
            ends = torch.zeros(x.shape[:2], dtype=torch.bool)
        if not self.whole_text:
            ends = cut_long_sentences(ends, LONGEST_LOOK)
        forward = read_forward(self.forward_gru, x, mask)
        back = read_backward(self.backward_gru, x, lengths, ends)
        return forward + back if self.join == "sum" else torch.cat([forward, back], 2)


class SecondOrderEncoder(Encoder):
    """A GRU that also reads its own second-order memory, the unit of the paper's discussion.

        h_t = GRU([x_t, squash(C h_{t-1})], h_{t-1})        C ← C + h_t h_tᵀ

    C h grows with everything that was read, so it is squashed. Token by token: for experiments, not for speed.
    """

    def __init__(self, input_size: int, size: int) -> None:
        super().__init__(input_size, size)
        self.cell = nn.GRUCell(input_size + size, size)

    def read(self, x: Embeddings, lengths: Lengths, mask: Mask, ends: Ends | None) -> States:
        batch, n, _ = x.shape
        h = x.new_zeros(batch, self.size)
        # A long sum: in half precision it would stop growing.
        C = x.new_zeros(batch, self.size, self.size, dtype=accumulation_dtype(x.dtype))
        hidden = []
        for t in range(n):
            reading = squash(torch.bmm(C, h[:, :, None].to(C.dtype))[:, :, 0]).to(x.dtype)
            # Padding comes after a text's last token: what is computed there reaches no state of a token.
            h = self.cell(torch.cat([x[:, t], reading], 1), h)
            C = C + h[:, :, None] * h[:, None, :]
            hidden.append(h)
        return _blank(torch.stack(hidden, 1), mask) if hidden else x.new_zeros(batch, 0, self.size)


def make_encoder(name: str, input_size: int, size: int, join: Literal["halves", "sum"] = "halves") -> Encoder:
    if name == "gru":
        return GRUEncoder(input_size, size)
    if name == "second-order":
        return SecondOrderEncoder(input_size, size)
    return TwoWayEncoder(input_size, size, join, whole_text=name == "bidirectional")


def _blank(x: Embeddings, mask: Mask) -> Embeddings:
    """The same with 0 in padding."""
    return x if mask is None else x.masked_fill(~mask[:, :, None], 0)


def read_forward(gru: nn.GRU, x: Embeddings, mask: Mask) -> States:
    """The states from left to right; padding comes after a document's last token, and is not read."""
    batch, n, _ = x.shape
    if batch == 0 or n == 0:
        return x.new_zeros(batch, n, gru.hidden_size)
    if uses_kernel(gru, x):
        starts = torch.arange(0, batch * n, n, device=x.device)
        counts = starts.new_full((batch,), n) if mask is None else mask.sum(1)
        return _read_sequences(gru, x, starts, counts, 1)
    states: Tensor = gru(x)[0]
    return _blank(states, mask)


def read_backward(gru: nn.GRU, x: Embeddings, lengths: Lengths, ends: Ends) -> States:
    """The states from right to left, from 0 at every end; all sentences of all documents in one batch."""
    batch, n, _ = x.shape
    if uses_kernel(gru, x):
        last, counts = (tensor.to(x.device, non_blocking=True) for tensor in find_sentences(ends, lengths))
        return _read_sequences(gru, x, last, counts, -1)
    source, at_once = sort_backward(ends, lengths)
    if source.numel() == 0:
        return x.new_zeros(batch, n, gru.hidden_size)
    source = source.to(x.device, non_blocking=True)
    # Packed, so that one long sentence does not pad the others to its own length.
    packed = PackedSequence(x.flatten(0, 1).index_select(0, source), at_once.cpu())
    states: Tensor = gru(packed)[0].data
    hidden = states.new_zeros(batch * n, gru.hidden_size).index_copy(0, source, states)
    return hidden.view(batch, n, gru.hidden_size)


def uses_kernel(gru: nn.GRU, x: Embeddings) -> bool:
    """Whether the Triton kernel runs: for float32 on a GPU, where cuDNN's GRU takes more than twice as long to train.

    It is as exact as tf32, which cuDNN's is too unless torch disallows it.
    """
    exact_enough = x.dtype == torch.float32 and torch.backends.cudnn.allow_tf32
    fits = gru.hidden_size <= LARGEST_IN_KERNEL and exact_enough
    return fits and not torch.compiler.is_compiling() and choose_backend("auto", x) == "triton"


def _read_sequences(
    gru: nn.GRU, x: Embeddings, starts: Int[Tensor, " S"], lengths: Int[Tensor, " S"], step: int
) -> States:
    """The states of sequences of tokens, by their indices in the flattened batch; 0 elsewhere."""
    from attar.paper.gru_kernel import scan_gru

    k = gru.hidden_size
    inner, outer = gru.get_parameter("weight_ih_l0"), gru.get_parameter("weight_hh_l0")
    added, recurrent = gru.get_parameter("bias_ih_l0"), gru.get_parameter("bias_hh_l0")
    # All biases are added here except the new gate's recurrent one, which goes through the reset gate.
    bias = added + nn.functional.pad(recurrent[: 2 * k], (0, k))
    initial = x.new_zeros(len(starts), k)
    with torch.autocast(x.device.type, enabled=False):
        gates = nn.functional.linear(x, inner, bias).flatten(0, 1)
        places = (starts.to(torch.int32), lengths.to(torch.int32))
        hidden = scan_gru(gates, outer, recurrent[2 * k :], initial, *places, step)
    return hidden.view(*x.shape[:2], k)


def cut_long_sentences(ends: Ends, longest: int) -> Ends:
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


def find_sentences(ends: Ends, lengths: Lengths) -> tuple[Int[Tensor, " S"], Int[Tensor, " S"]]:
    """The index of each sentence's last token in the flattened batch, and its length, longest first.

    >>> last, counts = find_sentences(torch.tensor([[True, False, False, True, False]]), torch.tensor([5]))
    >>> last.tolist(), counts.tolist()  # sentences: 0 | 1 2 3 | 4
    ([3, 0, 4], [3, 1, 1])
    """
    n = ends.shape[1]
    tokens = lengths.to(ends.device, torch.int64)[:, None]
    place = torch.arange(n, device=ends.device)
    ending = (ends & (place < tokens)) | (place == tokens - 1)
    last = ending.flatten().nonzero()[:, 0]
    row = last // n if n else last
    before = nn.functional.pad(last[:-1], (1, 0), value=-1)
    # A document's first sentence begins with the document, not after the padding of the previous one.
    counts = last - torch.maximum(before, row * n - 1)
    order = counts.argsort(descending=True, stable=True)
    return last[order], counts[order]


def sort_backward(ends: Ends, lengths: Lengths) -> tuple[Int[Tensor, " t"], Int[Tensor, " steps"]]:
    """The order in which tokens are read backward: first every sentence's last token, then those before them.

    The tokens' indices in the flattened batch, longest sentence first within a step, and the number of sentences
    read at each step: the parts of a packed sequence.

    >>> source, at_once = sort_backward(torch.tensor([[True, False, False, True, False]]), torch.tensor([5]))
    >>> source.tolist(), at_once.tolist()  # sentences: 0 | 1 2 3 | 4
    ([3, 0, 4, 2, 1], [3, 1, 1])
    """
    last, counts = find_sentences(ends, lengths)
    sentence = torch.repeat_interleave(counts)
    step = torch.arange(len(sentence), device=ends.device) - (counts.cumsum(0) - counts)[sentence]
    at_once = torch.bincount(step)
    # Sentences are sorted by length: those that are read at a step are the first ones.
    place = (at_once.cumsum(0) - at_once)[step] + sentence
    source = torch.empty_like(sentence)
    source[place] = last[sentence] - step
    return source, at_once
