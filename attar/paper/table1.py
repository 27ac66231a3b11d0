"""The paper's Table 1, measured: query time, stored bytes and encoding time of every method and size.

All methods and sizes of a part are timed interleaved. An exponent compares sizes with each other: measured one size
after the other, half a minute of other load would bend the line; interleaved, it raises all of it.
"""

import copy
import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from operator import itemgetter
from statistics import quantiles
from typing import Any, NamedTuple

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from attar import ops
from attar.paper.timing import QUICK, Contender, Effort, Timer, check, relative_error, tolerance_for
from attar.progress import Progress, ignore_progress

Floats = NDArray[np.float32]
# Tokens that FAISS selects for softmax.
TOP = 100


@dataclass(frozen=True)
class Method:
    """How a document is stored and queried.

    `store(hidden [n, k])` is what is kept, `lookup(stored, prepare(queries [m, k]))` gives the readouts, and
    `reference(hidden, queries, stored)` gives the same from float64 tensors.
    """

    name: str
    store: Callable[[Tensor], Any]
    lookup: Callable[[Any, Any], Any]
    prepare: Callable[[Tensor], Any]
    reference: Callable[[Tensor, Tensor, Any], Tensor]

    def ask(self, hidden: Tensor, queries: Tensor) -> Callable[[], Any]:
        return partial(self.lookup, self.store(hidden), self.prepare(queries))

    def write(self, hidden: Tensor, queries: Tensor) -> Callable[[], Any]:
        return partial(self.store, hidden)

    def write_and_ask(self, hidden: Tensor, queries: Tensor) -> Callable[[], Any]:
        prepared = self.prepare(queries)
        return lambda: self.lookup(self.store(hidden), prepared)

    def error(self, hidden: Tensor, queries: Tensor) -> float:
        stored = self.store(hidden)
        readouts = torch.as_tensor(self.lookup(stored, self.prepare(queries))).reshape(queries.shape)
        return relative_error(readouts, self.reference(hidden.double(), queries.double(), stored))


def methods_for_one(k: int) -> list[Method]:
    """Methods for one question per call, on a CPU: numpy where it is faster, packed memories."""
    return [
        Method("softmax, numpy", Tensor.numpy, softmax_numpy, _first_numpy, _softmax_exactly),
        Method("softmax, SDPA", _unchanged, softmax_sdpa, itemgetter(0), _softmax_exactly),
        *_nearest_tokens(),
        *_memories(k, "cpu", packed=True),
    ]


def methods_for_many(k: int, device: str) -> list[Method]:
    """Methods for many questions to one document in one call."""
    plain = Method("softmax, numpy", Tensor.numpy, softmax_numpy, Tensor.numpy, _softmax_exactly)
    if device != "cpu":
        plain = Method("softmax, torch", _unchanged, softmax_torch, _unchanged, _softmax_exactly)
    sdpa = (_batch_of_one, ops.softmax_lookup, _batch_of_one, _softmax_exactly)
    nearest = _nearest_tokens() if device == "cpu" else []
    return [plain, Method("softmax, SDPA", *sdpa), *nearest, *_memories(k, device, packed=False)]


def _softmax_exactly(hidden: Tensor, queries: Tensor, stored: Any) -> Tensor:
    return softmax_torch(hidden, queries)


def _nearest_tokens() -> list[Method]:
    """FAISS's flat index over the states and softmax over the nearest ones, if FAISS is installed."""

    def reference(hidden: Tensor, queries: Tensor, stored: TokenIndex) -> Tensor:
        batches = stored.batches(queries.float().numpy())
        places = torch.cat([torch.from_numpy(stored.nearest(batch)[1]) for batch in batches])
        scores = queries @ hidden.mT
        selected = scores.gather(1, places)
        # Rounding may decide which token is selected last, but not how near it is.
        if not torch.allclose(selected, scores.topk(stored.top).values, rtol=1e-4, atol=1e-4):
            return torch.full_like(queries, torch.nan)
        weights = torch.zeros_like(scores).scatter_(1, places, torch.softmax(selected, -1))
        return weights @ hidden

    def store(hidden: Tensor) -> TokenIndex:
        return TokenIndex(hidden.numpy(), TOP)

    method = Method(f"FAISS, top {TOP}", store, TokenIndex.lookup, Tensor.numpy, reference)
    return [method] if faiss_is_installed() else []


