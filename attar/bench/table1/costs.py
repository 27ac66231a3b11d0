"""What is measured: a question's time, a document's bytes and its encoding, for all sizes and ways."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count

import msgspec
import torch
from torch import Tensor, nn

from attar.bench.case import Contender
from attar.bench.ops import Tell
from attar.bench.referee import distance, tolerance_of
from attar.bench.table1.turns import Field, Point, Schedule, Spread, race
from attar.bench.table1.ways import Kind, Way, ways_for_many, ways_for_one

READING = "GRU"
# A GPU is fed many questions at a time; alone, each would cost it a launch and nothing else.
FED_TOGETHER = 1_024


@dataclass(frozen=True)
class Sizes:
    """Sizes of states and of documents, `together` questions a call; heaps of questions to one of `tokens`.

    Exponents are fitted from `fit_from` tokens and `fit_heaps_from` questions on: with fewer, below ten times
    k, a call's own cost shows in every time.
    """

    k: int = 100
    lengths: tuple[int, ...] = (10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)
    together: int = 1
    tokens: int = 1_000
    questions: tuple[int, ...] = (1, 3, 10, 30, 100, 300, 1_000, 3_000, 10_000)
    fit_from: int = 1_000
    fit_heaps_from: int = 100


def sizes_for(k: int, device: str, *, quick: bool = False) -> Sizes:
    """The full sizes, or what a test can wait for."""
    together = 1 if device == "cpu" else FED_TOGETHER
    if quick:
        return Sizes(k, (4, 40, 80, 160), together, 80, (1, 10, 40), fit_from=40, fit_heaps_from=1)
    return Sizes(k, together=together, fit_from=10 * k)


class Costs(msgspec.Struct, frozen=True):
    """All that was measured: seconds a question, bytes a document, and seconds of its encoding.

    `encoding` has a GRU's reading, which all need, and what each way adds to it. `sharing` has the seconds of
    all questions to one document in one call, what is kept of it made first.
    """

    asking: list[Point]
    keeping: list[Point]
    encoding: list[Point]
    sharing: list[Point]
    kinds: dict[str, Kind]
    notes: list[str]


def measure_costs(sizes: Sizes, device: str, schedule: Schedule, tell: Tell) -> Costs:
    """Every part, one after the other; `tell(done, total, what)` is called before each pass."""
    ones = ways_for_one(sizes.k) if device == "cpu" else ways_for_many(sizes.k, device)
    many = ways_for_many(sizes.k, device)
    documents = [states(n, sizes.k, device) for n in sizes.lengths]
    shared = states(sizes.tokens, sizes.k, device)
    notes: list[str] = []
    done = count()

    def telling(what: str) -> Callable[[], None]:
        return lambda: tell(next(done), schedule.passes, what)

    asked = questions(sizes.together, sizes.k, device)
    asking = [asking_field(ones, hidden, asked) for hidden in documents]
    reading = [Field(len(hidden), 0, [gru_over(hidden)]) for hidden in documents]
    writing = [writing_field(ones, hidden) for hidden in documents]
    sharing = [sharing_field(many, shared, questions(m, sizes.k, device)) for m in sizes.questions]
    return Costs(
        race(asking, schedule.asking, notes, telling("questions to documents of all lengths")),
        [bytes_kept(ones, hidden) for hidden in documents],
        beside(
            race(reading, schedule.reading, notes, telling("reading documents of all lengths")),
            race(writing, schedule.writing, notes, telling("writing memories of all documents")),
        ),
        race(sharing, schedule.sharing, notes, telling("many questions to one document")),
        {way.name: way.kind for way in [*ones, *many]},
        notes,
    )


def asking_field(ways: Sequence[Way], hidden: Tensor, queries: Tensor) -> Field:
    """Questions to a document that is kept already; seconds are those of one."""

    def run(way: Way) -> Callable[[], object]:
        ask, kept, asked = way.ask, way.keep(hidden), way.asked(queries)
        return lambda: ask(kept, asked)

    amount = float(len(queries))
    entered = [contender(way, run(way), hidden, queries, amount) for way in ways]
    return Field(len(hidden), len(queries), entered)


def writing_field(ways: Sequence[Way], hidden: Tensor) -> Field:
    """What is kept of a document, made of its states; softmax keeps the states."""
    query = questions(1, hidden.shape[1], hidden.device.type)

    def run(way: Way) -> Callable[[], object]:
        return lambda: way.keep(hidden)

    entered = [contender(way, run(way), hidden, query) for way in ways if way.kind != "softmax"]
    return Field(len(hidden), 0, entered)


def sharing_field(ways: Sequence[Way], hidden: Tensor, queries: Tensor) -> Field:
    """All questions in one call, after what is kept has been made for them; seconds are those of all."""

    def run(way: Way) -> Callable[[], object]:
        keep, ask, asked = way.keep, way.ask, way.asked(queries)
        return lambda: ask(keep(hidden), asked)

    return Field(len(hidden), len(queries), [contender(way, run(way), hidden, queries) for way in ways])


def contender(
    way: Way, run: Callable[[], object], hidden: Tensor, queries: Tensor, amount: float = 1.0
) -> Contender:
    """A way at one size, ready to be checked and timed."""
    # On a GPU float32 products may be made of three TensorFloat-32 ones.
    tolerance = tolerance_of(torch.float32) * (1 if hidden.device.type == "cpu" else 10)
    return Contender(way.name, run, lambda: way.error(hidden, queries), tolerance, amount)


def gru_over(embedded: Tensor) -> Contender:
    """A GRU of the paper's kind, states of the size of the embeddings, over a document in one go."""
    k, device = embedded.shape[1], embedded.device
    gru = nn.GRU(k, k, batch_first=True).to(device)

    @torch.inference_mode()
    def run() -> Tensor:
        states: Tensor = gru(embedded[None])[0]
        return states

    def error() -> float:
        beginning = embedded[:1_000]
        with torch.inference_mode():
            exact = copy.deepcopy(gru).double()(beginning.double()[None])[0]
        return distance(run()[:, : len(beginning)], exact)

    # cuDNN's GRU multiplies in TensorFloat-32, ten bits, unless it is told otherwise.
    dtype = torch.float32 if device.type == "cpu" else torch.bfloat16
    return Contender(READING, run, error, tolerance_of(dtype))


def bytes_kept(ways: Sequence[Way], hidden: Tensor) -> Point:
    """Bytes of what is kept of a document."""
    sizes = {way.name: float(way.keep(hidden).nbytes) for way in ways}
    return Point(len(hidden), 0, {name: Spread(size, size, size) for name, size in sizes.items()})


def beside(reading: Sequence[Point], writing: Sequence[Point]) -> list[Point]:
    """The costs of two races over the same documents in one list."""
    pairs = zip(reading, writing, strict=True)
    return [Point(read.tokens, 0, {**read.costs, **write.costs}) for read, write in pairs]


def states(n: int, k: int, device: str) -> Tensor:
    """A made-up document `[n, k]`; scores of queries with it have a variance of one."""
    return torch.randn(n, k, device=device).mul_(k**-0.5)


def questions(m: int, k: int, device: str) -> Tensor:
    """Made-up queries `[m, k]`."""
    return torch.randn(m, k, device=device)
