"""The ways to keep a document of n states for questions: every token, or a memory of fixed size.

Each is written as well as its users would write it, for one question a call or for many, and each knows its own
referee in float64: softmax over all states, softmax over the chosen ones, C q.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from attar import ops
from attar.bench import peers
from attar.bench.referee import distance
from attar.bench.table1.tokens import TokenIndex, faiss_is_installed, softmax_numpy_many, softmax_torch_many

TOP = 100  # tokens that FAISS hands over for softmax

Kind = Literal["softmax", "nearest", "memory"]
Exact = Callable[[Tensor, Tensor, Any], Tensor]


@dataclass(frozen=True)
class Way:
    """How a document is kept and asked.

    `keep` makes of hidden `[n, k]` what is kept, `ask` of that and of `asked(queries [m, k])` the readouts;
    `exact` makes the same of float64 hidden, float64 queries and what is kept.
    """

    name: str
    kind: Kind
    keep: Callable[[Tensor], Any]
    ask: Callable[[Any, Any], Any]
    asked: Callable[[Tensor], Any]
    exact: Exact

    def error(self, hidden: Tensor, queries: Tensor) -> float:
        """The readouts' distance from float64."""
        kept = self.keep(hidden)
        found = torch.as_tensor(self.ask(kept, self.asked(queries))).reshape(queries.shape)
        return distance(found, self.exact(hidden.double(), queries.double(), kept))


def ways_for_one(k: int) -> list[Way]:
    """For a question at a time, on a CPU: numpy where it is quicker, packed triangles."""
    return [
        softmax("softmax, numpy", in_numpy, peers.softmax_numpy, first_in_numpy),
        softmax("softmax, SDPA", as_it_is, peers.softmax_sdpa, lambda queries: queries[0]),
        *nearest_tokens(),
        *memories(k, "cpu", packed=True),
    ]


def ways_for_many(k: int, device: str) -> list[Way]:
    """For many questions to one document in one call."""
    plain = (
        softmax("softmax, numpy", in_numpy, softmax_numpy_many, in_numpy)
        if device == "cpu"
        else softmax("softmax, torch", as_it_is, softmax_torch_many, as_it_is)
    )
    fused = softmax("softmax, SDPA", alone, ops.softmax_lookup, alone)
    nearest = nearest_tokens() if device == "cpu" else []
    return [plain, fused, *nearest, *memories(k, device, packed=False)]


def softmax(
    name: str, keep: Callable[[Tensor], Any], ask: Callable[[Any, Any], Any], asked: Callable[[Tensor], Any]
) -> Way:
    """Softmax over all states, which are kept as they are."""

    def exact(hidden: Tensor, queries: Tensor, kept: Any) -> Tensor:
        return softmax_torch_many(hidden, queries)

    return Way(name, "softmax", keep, ask, asked, exact)


def nearest_tokens() -> list[Way]:
    """FAISS's flat index over the states, and softmax over the nearest; no way at all where it is not installed."""
    if not faiss_is_installed():
        return []

    def exact(hidden: Tensor, queries: Tensor, kept: TokenIndex) -> Tensor:
        places = torch.cat(
            [torch.from_numpy(kept.nearest(p)[1]) for p in kept.parts(in_numpy(queries.float()))]
        )
        scores = queries @ hidden.mT
        chosen = scores.gather(1, places)
        # Which token is the last to be chosen may hang on a rounding; how near it is may not.
        if not torch.allclose(chosen, scores.topk(kept.top).values, rtol=1e-4, atol=1e-4):
            return torch.full_like(queries, torch.nan)
        weights = torch.zeros_like(scores).scatter_(1, places, torch.softmax(chosen, -1))
        return weights @ hidden

    def keep(hidden: Tensor) -> TokenIndex:
        return TokenIndex(hidden.numpy(), TOP)

    return [Way(f"FAISS, top {TOP}", "nearest", keep, TokenIndex.ask, in_numpy, exact)]


def memories(k: int, device: str, *, packed: bool) -> list[Way]:
    """Linear and gated memories: packed triangles for a question at a time, or whole matrices for many."""
    # Random gates, about half open on the whole.
    weight, bias = torch.randn(k, k, device=device) / k**0.5, torch.randn(k, device=device)

    def linear(hidden: Tensor) -> Tensor:
        return ops.encode(hidden[None])

    def gated(hidden: Tensor) -> Tensor:
        return ops.encode_gated(hidden[None], weight, bias)

    def exact_linear(hidden: Tensor, queries: Tensor, kept: Any) -> Tensor:
        return (queries @ hidden.mT) @ hidden

    def exact_gated(hidden: Tensor, queries: Tensor, kept: Any) -> Tensor:
        opened = torch.sigmoid(hidden @ weight.double().mT + bias.double())
        return exact_linear(opened * hidden, queries, kept)

    def way(name: str, encode: Callable[[Tensor], Tensor], exact: Exact) -> Way:
        if not packed:
            return Way(name, "memory", encode, ops.lookup, alone, exact)

        def keep(hidden: Tensor) -> peers.Floats:
            return in_numpy(ops.pack(encode(hidden))[0])

        return Way(name, "memory", keep, ops.packed_lookup, first_in_numpy, exact)

    return [way("linear", linear, exact_linear), way("gated", gated, exact_gated)]


def as_it_is(tensor: Tensor) -> Tensor:
    """Nothing to be done."""
    return tensor


def alone(tensor: Tensor) -> Tensor:
    """A batch of one document."""
    return tensor[None]


def in_numpy(tensor: Tensor) -> peers.Floats:
    """The same numbers where numpy finds them; nothing is copied."""
    numbers: peers.Floats = tensor.numpy()
    return numbers


def first_in_numpy(queries: Tensor) -> peers.Floats:
    """The one query."""
    return in_numpy(queries[0])