def _memories(k: int, device: str, *, packed: bool) -> list[Method]:
    """Linear and gated memories: packed triangles for one question per call, full matrices for many."""
    # Random gates, about half open on average.
    weight, bias = torch.randn(k, k, device=device) / k**0.5, torch.randn(k, device=device)

    def linear(hidden: Tensor, queries: Tensor, stored: Any) -> Tensor:
        return (queries @ hidden.mT) @ hidden

    def gated(hidden: Tensor, queries: Tensor, stored: Any) -> Tensor:
        gates = torch.sigmoid(hidden @ weight.double().mT + bias.double())
        return linear(gates * hidden, queries, stored)

    def method(name: str, encode: Callable[[Tensor], Tensor], reference: Any) -> Method:
        if not packed:
            return Method(name, encode, ops.lookup, _batch_of_one, reference)

        def store(hidden: Tensor) -> Any:
            return ops.pack(encode(hidden))[0].numpy()

        return Method(name, store, ops.packed_lookup, _first_numpy, reference)

    return [
        method("linear", lambda hidden: ops.encode(hidden[None]), linear),
        method("gated", lambda hidden: ops.encode_gated(hidden[None], weight, bias), gated),
    ]


def _unchanged(tensor: Tensor) -> Tensor:
    return tensor


def _batch_of_one(tensor: Tensor) -> Tensor:
    return tensor[None]


def _first_numpy(queries: Tensor) -> Any:
    return queries[0].numpy()


def softmax_numpy(hidden: Floats, queries: Floats) -> Floats:
    """Hᵀ softmax(H q) in numpy, for one query `[k]` or many `[m, k]`.

    >>> softmax_numpy(np.float32([[1], [3]]), np.float32([[0]])).tolist()
    [[2.0]]
    """
    scores = queries @ hidden.T
    scores -= scores.max(-1, keepdims=True)
    np.exp(scores, out=scores)
    # Dividing last touches k numbers per query, not n.
    readouts: Floats = (scores @ hidden) / scores.sum(-1, keepdims=True)
    return readouts


def softmax_torch(hidden: Tensor, queries: Tensor) -> Tensor:
    """The same in torch."""
    return torch.softmax(queries @ hidden.mT, -1) @ hidden


def softmax_sdpa(hidden: Tensor, query: Tensor) -> Tensor:
    """The same for one query with PyTorch's fused attention."""
    rows = hidden[None]
    return torch.nn.functional.scaled_dot_product_attention(query[None, None], rows, rows, scale=1.0)[0, 0]


def faiss_is_installed() -> bool:
    return importlib.util.find_spec("faiss") is not None


class TokenIndex:
    """FAISS's flat inner-product index over a document's states; answers by softmax over the `top` nearest.

    FAISS is limited to one thread, as the other methods are.
    """

    # Queries per call: the selected states of 256 queries with top = k = 100 take 10 MB in float32.
    BATCH = 256

    def __init__(self, hidden: Floats, top: int) -> None:
        import faiss

        faiss.omp_set_num_threads(1)
        self.top = min(top, len(hidden))
        self.index = faiss.IndexFlatIP(hidden.shape[1])
        self.index.add(hidden)
        # A view of FAISS's own copy of the states: fetching them through its calls takes twice as long.
        self.states: Floats = faiss.rev_swig_ptr(self.index.get_xb(), hidden.size).reshape(hidden.shape)

    @property
    def nbytes(self) -> int:
        return int(self.index.ntotal * self.index.code_size)

    def nearest(self, queries: Floats) -> tuple[Floats, NDArray[np.int64]]:
        """Scores and positions `[m, top]` of the tokens nearest to each query."""
        scores, places = self.index.search(queries, self.top)
        return scores, places

    def batches(self, queries: Floats) -> list[Floats]:
        """Queries as they are passed to FAISS; how it rounds depends on the batch."""
        return [queries[at : at + self.BATCH] for at in range(0, len(queries), self.BATCH)]

    def lookup(self, queries: Floats) -> Floats:
        """Readouts `[m, k]`."""
        if len(queries) > self.BATCH:
            return np.concatenate([self.lookup(batch) for batch in self.batches(queries)])
        weights, places = self.nearest(queries)
        weights -= weights[:, :1]  # the best comes first
        np.exp(weights, out=weights)
        readouts: Floats = (weights[:, None] @ self.states[places])[:, 0]
        readouts /= weights.sum(1, keepdims=True)
        return readouts


