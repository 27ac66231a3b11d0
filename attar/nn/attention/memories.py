"""What mechanisms hand around: the memories of a batch of documents, and how many tokens each has read."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor


@dataclass(frozen=True)
class Memories:
    """The memories of B documents.

    `state` is `[B, k, k]` for linear, gated, decayed and adaptive; `[B, n, k]`, all the states, for softmax;
    `[B, k]`, the last state, for none. `tokens` are counted beside it and not divided out of it, so that
    states stay additive.
    """

    state: Float[Tensor, "B ..."]
    tokens: Int[Tensor, " B"]

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> "Memories":
        """The same on another device, or with its state in another type of number.

        >>> Memories(torch.zeros(1, 2, 2), torch.tensor([3])).to(dtype=torch.bfloat16).state.dtype
        torch.bfloat16
        """
        return Memories(self.state.to(device, dtype), self.tokens.to(device))

    def detach(self) -> "Memories":
        """The same, cut from what it was computed from: reading goes on, gradients stop here."""
        return Memories(self.state.detach(), self.tokens)
