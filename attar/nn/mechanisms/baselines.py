"""The paper's two baselines: no attention as the lower, softmax over all states as the upper (sections 2 and 5)."""

import torch

from attar.nn.mechanisms.base import Mechanism, Memories, Queries, States
from attar.ops.checks import Lengths, is_traced
from attar.ops.lookups import softmax_lookup


class NoAttention(Mechanism):
    """The last state alone: every query has the same readout, whatever the heads.

    >>> none = NoAttention(1)
    >>> memories = none.encode(torch.tensor([[[1.0], [2.0], [3.0]]]), lengths=[2])
    >>> none.lookup(memories, torch.zeros(1, 1, 1)).tolist()
    [[[2.0]]]
    """

    name = "none"

    def encode(self, hidden: States, lengths: Lengths = None) -> Memories:
        """Each document's last state; zeros for a document of no tokens."""
        tokens = self._count_tokens(hidden, lengths)
        if hidden.shape[1] == 0:
            return Memories(hidden.sum(1), tokens, self.name)
        last = (tokens - 1).clamp(min=0)[:, None, None].expand(-1, 1, self.size)
        state = hidden.gather(1, last)[:, 0]
        return Memories(torch.where(tokens[:, None] > 0, state, 0), tokens, self.name)

    def lookup(self, memories: Memories, queries: Queries) -> Queries:
        """The last state, for any query."""
        self._check_queries(memories, queries)
        return memories.state.to(queries.dtype)[:, None].expand(queries.shape)


class SoftmaxAttention(Mechanism):
    """Hᵀ softmax(H q): the memory is all of H, and the cost of a lookup grows with the document.

    >>> softmax = SoftmaxAttention(1)
    >>> memories = softmax.encode(torch.tensor([[[1.0], [3.0]]]))
    >>> softmax.lookup(memories, torch.zeros(1, 1, 1)).tolist()
    [[[2.0]]]
    """

    name = "softmax"

    def _fits(self, shape: torch.Size) -> bool:
        return shape[1:] == (self.size,)

    def encode(self, hidden: States, lengths: Lengths = None) -> Memories:
        """The states themselves."""
        return Memories(hidden, self._count_tokens(hidden, lengths), self.name)

    def lookup(self, memories: Memories, queries: Queries) -> Queries:
        """The average of the states of each head, weighted by softmax(H q)."""
        self._check_queries(memories, queries)
        # Without padding no mask is needed, which would copy all states; a GPU is not synchronised for this.
        whole = (
            memories.tokens.device.type == "cpu"
            and not is_traced()
            and bool((memories.tokens == memories.state.shape[1]).all())
        )
        lengths = None if whole else self._per_head(memories.tokens)
        return self._join(softmax_lookup(self._split(memories.state), self._split(queries), lengths=lengths))