ENCODER = "GRU"
# A GPU gets many questions per call; alone, each would cost a kernel launch and little else.
GPU_QUESTIONS = 1_024


class MeasuringPlan(NamedTuple):
    """How a part is measured: passes over all sizes, and of a pass the seconds and rounds."""

    passes: int
    budget: float
    rounds: int

    def timer(self, device: str) -> Timer:
        """One thread's CPU time, or the device's own time."""
        if device == "cpu":
            return Timer(Effort(self.budget, self.rounds, round_seconds=0.005), "cpu", threads=1)
        # A GPU's launch queue holds about a thousand kernels; short rounds fit into it.
        return Timer(Effort(self.budget, self.rounds, round_seconds=0.002), "gpu")


QUERY = MeasuringPlan(8, 2.0, 2)
ENCODING = MeasuringPlan(1, 8.0, 3)  # a GRU's runs are long
WRITING_MEMORIES = MeasuringPlan(4, 2.0, 2)
BATCH = MeasuringPlan(3, 5.0, 2)


@dataclass(frozen=True)
class Sizes:
    """The hidden size k, document lengths, questions per call, and batches of questions to `tokens` tokens.

    Exponents are fitted from `fit_from` tokens and from `fit_batches_from` questions on: for less than ten
    times k the fixed cost of a call shows in every time.
    """

    k: int = 100
    lengths: tuple[int, ...] = (10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)
    per_call: int = 1
    tokens: int = 1_000
    batches: tuple[int, ...] = (1, 3, 10, 30, 100, 300, 1_000, 3_000, 10_000)
    fit_from: int = 1_000
    fit_batches_from: int = 100


def sizes_for(k: int, device: str, *, quick: bool = False) -> Sizes:
    """The full sizes, or tiny ones."""
    per_call = 1 if device == "cpu" else GPU_QUESTIONS
    if quick:
        return Sizes(k, (4, 40, 80, 160), per_call, 80, (1, 10, 40), fit_from=40, fit_batches_from=1)
    return Sizes(k, per_call=per_call, fit_from=10 * k)


class Spread(msgspec.Struct, frozen=True):
    """The median and the quartiles of all rounds."""

    median: float
    low: float
    high: float


class Point(msgspec.Struct, frozen=True):
    """The cost of each method at one size, in seconds or bytes."""

    tokens: int
    questions: int
    costs: dict[str, Spread]


class Costs(msgspec.Struct, frozen=True):
    """All that was measured.

    `query_time` is per question, `stored_bytes` and `encoding_time` per document: the encoder, which every method
    needs, and what each method adds to it. `batch_time` is for all questions of one call to one document, with
    what is stored of it made first.
    """

    query_time: list[Point]
    stored_bytes: list[Point]
    encoding_time: list[Point]
    batch_time: list[Point]


