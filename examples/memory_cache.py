"""The cache of transformers_memory.py: a memory per layer, which does not grow, and whose crop is a subtraction."""

import torch
from torch import Tensor
from transformers.cache_utils import CacheLayerMixin

from attar.nn import Memories, MemoryAttention


class MemoryLayer(CacheLayerMixin):
    """The memory of what a block has read of a prompt; the last 32 states are kept, to be taken back."""

    is_croppable = True

    def __init__(self, attention: MemoryAttention) -> None:
        super().__init__()
        self.attention, self.memories, self.states = attention, None, None

    def update(self, states: Tensor, *_: object) -> Memories | None:
        before = self.memories
        self.memories = (
            self.attention.encode(states) if before is None else self.attention.extend(before, states)
        )
        self.states = (states if before is None else torch.cat([self.states, states], 1))[:, -32:]
        self.is_initialized = True
        return before

    def crop(self, tokens: int) -> None:
        if tokens and self.memories is not None:
            kept = self.states.shape[1] - abs(tokens)
            self.memories = self.memories - self.attention.encode(self.states[:, kept:])
            self.states = self.states[:, :kept]

    def get_seq_length(self) -> int:
        return 0 if self.memories is None else int(self.memories.tokens[0])

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.get_seq_length() + query_length, 0

    def reorder_cache(self, beam_idx: Tensor) -> None:
        self.memories, self.states = self.memories[beam_idx], self.states[beam_idx]

    def get_max_length(self) -> int:
        return -1

    def lazy_initialization(self, *_: Tensor) -> None: ...
