"""GRUs over words that they know beforehand, on the CPU: the product with every word is made once and kept.

    r, z = σ(x W_x + b + h W_h)        n = tanh(x W_n + b_n + r ⊙ (h W_hn + b_hn))        h ← n + z ⊙ (h − n)

x W + b is a word's own, whatever came before it: a row of a table. What is left of a step is the product of the
state, half of the arithmetic where states are as wide as embeddings, a third where each way has half of them.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from attar.nn import Encoder, GRUEncoder, TwoWayEncoder

# Fewer texts than this are read by the GRU itself: each of its steps costs less to begin than one from Python.
TABLES_FROM = 12


class TabledGRU:
    """An `nn.GRU` of one layer that reads ids, all texts at once, step by step.

    >>> gru, words = nn.GRU(3, 2, batch_first=True), nn.Embedding(5, 3)
    >>> ids = torch.tensor([[4, 1], [2, 2]])
    >>> with torch.inference_mode():
    ...     states = TabledGRU(gru, words).read(ids.T.flatten(), [2, 2], torch.zeros(2, 2))
    ...     torch.allclose(states.view(2, 2, 2).transpose(0, 1), gru(words(ids))[0], atol=1e-6)
    True
    """

    def __init__(self, gru: nn.GRU, words: nn.Embedding) -> None:
        self.gru, self.words = gru, words
        self.size = k = gru.hidden_size
        of = dict(gru.named_parameters())
        with torch.inference_mode():
            given = nn.functional.linear(words.weight, of["weight_ih_l0"], of["bias_ih_l0"])
            weight, bias = of["weight_hh_l0"], of["bias_hh_l0"]
            self.gates = given[:, : 2 * k] + bias[: 2 * k]
            self.news = given[:, 2 * k :].contiguous()
            self.gate_weight, self.new_weight = weight[: 2 * k].T.contiguous(), weight[2 * k :].T.contiguous()
            self.new_bias = bias[2 * k :].clone()

    def read(self, ids: Tensor, at_once: Sequence[int], state: Tensor) -> Tensor:
        """The states `[t, k]` of ids `[t]` in the order of a packed sequence, from a state `[B, k]` on.

        So many are read at each step, of the first texts only once others have ended.
        """
        if at_once and at_once[0] < TABLES_FROM:
            few = PackedSequence(self.words(ids), torch.tensor(at_once))
            packed: Tensor = self.gru(few, state[None, : at_once[0]].contiguous())[0].data
            return packed
        states = state.new_empty(len(ids), self.size)
        start = 0
        for count in at_once:
            after = states.narrow(0, start, count)
            self.step(ids.narrow(0, start, count), state.narrow(0, 0, count), after)
            state, start = after, start + count
        return states

    def read_last(self, ids: Tensor, at_once: Sequence[int]) -> Tensor:
        """The last state `[B, k]` of each text, from 0 on."""
        state = self.gates.new_zeros(at_once[0] if at_once else 0, self.size)
        start = 0
        for count in at_once:
            own = state.narrow(0, 0, count)
            self.step(ids.narrow(0, start, count), own, own)
            start += count
        return state

    def step(self, ids: Tensor, state: Tensor, out: Tensor) -> None:
        """Write the states after one more token each; over the old ones, if these are given as `out`."""
        gates = self.gates.index_select(0, ids).addmm_(state, self.gate_weight).sigmoid_()
        opened, kept = gates.chunk(2, 1)
        found = torch.addmm(self.new_bias, state, self.new_weight)
        new = self.news.index_select(0, ids).addcmul_(opened, found).tanh_()
        torch.lerp(new, state, kept, out=out)


class TabledGRUs:
    """The GRUs of an encoder, onward and back, with the tables of its weights as they are now."""

    def __init__(self, encoder: Encoder, words: nn.Embedding) -> None:
        self.encoder, self.words = encoder, words
        self._made_of: list[tuple[int, int]] = []
        self._tables: list[TabledGRU] = []

    def open(self) -> list[TabledGRU]:
        """Tables of these very weights, made anew after others were loaded; none where there are no GRUs."""
        encoder = self.encoder
        if self.words.weight.device.type != "cpu" or not isinstance(encoder, GRUEncoder | TwoWayEncoder):
            return []
        weights = [self.words.weight, *encoder.parameters()]
        # What was loaded under inference mode cannot be trained on, and counts no versions.
        made_of = [(each.data_ptr(), 0 if each.is_inference() else each._version) for each in weights]
        if made_of != self._made_of:
            grus = [encoder.onward] if isinstance(encoder, GRUEncoder) else [encoder.onward, encoder.back]
            self._tables, self._made_of = [TabledGRU(gru, self.words) for gru in grus], made_of
        return self._tables


def sort_onward(lengths: Tensor, width: int) -> tuple[Tensor, list[int], Tensor]:
    """The order in which texts `[B, width]` are read side by side, the longest first.

    The tokens' places in the flattened batch, how many are read at each step, and the texts' order.

    >>> places, at_once, order = sort_onward(torch.tensor([1, 3]), 3)
    >>> places.tolist(), at_once, order.tolist()
    ([3, 0, 4, 5], [2, 1, 1], [1, 0])
    """
    order = lengths.argsort(descending=True, stable=True)
    step = torch.arange(width)[:, None]
    inside = step < lengths[order]
    at_once = inside.sum(1)
    return (order * width + step)[inside], at_once[at_once > 0].tolist(), order
