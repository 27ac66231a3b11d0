"""The unit of the paper's discussion: a GRU that reads its own second-order memory."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attar.nn.base_encoder import Encoder, Tokens
from attar.nn.directions import Hidden, blank
from attar.ops import squash


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
