"""Encoders: embeddings to hidden states, and a state to continue from, so that a text can be read in parts.

| name          | sees                                   | state  | reading in two parts equals reading at once |
|---------------|----------------------------------------|--------|---------------------------------------------|
| gru           | what came before                       | k      | at any token                                |
| lookahead     | also the rest of its own sentence      | k / 2  | at the end of a sentence                    |
| bidirectional | the whole text                         | –      | never                                       |
| second-order  | what came before, through C = Σ h hᵀ   | k + k² | at any token                                |
| transformer   | its window, some whole sentences       | –      | never                                       |

A state is one tensor `[B, state_size]` for every encoder: it can be stored next to a memory.
"""

from abc import ABC, abstractmethod
from functools import partial
from typing import Any, Literal, NamedTuple, get_args

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attar.errors import DtypeError, OptionError, ShapeError
from attar.nn.gru import Hidden, blank, cut_long_sentences, read_backward, read_forward
from attar.nn.mechanisms.base import check_size, class_named
from attar.nn.transformer import Transformer, cut_windows
from attar.ops.checks import (
    Device,
    Dtype,
    Lengths,
    check_device,
    check_floats,
    check_shape,
    length_mask,
    shape_of,
)
from attar.ops.reference import squash
from attar.options import TransformerShape

Join = Literal["halves", "sum"]
JOINS = get_args(Join)
# 93 % of the novels' sentences are no longer, and 96 % of the Wikipedia texts' (decisions.md).
LONGEST_LOOK = 48


class Tokens(NamedTuple):
    """The input of an encoder: embeddings, 0 in padding, which of them are tokens, and where sentences end."""

    x: Float[Tensor, "B n d"]
    lengths: Lengths
    mask: Bool[Tensor, "B n"] | None
    sentence_ends: Bool[Tensor, "B n"] | None


class Encoder(nn.Module, ABC):
    """Embeddings of `input_size` dimensions to states of `size` dimensions, read from left to right.

    Subclasses take `device` and `dtype` for their parameters, as in torch.nn.
    """

    name: str
    state_size: int
    # Whether reading continues from a state. If not, states depend on the text that follows.
    extends = True

    def __init__(self, input_size: int, size: int) -> None:
        super().__init__()
        for what, number in (("input_size", input_size), ("size", size)):
            check_size(what, number)
        self.input_size, self.size = input_size, size

    def forward(
        self,
        x: Float[Tensor, "B n d"],
        lengths: Lengths = None,
        *,
        sentence_ends: Bool[Tensor, "B n"] | None = None,
        state: Float[Tensor, "B s"] | None = None,
    ) -> Hidden:
        """The hidden states, 0 in padding, and the state to continue from.

        `sentence_ends` is true at the last token of each sentence; encoders that do not look ahead ignore it.
        """
        check_floats("x", x, "B n d")
        if x.shape[2] != self.input_size:
            raise ShapeError.expected("x", f"[B, n, {self.input_size}]", shape_of(x))
        start = self.start(x, state)
        mask = length_mask(lengths, x)
        # Padding must not meet a weight: 0 · NaN would reach its gradient.
        return self.read(Tokens(blank(x, mask), lengths, mask, sentence_ends), start)

    @abstractmethod
    def read(self, tokens: Tokens, state: Float[Tensor, "B s"]) -> Hidden:
        """The states of tokens, starting from a state, 0 in padding, and the state after each text's last token."""

    def start(self, x: Float[Tensor, "B n d"], state: Float[Tensor, "B s"] | None) -> Float[Tensor, "B s"]:
        """The initial state: the one given, if it is one of this encoder's, or zeros."""
        batch = x.shape[0]
        if state is None:
            return x.new_zeros(batch, self.state_size)
        if not self.extends:
            remedy = f"a {self.name} encoder's states depend on text still to come; use 'lookahead' or 'gru'"
            raise OptionError.expected("state", "none", "one to continue from", remedy)
        check_floats("state", state, "B s")
        check_shape("state", state, (batch, self.state_size), "the state that this encoder returned")
        check_device("state", state, x)
        return state.to(x.dtype)

    def extra_repr(self) -> str:
        """The sizes, for print(module)."""
        return f"input_size={self.input_size}, size={self.size}"


def name_in_files(module: nn.Module, **names: str) -> None:
    """Keep other names of parts of a module in its `state_dict`: those of files since version 0.1.0."""
    back = {old: new for new, old in names.items()}
    module.register_state_dict_post_hook(partial(_rename, names))  # type: ignore[no-untyped-call]
    module.register_load_state_dict_pre_hook(partial(_rename, back))  # type: ignore[no-untyped-call]


