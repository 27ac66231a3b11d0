"""The one interface of all encoders: embeddings in, states out, and a state to read on from."""

from abc import ABC, abstractmethod
from typing import NamedTuple

from jaxtyping import Bool, Float
from torch import Tensor, nn

from attar.errors import OptionError, ShapeError
from attar.nn.directions import Hidden, blank
from attar.ops import checks


class Tokens(NamedTuple):
    """What an encoder reads: embeddings, 0 in padding, which of them are there, and where sentences end."""

    x: Float[Tensor, "B n d"]
    lengths: checks.Lengths
    mask: Bool[Tensor, "B n"] | None
    sentence_ends: Bool[Tensor, "B n"] | None


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
        checks.check_floats("x", x, "B n d")
        if x.shape[2] != self.input_size:
            raise ShapeError("x", f"[B, n, {self.input_size}]", checks.shape_of(x))
        start = self.start(x, state)
        mask = checks.mask_of(lengths, x)
        # What lies in padding must not meet a weight: 0 · NaN would reach its gradient.
        return self.read(Tokens(blank(x, mask), lengths, mask, sentence_ends), start)

    @abstractmethod
    def read(self, tokens: Tokens, state: Float[Tensor, "B s"]) -> Hidden:
        """The states of tokens read from a state on, 0 in padding, and the state after the last of each text."""

    def start(self, x: Float[Tensor, "B n d"], state: Float[Tensor, "B s"] | None) -> Float[Tensor, "B s"]:
        """The state to begin with: the one given, if it is one of this encoder's, or zeros."""
        batch = x.shape[0]
        if state is None:
            return x.new_zeros(batch, self.state_size)
        checks.check_floats("state", state, "B s")
        checks.check_shape("state", state, (batch, self.state_size), "the state that this encoder gave")
        checks.check_device("state", state, x)
        return state.to(x.dtype)

    def extra_repr(self) -> str:
        """The sizes, for print(module)."""
        return f"input_size={self.input_size}, size={self.size}"
