"""Phrases in a memory of fixed size: each is a key and a value, summed; the readout is a ridge regression.

    C = Σ key valueᵀ  [k, d],  G = Σ key keyᵀ  [k, k]
    readout of q = Cᵀ (G + λI)⁻¹ q,  λ = RIDGE · trace(G) / k
    score of a phrase = value · readout · sharpness + its prior + word overlap

A phrase's key is its normalised vector, its value the normalised sum of static vectors of its word pieces, which belong
to the reader: a candidate is compared by its own words. C and G add up over texts. Without G, phrases with similar keys
would drown each other.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from attar.nn.mechanisms.base import Device

# The same as in `attar.memory`, which reads memories without torch.
RIDGE = 0.1


class Written(NamedTuple):
    """The sums of a batch of texts: C `[B, k, d]` and G `[B, k, k]`, in float32."""

    products: Tensor
    gram: Tensor


class RidgeReadout(nn.Module):
    """Queries `[k]` and values `[d]` of phrases; word embeddings have `size` numbers.

    >>> ridge = RidgeReadout(6, 4, 3)
    >>> state = {name: value for name, value in ridge.state_dict().items()}
    >>> _ = ridge.load_state_dict(state | {"query.weight": torch.eye(4), "query.bias": torch.zeros(4)})
    >>> memory = ridge.write(torch.eye(4)[None, :2], torch.tensor([[[1.0, 0, 0], [0, 1.0, 0]]]))
    >>> ridge.read(memory, torch.eye(4)[1:2]).argmax().item()  # the second key finds the second value
    1
    """

    def __init__(self, size: int, k: int, d: int, *, device: Device = None) -> None:
        super().__init__()
        self.query = nn.Linear(k, k, device=device)
        # Queries and keys are trained to be alike: a good start for a reader that only gets this readout.
        nn.init.eye_(self.query.weight)
        nn.init.zeros_(self.query.bias)
        self.value = nn.Linear(size, d, bias=False, device=device)
        self.sharpness = nn.Parameter(torch.full((1,), 8.0, device=device))

    def keys(self, vectors: Float[Tensor, "*batch k"]) -> Float[Tensor, "*batch k"]:
        """Unit keys of phrase vectors, in float32."""
        return functional.normalize(vectors.float(), dim=-1)

    def values(
        self, words: Float[Tensor, "B n h"], first: Int[Tensor, "B p"], last: Int[Tensor, "B p"]
    ) -> Float[Tensor, "B p d"]:
        """The normalised sums of the vectors of each span's word pieces, given the embeddings of all pieces."""
        sums = functional.pad(self.value(words).float().cumsum(1), (0, 0, 1, 0))
        rows = torch.arange(len(words), device=words.device)[:, None]
        return functional.normalize(sums[rows, last + 1] - sums[rows, first], dim=-1)

    def write(self, keys: Float[Tensor, "B p k"], values: Float[Tensor, "B p d"]) -> Written:
        """The sums; a phrase that does not count has a key of zeros."""
        with torch.autocast(keys.device.type, enabled=False):
            return Written(keys.mT @ values, keys.mT @ keys)

    def read(self, memory: Written, queries: Float[Tensor, "B k"]) -> Float[Tensor, "B d"]:
        """The readout of one query per memory."""
        k = memory.gram.shape[-1]
        trace = memory.gram.diagonal(dim1=-2, dim2=-1).sum(-1).clamp(min=1e-6)
        ridge = (RIDGE / k * trace)[:, None, None] * torch.eye(k, device=trace.device)
        with torch.autocast(trace.device.type, enabled=False):
            asked = self.query(queries.float())
            solved = torch.linalg.solve(memory.gram + ridge, memory.products)
            return torch.einsum("bk,bkd->bd", asked, solved)
