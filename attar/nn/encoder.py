"""Encoders: tokens to hidden states, with a state to carry on from, so that reading goes on.

| name          | sees                                   | state  | reading in two parts equals reading at once |
|---------------|----------------------------------------|--------|---------------------------------------------|
| gru           | what came before                       | k      | at any token                                |
| lookahead     | also the rest of its own sentence      | k / 2  | at a sentence's end                         |
| bidirectional | the whole text                         | –      | never                                       |
| second-order  | what came before, through C = Σ h hᵀ   | k + k² | at any token                                |

A state is one tensor `[B, state_size]`, whatever the encoder: it can be stored beside a memory.
"""

import inspect
from abc import ABC, abstractmethod
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attar.errors import DtypeError, OptionError, ShapeError
from attar.nn.directions import Hidden, blank, cut_long_sentences, no_ends, read_backward, read_onward
from attar.ops import checks
from attar.ops.gates import squash

Join = Literal["halves", "sum"]
# Nine sentences of ten in novels are shorter.
LONGEST_LOOK = 48


class Encoder(nn.Module, ABC):
    """Embeddings of `input_size` numbers to states of `size` numbers, read from left to right."""

    name: str
    state_size: int

    def __init__(self, input_size: int, size: int) -> None:
        super().__init__()
        for what, number in (("input_size", input_size), ("size", size)):
            if isinstance(number, bool) or not isinstance(number, int) or number < 1:
                raise OptionError(what, "a whole number from 1 up", repr(number))
        self.input_size, self.size = input_size, size

    @abstractmethod
    def forward(
        self,
        x: Float[Tensor, "B n d"],
        lengths: checks.Lengths = None,
        *,
        sentence_ends: Bool[Tensor, "B n"] | None = None,
        state: Float[Tensor, "B s"] | None = None,
    ) -> Hidden:
        """The hidden states, 0 in padding, and the state to read on from.

        `sentence_ends` is true at the last token of each sentence; encoders that do not look ahead ignore it.
        """

    def check(
        self, x: Float[Tensor, "B n d"], lengths: checks.Lengths, state: Float[Tensor, "B s"] | None
    ) -> tuple[Float[Tensor, "B n d"], Bool[Tensor, "B n"] | None, Float[Tensor, "B s"]]:
        """The tokens with blank padding, where they are, and the state to start from."""
        checks.check_floats("x", x, "B n d")
        batch = x.shape[0]
        if x.shape[2] != self.input_size:
            raise ShapeError("x", f"[B, n, {self.input_size}]", checks.shape_of(x))
        if state is None:
            state = x.new_zeros(batch, self.state_size)
        checks.check_floats("state", state, "B s")
        checks.check_shape("state", state, (batch, self.state_size), "the state that this encoder gave")
        checks.check_device("state", state, x)
        mask = checks.mask_of(lengths, x)
        # What lies in padding must not meet a weight: 0 · NaN would reach its gradient.
        return blank(x, mask), mask, state.to(x.dtype)

    def extra_repr(self) -> str:
        """The sizes, for print(module)."""
        return f"input_size={self.input_size}, size={self.size}"


class GRUEncoder(Encoder):
    """A one-way GRU, the paper's encoder.

    >>> gru = GRUEncoder(3, 2)
    >>> x = torch.randn(1, 5, 3)
    >>> whole, _ = gru(x)
    >>> first, state = gru(x[:, :2])
    >>> rest, _ = gru(x[:, 2:], state=state)
    >>> torch.allclose(torch.cat([first, rest], 1), whole, atol=1e-6)
    True
    """

    name = "gru"

    def __init__(self, input_size: int, size: int) -> None:
        super().__init__(input_size, size)
        self.state_size = size
        self.onward = nn.GRU(input_size, size, batch_first=True)

    def forward(
        self,
        x: Float[Tensor, "B n d"],
        lengths: checks.Lengths = None,
        *,
        sentence_ends: Bool[Tensor, "B n"] | None = None,
        state: Float[Tensor, "B s"] | None = None,
    ) -> Hidden:
        """The states, and the last one of each document."""
        x, mask, state = self.check(x, lengths, state)
        return read_onward(self.onward, x, mask, state)


class TwoWayEncoder(Encoder):
    """A GRU onward and one backward: k / 2 numbers each, side by side ("halves"), or k each, added ("sum")."""

    def __init__(self, input_size: int, size: int, *, join: Join = "halves") -> None:
        super().__init__(input_size, size)
        if join not in ("halves", "sum"):
            raise OptionError("join", "'halves' or 'sum'", repr(join))
        if join == "halves" and size < 2:
            raise OptionError("size", "2 or more for two halves", repr(size), "or use join='sum'")
        self.join: Join = join
        back_size = size if join == "sum" else size // 2
        self.state_size = size if join == "sum" else size - back_size
        self.onward = nn.GRU(input_size, self.state_size, batch_first=True)
        self.back = nn.GRU(input_size, back_size, batch_first=True)

    def read_both_ways(
        self,
        x: Float[Tensor, "B n d"],
        lengths: checks.Lengths,
        mask: Bool[Tensor, "B n"] | None,
        ends: Bool[Tensor, "B n"],
        state: Float[Tensor, "B s"],
    ) -> Hidden:
        """The joint states, the backward GRU starting afresh at every end, and the onward state."""
        onward, state = read_onward(self.onward, x, mask, state)
        back = read_backward(self.back, x, lengths, ends)
        return (onward + back if self.join == "sum" else torch.cat([onward, back], 2)), state


