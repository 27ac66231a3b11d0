"""Encoders: embeddings to hidden states, for documents and for questions.

| name          | a state sees                          |
|---------------|---------------------------------------|
| gru           | what came before: the paper's         |
| lookahead     | also the rest of its own sentence     |
| bidirectional | the whole text                        |
| second-order  | what came before, through C = Σ h hᵀ  |
"""

from abc import ABC, abstractmethod

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from attar.ops.checks import accumulation_dtype, length_mask
from attar.ops.reference import squash

States = Float[Tensor, "B n k"]
Embeddings = Float[Tensor, "B n d"]
Lengths = Int[Tensor, " B"]
Ends = Bool[Tensor, "B n"]
Mask = Bool[Tensor, "B n"] | None


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
    """A forward and a backward GRU of half the size each, their states concatenated.

    The backward GRU starts from 0 at the end of every sentence ("lookahead"), or of the text ("bidirectional").
    """

    def __init__(self, input_size: int, size: int, *, whole_text: bool) -> None:
        super().__init__(input_size, size)
        self.whole_text = whole_text
        self.forward_gru = nn.GRU(input_size, size - size // 2, batch_first=True)
        self.backward_gru = nn.GRU(input_size, size // 2, batch_first=True)

    def read(self, x: Embeddings, lengths: Lengths, mask: Mask, ends: Ends | None) -> States:
        if self.whole_text or ends is None:
            # On the CPU, where sorting sentences needs no GPU.
            ends = torch.zeros(x.shape[:2], dtype=torch.bool)
        forward = read_forward(self.forward_gru, x, mask)
        return torch.cat([forward, read_backward(self.backward_gru, x, lengths, ends)], 2)


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
            wide = h.to(C.dtype)
            C = C + wide[:, :, None] * wide[:, None, :]
            hidden.append(h)
        return _blank(torch.stack(hidden, 1), mask) if hidden else x.new_zeros(batch, 0, self.size)


def make_encoder(name: str, input_size: int, size: int) -> Encoder:
    if name == "gru":
        return GRUEncoder(input_size, size)
    if name == "second-order":
        return SecondOrderEncoder(input_size, size)
    return TwoWayEncoder(input_size, size, whole_text=name == "bidirectional")


def _blank(x: Embeddings, mask: Mask) -> Embeddings:
    """The same with 0 in padding."""
    return x if mask is None else x.masked_fill(~mask[:, :, None], 0)


def read_forward(gru: nn.GRU, x: Embeddings, mask: Mask) -> States:
    """The states from left to right; padding comes after a document's last token, and is not read."""
    batch, n, _ = x.shape
    if batch == 0 or n == 0:
        return x.new_zeros(batch, n, gru.hidden_size)
    states: Tensor = gru(x)[0]
    return _blank(states, mask)


def read_backward(gru: nn.GRU, x: Embeddings, lengths: Lengths, ends: Ends) -> States:
    """The states from right to left, from 0 at every end; all sentences of all documents in one batch."""
    batch, n, _ = x.shape
    source, at_once = sort_backward(ends, lengths)
    if source.numel() == 0:
        return x.new_zeros(batch, n, gru.hidden_size)
    source = source.to(x.device, non_blocking=True)
    # Packed, so that one long sentence does not pad the others to its own length.
    packed = PackedSequence(x.flatten(0, 1).index_select(0, source), at_once.cpu())
    states: Tensor = gru(packed)[0].data
    hidden = states.new_zeros(batch * n, gru.hidden_size).index_copy(0, source, states)
    return hidden.view(batch, n, gru.hidden_size)


def sort_backward(ends: Ends, lengths: Lengths) -> tuple[Int[Tensor, " t"], Int[Tensor, " steps"]]:
    """The order in which tokens are read backward: first every sentence's last token, then those before them.

    The tokens' indices in the flattened batch, longest sentence first within a step, and the number of sentences
    read at each step: the parts of a packed sequence.

    >>> source, at_once = sort_backward(torch.tensor([[True, False, False, True, False]]), torch.tensor([5]))
    >>> source.tolist(), at_once.tolist()  # sentences: 0 | 1 2 3 | 4
    ([3, 0, 4, 2, 1], [3, 1, 1])
    """
    n = ends.shape[1]
    tokens = lengths.to(ends.device, torch.int64)[:, None]
    place = torch.arange(n, device=ends.device)
    last = ((ends & (place < tokens)) | (place == tokens - 1)).flatten().nonzero()[:, 0]
    before = nn.functional.pad(last[:-1], (1, 0), value=-1)
    # A document's first sentence begins with the document, not after the padding of the previous one.
    counts = last - torch.maximum(before, last // max(n, 1) * n - 1)
    counts, order = counts.sort(descending=True, stable=True)
    last = last[order]
    sentence = torch.repeat_interleave(counts)
    step = torch.arange(len(sentence), device=ends.device) - (counts.cumsum(0) - counts)[sentence]
    at_once = torch.bincount(step)
    # Sentences are sorted by length: those that are read at a step are the first ones.
    source = torch.empty_like(sentence)
    source[(at_once.cumsum(0) - at_once)[step] + sentence] = last[sentence] - step
    return source, at_once
