"""The paper's two baselines: no attention as the lower, softmax over all states as the upper (sections 2 and 5)."""

import torch

from attar.nn.mechanisms.base import Mechanism, Memories, Queries, States
from attar.ops.checks import Device, Dtype, Lengths, check_floats, check_shape, is_traced
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

    def extend(self, memories: Memories, hidden: States, lengths: Lengths = None) -> Memories:
        """The new last state, or the old one where there is no new token."""
        self._check_own(memories)
        return memories + self.encode(hidden, lengths)

    def lookup(self, memories: Memories, queries: Queries) -> Queries:
        """The last state, for any query."""
        self._check_own(memories)
        check_floats("queries", queries, "B m k")
        shape = (memories.state.shape[0], queries.shape[1], self.size)
        check_shape("queries", queries, shape, "one row of queries per memory")
        return memories.state.to(queries.dtype)[:, None].expand(shape)


class SoftmaxAttention(Mechanism):
    """Hᵀ softmax(H q): the memory is all of H, and the cost of a lookup grows with the document.

    >>> softmax = SoftmaxAttention(1)
    >>> memories = softmax.encode(torch.tensor([[[1.0], [3.0]]]))
    >>> softmax.lookup(memories, torch.zeros(1, 1, 1)).tolist()
    [[[2.0]]]
    """

    name = "softmax"

    def __init__(self, size: int, *, heads: int = 1, device: Device = None, dtype: Dtype = None) -> None:
        super().__init__(size, heads=heads, device=device, dtype=dtype)
        self._form = (None, size)

    def encode(self, hidden: States, lengths: Lengths = None) -> Memories:
        """The states themselves."""
        return Memories(hidden, self._count_tokens(hidden, lengths), self.name)

    def extend(self, memories: Memories, hidden: States, lengths: Lengths = None) -> Memories:
        """The old states followed by the new ones."""
        self._check_own(memories)
        return memories + self.encode(hidden, lengths)

    def lookup(self, memories: Memories, queries: Queries) -> Queries:
        """The average of the states of each head, weighted by softmax(H q)."""
        self._check_own(memories)
        # Without padding no mask is needed, which would copy all states; a GPU is not synchronised for this.
        whole = (
            memories.tokens.device.type == "cpu"
            and not is_traced()
            and bool((memories.tokens == memories.state.shape[1]).all())
        )
        lengths = None if whole else self._per_head(memories.tokens)
        check_floats("queries", queries, "B m k")
        shape = (memories.tokens.shape[0], queries.shape[1], self.size)
        check_shape("queries", queries, shape, "one row of queries per document")
        return self._join(softmax_lookup(self._split(memories.state), self._split(queries), lengths=lengths))