def _rename(names: dict[str, str], module: nn.Module, state: dict[str, Any], prefix: str, *_: object) -> None:
    """Rename the parts of a module in its state, in place."""
    for key in [key for key in state if key.startswith(prefix)]:
        part, dot, rest = key.removeprefix(prefix).partition(".")
        if dot and part in names:
            state[f"{prefix}{names[part]}.{rest}"] = state.pop(key)


class GRUEncoder(Encoder):
    """A forward GRU, the paper's encoder.

    >>> gru = GRUEncoder(3, 2)
    >>> x = torch.randn(1, 5, 3)
    >>> whole, _ = gru(x)
    >>> first, state = gru(x[:, :2])
    >>> rest, _ = gru(x[:, 2:], state=state)
    >>> torch.allclose(torch.cat([first, rest], 1), whole, atol=1e-6)
    True
    """

    name = "gru"

    def __init__(self, input_size: int, size: int, *, device: Device = None, dtype: Dtype = None) -> None:
        super().__init__(input_size, size)
        self.state_size = size
        self.forward_gru = nn.GRU(input_size, size, batch_first=True, device=device, dtype=dtype)
        name_in_files(self, forward_gru="onward")

    def read(self, tokens: Tokens, state: Float[Tensor, "B s"]) -> Hidden:
        """The states, and the last one of each document."""
        return read_forward(self.forward_gru, tokens.x, tokens.mask, state)


class TwoWayEncoder(Encoder):
    """A forward and a backward GRU: of size k / 2 each and concatenated ("halves"), or of size k and added ("sum")."""

    def __init__(
        self, input_size: int, size: int, *, join: Join = "halves", device: Device = None, dtype: Dtype = None
    ) -> None:
        super().__init__(input_size, size)
        if join not in JOINS:
            raise OptionError.expected("join", " or ".join(map(repr, JOINS)), repr(join))
        if join == "halves" and size < 2:
            raise OptionError.expected("size", "2 or more for two halves", repr(size), "or use join='sum'")
        self.join: Join = join
        back_size = size if join == "sum" else size // 2
        forward_size = size if join == "sum" else size - back_size
        self.state_size = forward_size if self.extends else 0
        self.forward_gru = nn.GRU(input_size, forward_size, batch_first=True, device=device, dtype=dtype)
        self.backward_gru = nn.GRU(input_size, back_size, batch_first=True, device=device, dtype=dtype)
        name_in_files(self, forward_gru="onward", backward_gru="back")

    def read_both_ways(
        self, tokens: Tokens, ends: Bool[Tensor, "B n"], state: Float[Tensor, "B s"]
    ) -> Hidden:
        """The joint states, the backward GRU starting from 0 at every end, and the forward state."""
        forward, state = read_forward(self.forward_gru, tokens.x, tokens.mask, state)
        back = read_backward(self.backward_gru, tokens.x, tokens.lengths, ends)
        return (forward + back if self.join == "sum" else torch.cat([forward, back], 2)), state


class LookaheadEncoder(TwoWayEncoder):
    """A forward GRU, and a backward one that starts from 0 at the end of every sentence: it streams, and extends.

    A text's last token ends its sentence, marked or not: a sentence cut in two is read as two. So is one of more
    than `LONGEST_LOOK` tokens: a GPU reads all sentences in a batch, in as many steps as the longest has. Sentence
    ends may be on the CPU while the embeddings are on a GPU: sorting the sentences then needs no synchronisation.

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
        """The states, and the forward GRU's last one of each document; without ends, a text is one sentence."""
        return self.read_both_ways(tokens, cut_long_sentences(_ends(tokens), LONGEST_LOOK), state)


class BidirectionalEncoder(TwoWayEncoder):
    """GRUs over the whole text in both directions, for comparison: states depend on the text's end, so none extends."""

    name = "bidirectional"
    extends = False

    def read(self, tokens: Tokens, state: Float[Tensor, "B s"]) -> Hidden:
        """The states; the state to continue from is empty."""
        zeros = tokens.x.new_zeros(len(tokens.x), self.forward_gru.hidden_size)
        hidden, _ = self.read_both_ways(tokens, _no_ends(tokens), zeros)
        return hidden, state


def _no_ends(tokens: Tokens) -> Bool[Tensor, "B n"]:
    """One sentence per text; on the CPU, where sorting sentences needs no GPU."""
    return torch.zeros(tokens.x.shape[:2], dtype=torch.bool)


def _ends(tokens: Tokens) -> Bool[Tensor, "B n"]:
    """The last token of each sentence; without any given, a text is one sentence."""
    ends = tokens.sentence_ends
    if ends is None:
        return _no_ends(tokens)
    if ends.dtype != torch.bool:
        raise DtypeError.expected("sentence_ends", "true at each sentence's last token", str(ends.dtype))
    check_shape("sentence_ends", ends, tuple(tokens.x.shape[:2]), "one per token")
    return ends


