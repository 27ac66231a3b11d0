"""One vector per phrase, as the default reader keeps them: the size of a memory follows what the text contains."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attar.errors import DtypeError, OptionError, ShapeError
from attar.nn.mechanisms.base import Mechanism, Memories, States, add_tokens, check_size
from attar.nn.phrases import SpanVectors, at_spans
from attar.ops.checks import (
    Device,
    Dtype,
    Lengths,
    accumulation_dtype,
    check_device,
    check_floats,
    check_shape,
    is_traced,
    length_mask,
    shape_of,
)
from attar.ops.lookups import lookup

NO_SPAN = -1


class PhraseAttention(Mechanism):
    """C_p = A h_i + B h_j of the phrase from token i to token j, a memory `[B, phrases, k]`: one vector per phrase.

    `spans` `[B, p, 2]` are the first and last token of each phrase, -1 for none: a row without a phrase has a vector of
    zeros. Phrases may overlap. What ends after a document's length is no phrase. A lookup scores every phrase, C q; the
    phrases of a later text come after the earlier ones. `vector_size` is k, that of phrase vectors and queries, by
    default the size of the states.

    >>> phrases = PhraseAttention(1)
    >>> ones = torch.ones(1, 1)
    >>> parameters = {"first.weight": ones, "first.bias": torch.zeros(1), "last.weight": 10 * ones}
    >>> phrases.vectors.load_state_dict(parameters)
    <All keys matched successfully>
    >>> hidden = torch.tensor([[[1.0], [2.0], [3.0]]])
    >>> memories = phrases.encode(hidden, spans=torch.tensor([[[0, 2], [1, 1], [-1, -1]]]))
    >>> phrases.lookup(memories, torch.tensor([[[1.0]]])).tolist()
    [[[31.0, 22.0, 0.0]]]
    """

    name = "phrases"

    def __init__(
        self,
        size: int,
        *,
        vector_size: int | None = None,
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        super().__init__(size)
        self.vector_size = size if vector_size is None else vector_size
        check_size("vector_size", self.vector_size)
        self.vectors = SpanVectors(size, self.vector_size, device=device, dtype=dtype)

    def encode(
        self, hidden: States, lengths: Lengths = None, *, spans: Int[Tensor, "B p 2"] | None = None
    ) -> Memories:
        """The vectors of phrases in float32 or float64; `spans` must be given."""
        tokens = self.count_tokens(hidden, lengths)
        first, last, real = self._phrases(spans, hidden, tokens)
        mask = length_mask(lengths, hidden)
        if mask is not None:
            # Padding must not meet a weight: 0 · NaN would reach its gradient.
            hidden = hidden.masked_fill(~mask[:, :, None], 0)
        if hidden.shape[1] == 0:  # rows without a phrase still need a token to point at
            hidden = nn.functional.pad(hidden, (0, 0, 0, 1))
        vectors = at_spans(*self.vectors.ends(hidden), first, last).masked_fill(~real[:, :, None], 0)
        return Memories(vectors.to(accumulation_dtype(hidden.dtype)), tokens)

    def extend(
        self,
        memories: Memories,
        hidden: States,
        lengths: Lengths = None,
        *,
        spans: Int[Tensor, "B p 2"] | None = None,
    ) -> Memories:
        """The earlier phrases, followed by those of the new states, which `spans` counts from their own start."""
        return self.merge(memories, self.encode(hidden, lengths, spans=spans))

    def merge(self, earlier: Memories, later: Memories) -> Memories:
        """The phrases of both texts, the earlier ones first."""
        tokens = add_tokens(earlier, later.tokens)
        for memories in (earlier, later):
            check_floats("memories.state", memories.state, "B phrases k")
            shape = (len(tokens), memories.state.shape[1], self.vector_size)
            check_shape("memories.state", memories.state, shape, "one vector per phrase")
        return Memories(torch.cat([earlier.state, later.state], 1), tokens)

    def lookup(self, memories: Memories, queries: Float[Tensor, "B m k"]) -> Float[Tensor, "B m phrases"]:
        """C q: the score of every phrase, 0 where there is none."""
        return lookup(memories.state, queries)

    def _phrases(
        self, spans: Int[Tensor, "B p 2"] | None, hidden: States, tokens: Int[Tensor, " B"]
    ) -> tuple[Int[Tensor, "B p"], Int[Tensor, "B p"], Bool[Tensor, "B p"]]:
        """The first and last token of each phrase, 0 where there is none, and whether there is one."""
        if spans is None:
            expected = "the first and last token of each phrase [B, p, 2], -1 for none"
            raise OptionError.expected("spans", expected, "none", "give spans=...")
        if spans.is_floating_point() or spans.dtype == torch.bool:
            raise DtypeError.expected("spans", "whole numbers", str(spans.dtype))
        batch, n = hidden.shape[:2]
        if spans.ndim != 3 or spans.shape[0] != batch or spans.shape[2] != 2:
            raise ShapeError.expected("spans", f"[{batch}, p, 2]", shape_of(spans))
        check_device("spans", spans, hidden)
        first, last = spans.long().unbind(2)
        # Reading values would break a compiled graph in two.
        if spans.numel() and not is_traced() and not spans.is_meta:
            wrong = (
                (spans < NO_SPAN).any(2) | (spans >= n).any(2) | (first > last) | ((first < 0) != (last < 0))
            )
            if bool(wrong.any()):
                expected = f"first ≤ last among {n} tokens, or {NO_SPAN} twice"
                raise ShapeError.expected("spans", expected, str(spans[wrong][0].tolist()))
        real = (first >= 0) & (last < tokens[:, None])
        return first.where(real, 0), last.where(real, 0), real
