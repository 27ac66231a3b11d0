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
from typing import Any, Literal, get_args

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attar.errors import DtypeError, OptionError
from attar.nn.base_encoder import Encoder, Tokens
from attar.nn.directions import Hidden, cut_long_sentences, no_ends, read_backward, read_onward
from attar.nn.second_order import SecondOrderEncoder
from attar.ops import checks

Join = Literal["halves", "sum"]
JOINS = get_args(Join)
# 93 % of the novels' sentences are no longer, and 96 % of the Wikipedia texts' (decisions.md).
LONGEST_LOOK = 48


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

    def read(self, tokens: Tokens, state: Float[Tensor, "B s"]) -> Hidden:
        """The states, and the last one of each document."""
        return read_onward(self.onward, tokens.x, tokens.mask, state)


class TwoWayEncoder(Encoder):
    """A GRU onward and one backward: k / 2 numbers each, side by side ("halves"), or k each, added ("sum")."""

    def __init__(self, input_size: int, size: int, *, join: Join = "halves") -> None:
        super().__init__(input_size, size)
        if join not in JOINS:
            raise OptionError("join", " or ".join(map(repr, JOINS)), repr(join))
        if join == "halves" and size < 2:
            raise OptionError("size", "2 or more for two halves", repr(size), "or use join='sum'")
        self.join: Join = join
        back_size = size if join == "sum" else size // 2
        self.state_size = size if join == "sum" else size - back_size
        self.onward = nn.GRU(input_size, self.state_size, batch_first=True)
        self.back = nn.GRU(input_size, back_size, batch_first=True)

    def read_both_ways(
        self, tokens: Tokens, ends: Bool[Tensor, "B n"], state: Float[Tensor, "B s"]
    ) -> Hidden:
        """The joint states, the backward GRU starting afresh at every end, and the onward state."""
        onward, state = read_onward(self.onward, tokens.x, tokens.mask, state)
        back = read_backward(self.back, tokens.x, tokens.lengths, ends)
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

    def read(self, tokens: Tokens, state: Float[Tensor, "B s"]) -> Hidden:
        """The states, and the onward GRU's last one of each document; no ends given, one sentence a text."""
        ends = no_ends(tokens.x) if tokens.sentence_ends is None else tokens.sentence_ends
        if ends.dtype != torch.bool:
            raise DtypeError("sentence_ends", "true at each sentence's last token", str(ends.dtype))
        checks.check_shape("sentence_ends", ends, tuple(tokens.x.shape[:2]), "one a token")
        return self.read_both_ways(tokens, cut_long_sentences(ends, LONGEST_LOOK), state)


class BidirectionalEncoder(TwoWayEncoder):
    """GRUs over the whole text both ways, for comparison: every state knows the text's end, so none extends."""

    name = "bidirectional"

    def __init__(self, input_size: int, size: int, *, join: Join = "halves") -> None:
        super().__init__(input_size, size, join=join)
        self.state_size = 0

    def start(self, x: Float[Tensor, "B n d"], state: Float[Tensor, "B s"] | None) -> Float[Tensor, "B s"]:
        """Nothing: reading on is refused."""
        if state is not None:
            raise OptionError(
                "state",
                "none",
                "one to read on from",
                "a bidirectional encoder's states depend on text still to come; use 'lookahead' or 'gru'",
            )
        return super().start(x, None)

    def read(self, tokens: Tokens, state: Float[Tensor, "B s"]) -> Hidden:
        """The states; the state to carry on from is empty."""
        zeros = tokens.x.new_zeros(len(tokens.x), self.onward.hidden_size)
        hidden, _ = self.read_both_ways(tokens, no_ends(tokens.x), zeros)
        return hidden, state


_CLASSES: dict[str, type[Encoder]] = {
    kind.name: kind for kind in (GRUEncoder, LookaheadEncoder, BidirectionalEncoder, SecondOrderEncoder)
}
ENCODERS = tuple(_CLASSES)
TWO_WAY = tuple(name for name, kind in _CLASSES.items() if issubclass(kind, TwoWayEncoder))


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