class LookaheadEncoder(TwoWayEncoder):
    """A GRU onward, and one backward that starts afresh at every sentence's end: it streams, and extends.

    A text's last token ends its sentence, marked or not: a sentence cut in two is read as two. So is one of
    more than `LONGEST_LOOK` tokens: a GPU reads all sentences side by side, in as many steps as the longest
    has. Sentence ends may lie on the CPU beside a GPU's embeddings: then sorting the sentences costs no
    synchronisation.

    >>> lookahead = LookaheadEncoder(3, 2)
    >>> x, ends = torch.randn(1, 5, 3), torch.tensor([[False, True, False, False, True]])
    >>> whole, _ = lookahead(x, sentence_ends=ends)
    >>> first, state = lookahead(x[:, :2], sentence_ends=ends[:, :2])
    >>> rest, _ = lookahead(x[:, 2:], sentence_ends=ends[:, 2:], state=state)
    >>> torch.allclose(torch.cat([first, rest], 1), whole, atol=1e-6)
    True
    """

    name = "lookahead"

    def forward(
        self,
        x: Float[Tensor, "B n d"],
        lengths: checks.Lengths = None,
        *,
        sentence_ends: Bool[Tensor, "B n"] | None = None,
        state: Float[Tensor, "B s"] | None = None,
    ) -> Hidden:
        """The states, and the onward GRU's last one of each document; no ends given, one sentence a text."""
        x, mask, state = self.check(x, lengths, state)
        ends = no_ends(x) if sentence_ends is None else sentence_ends
        if ends.dtype != torch.bool:
            raise DtypeError("sentence_ends", "true at each sentence's last token", str(ends.dtype))
        checks.check_shape("sentence_ends", ends, tuple(x.shape[:2]), "one a token")
        return self.read_both_ways(x, lengths, mask, cut_long_sentences(ends, LONGEST_LOOK), state)


class BidirectionalEncoder(TwoWayEncoder):
    """GRUs over the whole text both ways, for comparison: every state knows the text's end, so none extends."""

    name = "bidirectional"

    def __init__(self, input_size: int, size: int, *, join: Join = "halves") -> None:
        super().__init__(input_size, size, join=join)
        self.state_size = 0

    def forward(
        self,
        x: Float[Tensor, "B n d"],
        lengths: checks.Lengths = None,
        *,
        sentence_ends: Bool[Tensor, "B n"] | None = None,
        state: Float[Tensor, "B s"] | None = None,
    ) -> Hidden:
        """The states; the state to carry on from is empty, and reading on is refused."""
        if state is not None:
            raise OptionError(
                "state",
                "none",
                "one to read on from",
                "a bidirectional encoder's states depend on text still to come; use 'lookahead' or 'gru'",
            )
        x, mask, nothing = self.check(x, lengths, None)
        start = x.new_zeros(x.shape[0], self.onward.hidden_size)
        hidden, _ = self.read_both_ways(x, lengths, mask, no_ends(x), start)
        return hidden, nothing


class SecondOrderEncoder(Encoder):
    """A GRU that also reads its own second-order memory, the unit of the paper's discussion.

        h_t = GRU([x_t, squash(C h_{t-1})], h_{t-1})        C ← C + h_t h_tᵀ

    C h grows with everything that was read, so it is squashed. Token by token: for experiments, not for speed.

    >>> hidden, state = SecondOrderEncoder(3, 2)(torch.randn(1, 5, 3))
    >>> list(hidden.shape), list(state.shape)  # h and C, side by side
    ([1, 5, 2], [1, 6])
    """

    name = "second-order"

    def __init__(self, input_size: int, size: int) -> None:
        super().__init__(input_size, size)
        self.state_size = size + size * size
        self.cell = nn.GRUCell(input_size + size, size)

    def forward(
        self,
        x: Float[Tensor, "B n d"],
        lengths: checks.Lengths = None,
        *,
        sentence_ends: Bool[Tensor, "B n"] | None = None,
        state: Float[Tensor, "B s"] | None = None,
    ) -> Hidden:
        """The states, and h and C after the last token of each document."""
        x, mask, state = self.check(x, lengths, state)
        batch, n, _ = x.shape
        h, C = state[:, : self.size], state[:, self.size :].reshape(batch, self.size, self.size)
        hidden = []
        for t in range(n):
            reading = squash(torch.bmm(C, h[:, :, None])[:, :, 0])
            new = self.cell(torch.cat([x[:, t], reading], 1), h)
            h = new if mask is None else torch.where(mask[:, t, None], new, h)
            written = h if mask is None else h * mask[:, t, None]
            C = C + written[:, :, None] * h[:, None, :]
            hidden.append(h)
        states = torch.stack(hidden, 1) if hidden else x.new_zeros(batch, 0, self.size)
        return blank(states, mask), torch.cat([h, C.flatten(1)], 1)


_CLASSES: dict[str, type[Encoder]] = {
    kind.name: kind for kind in (GRUEncoder, LookaheadEncoder, BidirectionalEncoder, SecondOrderEncoder)
}
ENCODERS = tuple(_CLASSES)


def encoder(name: str, input_size: int, size: int, **options: Any) -> Encoder:
    """The encoder of that name, with the options of its class.

    >>> encoder("gru", 50, 100).state_size
    100
    >>> ENCODERS
    ('gru', 'lookahead', 'bidirectional', 'second-order')
    """
    if name not in _CLASSES:
        raise OptionError("encoder", "one of " + ", ".join(ENCODERS), repr(name))
    kind = _CLASSES[name]
    known = [option for option in inspect.signature(kind).parameters if option not in ("input_size", "size")]
    unknown = [option for option in options if option not in known]
    if unknown:
        wanted = "one of " + ", ".join(known) if known else "none"
        raise OptionError(f"option of {name!r}", wanted, ", ".join(unknown))
    return kind(input_size, size, **options)