def measure_costs(
    sizes: Sizes, device: str, *, quick: bool = False, progress: Progress = ignore_progress
) -> Costs:
    """Measure one part after the other; a wrong result ends it with an error."""
    many = methods_for_many(sizes.k, device)
    single = methods_for_one(sizes.k) if device == "cpu" else many
    # Softmax stores the states themselves.
    writing = [method for method in single if not method.name.startswith("softmax")]
    documents = [_states(n, sizes.k, device) for n in sizes.lengths]
    shared = _states(sizes.tokens, sizes.k, device)
    queries = torch.randn(sizes.per_call, sizes.k, device=device)
    batches = [torch.randn(m, sizes.k, device=device) for m in sizes.batches]
    parts = (QUERY, ENCODING, WRITING_MEMORIES, BATCH)
    done, total = count(), len(parts) if quick else sum(part.passes for part in parts)

    def timed(part: MeasuringPlan, groups: list[Group]) -> list[Point]:
        passes, timer = part.passes, part.timer(device)
        if quick:
            passes, timer = 1, replace(timer, effort=QUICK)
        return time_groups(groups, timer, passes, lambda: progress("measuring", next(done), total))

    amount = float(len(queries))
    query_time = timed(QUERY, [_group(single, Method.ask, d, queries, amount) for d in documents])
    encoder = timed(ENCODING, [Group(len(d), 0, [encoder_run(d)]) for d in documents])
    memories = timed(WRITING_MEMORIES, [_group(writing, Method.write, d, queries[:1]) for d in documents])
    batch_time = timed(BATCH, [_group(many, Method.write_and_ask, shared, q) for q in batches])
    return Costs(
        query_time,
        [_stored_bytes(single, hidden) for hidden in documents],
        [Point(e.tokens, 0, e.costs | m.costs) for e, m in zip(encoder, memories, strict=True)],
        batch_time,
    )


@dataclass(frozen=True)
class Group:
    """The contenders of one size."""

    tokens: int
    questions: int
    contenders: list[Contender]


def _group(
    methods: Sequence[Method],
    run: Callable[[Method, Tensor, Tensor], Callable[[], object]],
    hidden: Tensor,
    queries: Tensor,
    amount: float = 1.0,
) -> Group:
    """One contender per method: what `run` returns for it is timed."""
    # On a GPU float32 products may be made of three TensorFloat-32 ones.
    tolerance = tolerance_for(torch.float32) * (1 if hidden.device.type == "cpu" else 10)
    contenders = [
        Contender(m.name, run(m, hidden, queries), partial(m.error, hidden, queries), tolerance, amount)
        for m in methods
    ]
    return Group(len(hidden), len(queries), contenders)


def time_groups(
    groups: Sequence[Group], timer: Timer, passes: int, progress: Callable[[], None]
) -> list[Point]:
    """Check all contenders, then time them interleaved over all sizes."""
    everyone = [contender for group in groups for contender in group.contenders]
    for contender in everyone:
        check(contender)
    rounds: list[list[float]] = [[] for _ in everyone]
    for _ in range(passes):
        progress()
        for seconds, more in zip(rounds, timer.time(everyone), strict=True):
            seconds += more
    times = iter(rounds)
    return [
        Point(
            group.tokens, group.questions, {c.name: _spread(next(times), c.amount) for c in group.contenders}
        )
        for group in groups
    ]


def _spread(seconds: Sequence[float], amount: float) -> Spread:
    low, middle, high = quantiles([time / amount for time in seconds], n=4, method="inclusive")
    return Spread(middle, low, high)


def encoder_run(embedded: Tensor) -> Contender:
    """A GRU as in the paper, its hidden size that of the embeddings `[n, k]`, over one document."""
    k, device = embedded.shape[1], embedded.device
    gru = nn.GRU(k, k, batch_first=True).to(device)

    @torch.inference_mode()
    def run() -> Tensor:
        states: Tensor = gru(embedded[None])[0]
        return states

    @torch.inference_mode()
    def error() -> float:
        beginning = embedded[:1_000]
        exact = copy.deepcopy(gru).double()(beginning.double()[None])[0]
        return relative_error(run()[:, : len(beginning)], exact)

    # cuDNN's GRU multiplies in TensorFloat-32, ten bits, by default.
    dtype = torch.float32 if device.type == "cpu" else torch.bfloat16
    return Contender(ENCODER, run, error, tolerance_for(dtype))


def _stored_bytes(methods: Sequence[Method], hidden: Tensor) -> Point:
    sizes = {method.name: float(method.store(hidden).nbytes) for method in methods}
    return Point(len(hidden), 0, {name: Spread(size, size, size) for name, size in sizes.items()})


def _states(n: int, k: int, device: str) -> Tensor:
    """A made-up document `[n, k]`; its scores with random queries have a variance of one."""
    return torch.randn(n, k, device=device).mul_(k**-0.5)