class SecondOrderEncoder(Encoder):
    """A GRU that also reads its own second-order memory, the unit of the paper's discussion.

        h_t = GRU([x_t, squash(C h_{t-1})], h_{t-1})        C ← C + h_t h_tᵀ

    C h grows with everything that was read, so it is squashed. Token by token: for experiments, not for speed.

    >>> hidden, state = SecondOrderEncoder(3, 2)(torch.randn(1, 5, 3))
    >>> list(hidden.shape), list(state.shape)  # h and C, concatenated
    ([1, 5, 2], [1, 6])
    """

    name = "second-order"

    def __init__(self, input_size: int, size: int, *, device: Device = None, dtype: Dtype = None) -> None:
        super().__init__(input_size, size)
        self.state_size = size + size * size
        self.cell = nn.GRUCell(input_size + size, size, device=device, dtype=dtype)

    def read(self, tokens: Tokens, state: Float[Tensor, "B s"]) -> Hidden:
        """The states, and h and C after the last token of each document."""
        x, mask = tokens.x, tokens.mask
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


class TransformerEncoder(Encoder):
    """A transformer over windows of whole sentences; at a size of 384 its defaults are all-MiniLM-L6-v2's shape.

    A window has at most `positions` tokens and ends at a sentence end; a longer sentence is cut. Its states depend on
    the whole window, so reading never continues. `heads` are of 32 dimensions by default, or more if that does not
    divide the size; `feedforward` is four times the size. Embeddings of another size pass through a linear map first.

    Published weights load into its part: `encoder.transformer.load_state_dict(from_published(weights), strict=False)`,
    while `words.weight` of these is the table of embeddings.

    >>> hidden, state = TransformerEncoder(3, 4, layers=1)(torch.randn(1, 5, 3))
    >>> list(hidden.shape), list(state.shape)
    ([1, 5, 4], [1, 0])
    """

    name = "transformer"
    extends = False

    def __init__(
        self,
        input_size: int,
        size: int,
        *,
        layers: int = 6,
        heads: int | None = None,
        feedforward: int | None = None,
        positions: int = 512,
        dropout: float = 0.0,
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        super().__init__(input_size, size)
        self.state_size = 0
        if heads is None:
            heads = max(each for each in range(1, max(size // 32, 1) + 1) if size % each == 0)
        feedforward = 4 * size if feedforward is None else feedforward
        sizes = {"layers": layers, "heads": heads, "feedforward": feedforward, "positions": positions}
        for what, number in sizes.items():
            check_size(what, number)
        if size % heads:
            raise OptionError.expected("heads", f"a number that divides the size of {size}", repr(heads))
        shape = TransformerShape(vocabulary=0, size=size, **sizes)
        same = input_size == size
        self.input = nn.Identity() if same else nn.Linear(input_size, size, device=device, dtype=dtype)
        self.transformer = Transformer(shape, dropout=dropout, device=device, dtype=dtype)

    def read(self, tokens: Tokens, state: Float[Tensor, "B s"]) -> Hidden:
        """The states, window by window; the state to continue from is empty."""
        x = self.input(tokens.x)
        batch, n, size = x.shape
        lengths = [n] * batch if tokens.lengths is None else torch.as_tensor(tokens.lengths).tolist()
        windows = cut_windows(_ends(tokens), lengths, self.transformer.shape.positions)
        hidden = x.new_zeros(batch * n, size)
        if not windows:
            return hidden.view(batch, n, size), state
        places = [torch.arange(row * n + start, row * n + stop) for row, start, stop in windows]
        at = nn.utils.rnn.pad_sequence(places, batch_first=True, padding_value=-1).to(x.device)
        mask = at >= 0
        read = self.transformer.read(x.flatten(0, 1)[at.clamp(min=0)], mask)
        hidden = hidden.to(read.dtype).index_copy(0, at[mask], read[mask])
        return hidden.view(batch, n, size), state


_CLASSES: dict[str, type[Encoder]] = {
    kind.name: kind
    for kind in (GRUEncoder, LookaheadEncoder, BidirectionalEncoder, SecondOrderEncoder, TransformerEncoder)
}
ENCODERS = tuple(_CLASSES)
TWO_WAY = tuple(name for name, kind in _CLASSES.items() if issubclass(kind, TwoWayEncoder))


def encoder(name: str, input_size: int, size: int, **options: Any) -> Encoder:
    """The encoder of that name, with the options of its class.

    >>> encoder("gru", 50, 100).state_size
    100
    >>> ENCODERS
    ('gru', 'lookahead', 'bidirectional', 'second-order', 'transformer')
    """
    return class_named("encoder", name, _CLASSES, options)(input_size, size, **options)
