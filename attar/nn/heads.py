"""Answer heads: from a readout and its query to a score for each of the document's names.

| head  | scores a name by                            | with                                            |
|-------|---------------------------------------------|-------------------------------------------------|
| paper | its own row of W_o tanh(W_r R + W_q q)      | none, softmax, linear, gated, decayed, adaptive |
| copy  | the readout against what was written for it | keyed, named, softmax                           |
"""

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn


class PaperHead(nn.Module):
    """W_o tanh(W_r R + W_q q) over all entity ids, of which those of the document are taken.

    What tanh mixes has `width` numbers, or as many as a readout: more of them tell more names apart, and cost a
    memory nothing.
    """

    def __init__(self, size: int, entities: int, width: int | None = None) -> None:
        super().__init__()
        width = width or size
        self.of_readout = nn.Linear(size, width, bias=False)
        self.of_query = nn.Linear(size, width)
        self.entities = nn.Linear(width, entities)

    def forward(
        self,
        readouts: Float[Tensor, "Q k"],
        queries: Float[Tensor, "Q k"],
        candidates: Int[Tensor, "Q c"],
    ) -> Float[Tensor, "Q c"]:
        """The score of each candidate, given by its entity id."""
        mixed = torch.tanh(self.of_readout(readouts) + self.of_query(queries))
        scores: Tensor = self.entities(mixed)
        return scores.gather(1, candidates)


class CopyHead(nn.Module):
    """What a readout holds for each candidate, made sharper or softer by one learnt number.

    With `shares`, what it holds is a positive weight, and the score its logarithm: names then share the answer
    in proportion to their weights, as in the attention-sum reader (Kadlec et al. 2016).
    """

    def __init__(self, sharpness: float = 1.0, *, shares: bool = False) -> None:
        super().__init__()
        self.shares = shares
        self.sharpness = nn.Parameter(torch.tensor(math.log(sharpness)))

    def forward(self, held: Float[Tensor, "Q c"]) -> Float[Tensor, "Q c"]:
        """The scores of the candidates."""
        scores = torch.log(held.clamp(min=1e-9)) if self.shares else held
        return scores * self.sharpness.exp()


class AskedNames(nn.Module):
    """A learnt number added to the score of names that the question itself holds: seldom are they its answer."""

    def __init__(self) -> None:
        super().__init__()
        self.bonus = nn.Parameter(torch.zeros(()))

    def forward(self, scores: Float[Tensor, "Q c"], asked: Bool[Tensor, "Q c"]) -> Float[Tensor, "Q c"]:
        """The scores, those of names in the question moved."""
        return scores + self.bonus * asked.to(scores.dtype)
