"""CPU rows: lookups out of cache, encoding, the adaptive scan, and the bytes that backward makes."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import cycle
from typing import Any

import numpy as np
import torch

from attar import ops
from attar.bench import peers
from attar.bench.allocations import peak_bytes
from attar.bench.case import Case, Contender, Goal, Measurement, duel, weigh
from attar.bench.clocks import Effort, WallClock
from attar.bench.machine import last_cache_bytes
from attar.bench.referee import distance, sampled, tolerance_of
from attar.ops import COMPILED, product_in_use

TOLERANCE = tolerance_of(torch.float32)
BATCH = 64


def cpu_cases(effort: Effort, *, quick: bool = False) -> list[Case]:
    """The CPU's target rows; `quick` shrinks them to what a test can wait for, and their names say so."""
    one, all_threads = WallClock(effort, threads=1), WallClock(effort)
    held = 2**20 if quick else 4 * last_cache_bytes()
    short, long = (75, 300) if quick else (750, 10_000)
    encoded = (4, 50, 20) if quick else (32, 750, 100)
    scanned = (2, 70, 16) if quick else (8, 1024, 128)
    n_by_k, far, near, quicker = Goal(short / 100), Goal(80), Goal(1.2, at_least=False), Goal(3)
    half = Goal(1.5, at_least=False)
    softmax = "softmax over H, n = {:,}, both out of cache"
    return [
        Case(
            "CPU lookup, packed float32, k = 100, one thread",
            softmax.format(short),
            n_by_k,
            lambda: with_product(lambda: beside_softmax(n_by_k, one, short, 100, held)),
        ),
        Case(
            "CPU lookup, packed float32, k = 100, one thread",
            softmax.format(long),
            far,
            lambda: with_product(lambda: beside_softmax(far, one, long, 100, held)),
        ),
        Case(
            "CPU encode, {} × {} × {} float32".format(*encoded),
            "torch.bmm",
            near,
            lambda: beside_bmm(near, all_threads, encoded),
        ),
        Case(
            "CPU adaptive scan, {} × {:,} × {}, forward".format(*scanned),
            "the plain loop in torch",
            quicker,
            lambda: beside_loop(quicker, all_threads, scanned),
        ),
        Case(
            "CPU backward's extra memory, encode, {} × {} × {} float32".format(*encoded),
            "H's own bytes",
            half,
            lambda: extra_memory(half, encoded),
        ),
        Case(
            f"CPU lookup, packed float32, k = 100, one thread, {BATCH} documents a call",
            softmax.format(short) + ", as many a call",
            n_by_k,
            lambda: with_product(lambda: many_beside_softmax(n_by_k, one, short, 100, held)),
        ),
    ]


def with_product(measure: Callable[[], Measurement]) -> Measurement:
    """A measurement of lookups, and the product that was used; a program that asks often has the compiled one."""
    COMPILED.now()
    found = measure()
    note = f"memories were multiplied by: {product_in_use()}"
    return replace(found, note="; ".join(filter(None, (note, found.note))))


def beside_softmax(goal: Goal, clock: WallClock, n: int, k: int, held: int) -> Measurement:
    """One question to one document at a time, each document out of a pile far larger than the cache.

    The piles are walked in one random order, again and again: by the time a document is met again, all the
    others have gone through the cache.
    """
    hidden, packed, memories = piles(n, k, held)
    query = questions(1, k)[0]
    expected = torch.einsum("nij,j->ni", memories, torch.from_numpy(query).double())
    out = np.empty(k, dtype=np.float32)

    def error() -> float:
        found = [ops.packed_lookup(row, query, out).copy() for row in packed[: len(expected)]]
        return distance(torch.from_numpy(np.stack(found)), expected)

    walk = forever(list(packed))
    ours = Contender(
        "attar.ops.packed_lookup", lambda: ops.packed_lookup(next(walk), query, out), error, TOLERANCE
    )
    return duel(goal, ours, softmax_rivals(hidden, query), clock)


def many_beside_softmax(goal: Goal, clock: WallClock, n: int, k: int, held: int) -> Measurement:
    """Many questions at a time, each to a document of its own; what is said of `beside_softmax` holds here."""
    hidden, packed, memories = piles(n, k, held)
    many = min(BATCH, len(hidden), len(memories))
    queries = questions(many, k)
    out = np.empty_like(queries)
    asked = torch.from_numpy(queries).double()
    first = np.arange(many)

    def error() -> float:
        expected = torch.einsum("nij,nj->ni", memories[:many], asked)
        return distance(torch.from_numpy(ops.packed_lookup_many(packed, queries, first)), expected)

    walk = forever(groups(len(packed), many))
    ours = Contender(
        "attar.ops.packed_lookup_many",
        lambda: ops.packed_lookup_many(packed, queries, next(walk), out),
        error,
        TOLERANCE,
    )
    return duel(goal, ours, many_softmax_rivals(hidden, queries), clock)


def many_softmax_rivals(hidden: peers.Floats, queries: peers.Floats) -> list[Contender]:
    """Softmax for many documents a call: one by one, or all at once where they happen to lie side by side."""
    many = len(queries)
    tensors, asked = torch.from_numpy(hidden), torch.from_numpy(queries)
    exact = torch.stack(
        [peers.softmax_torch(*pair) for pair in zip(tensors[:many].double(), asked.double(), strict=True)]
    )

    def one_by_one(places: Any) -> torch.Tensor:
        found = [peers.softmax_numpy(hidden[i], q) for i, q in zip(places, queries, strict=True)]
        return torch.from_numpy(np.stack(found))

    def at_once(places: Any) -> torch.Tensor:
        rows = tensors[places[0] : places[0] + many][:, None]
        sdpa = torch.nn.functional.scaled_dot_product_attention
        return sdpa(asked[:, None, None], rows, rows, scale=1.0)[:, 0, 0]

    def contender(name: str, lookup: Callable[[Any], torch.Tensor], lots: list[Any]) -> Contender:
        walk = forever(lots)
        return Contender(
            f"softmax over H, n = {hidden.shape[1]:,}, {many} documents a call ({name})",
            lambda: lookup(next(walk)),
            lambda: distance(lookup(np.arange(many)), exact),
            TOLERANCE,
        )

    side_by_side = [range(start, start + many) for start in range(0, len(hidden) - many + 1, many)]
    return [
        contender("numpy", one_by_one, groups(len(hidden), many)),
        contender("SDPA", at_once, side_by_side),
    ]


def piles(n: int, k: int, held: int) -> tuple[peers.Floats, peers.Floats, torch.Tensor]:
    """States and packed memories, `held` bytes of each, and the first memories in full and in float64.

    Few memories are made and the pile repeats them: each copy lies elsewhere, so the cache knows none of them.
    """
    shape = (max(2, held // (4 * n * k)), n, k)
    hidden = np.float32(k**-0.5) * np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
    some = torch.from_numpy(hidden[:64])
    packed = ops.pack(ops.encode(some)).numpy()
    count = max(2, held // packed[0].nbytes)
    return hidden, np.resize(packed, (count, packed.shape[1])), ops.encode(some.double())


def questions(count: int, k: int) -> peers.Floats:
    """So many made-up queries."""
    return np.random.default_rng(2).standard_normal((count, k), dtype=np.float32)


def groups(count: int, size: int) -> list[Any]:
    """Places 0 to count - 1 in a random order, `size` at a time; what is left over is left out."""
    order = np.random.default_rng(1).permutation(count)
    return list(order[: count // size * size].reshape(-1, size))


def softmax_rivals(hidden: peers.Floats, query: peers.Floats) -> list[Contender]:
    """Softmax over all states, in every way worth trying."""
    tensors, q = torch.from_numpy(hidden), torch.from_numpy(query)
    few = tensors[: min(len(hidden), 8)]
    exact = torch.stack([peers.softmax_torch(rows.double(), q.double()) for rows in few])

    def contender(name: str, lookup: Callable[..., Any], documents: list[Any], asked: Any) -> Contender:
        walk = forever(documents)

        def error() -> float:
            found = [torch.as_tensor(lookup(rows, asked)) for rows in documents[: len(few)]]
            return distance(torch.stack(found), exact)

        return Contender(name, lambda: lookup(next(walk), asked), error, TOLERANCE)

    n = f"softmax over H, n = {hidden.shape[1]:,}"
    return [
        contender(f"{n} (numpy)", peers.softmax_numpy, list(hidden), query),
        contender(f"{n} (torch)", peers.softmax_torch, list(tensors), q),
        contender(f"{n} (SDPA)", peers.softmax_sdpa, list(tensors), q),
    ]


def forever(documents: list[Any]) -> Iterator[Any]:
    """The documents in one random order, over and over."""
    order = np.random.default_rng(1).permutation(len(documents))
    return cycle([documents[place] for place in order])


def beside_bmm(goal: Goal, clock: WallClock, shape: tuple[int, int, int]) -> Measurement:
    """The same Gram product, with our checks and without."""
    f = torch.randn(shape)
    expected = ops.encode(f.double(), backend="reference")

    def contender(name: str, run: Callable[[], torch.Tensor]) -> Contender:
        return Contender(name, run, lambda: distance(run(), expected), TOLERANCE)

    ours = contender("attar.ops.encode", lambda: ops.encode(f))
    return duel(goal, ours, [contender("torch.bmm", lambda: torch.bmm(f.mT, f))], clock)


def beside_loop(goal: Goal, clock: WallClock, shape: tuple[int, int, int]) -> Measurement:
    """The chunked scan and the loop that it replaces."""
    k = shape[2]
    h, f = torch.randn(shape), torch.nn.functional.normalize(torch.randn(shape), dim=-1)
    cell = ops.AffineGates(torch.randn(2, k) / k**0.5, torch.randn(2, k) / k**0.5, torch.tensor([3.0, 0.0]))
    exact = ops.AffineGates(*(x.double() for x in cell.tensors()))
    expected = ops.encode_adaptive(sampled(h).double(), sampled(f).double(), exact, backend="reference")

    def contender(name: str, run: Callable[..., torch.Tensor]) -> Contender:
        @torch.no_grad()
        def scan() -> torch.Tensor:
            return run(h, f, cell)

        # The gates feed on their own results: an error of 1e-7 in the first reading grows on the way.
        return Contender(name, scan, lambda: distance(sampled(scan()), expected), 10 * TOLERANCE)

    ours = contender("attar.ops.encode_adaptive", ops.encode_adaptive)
    return duel(goal, ours, [contender("the plain loop in torch", peers.plain_adaptive_loop)], clock)


def extra_memory(goal: Goal, shape: tuple[int, int, int]) -> Measurement:
    """What backward has made at its peak, counted from its call, beside the bytes of H."""
    f, G = torch.randn(shape, requires_grad=True), torch.randn(shape[0], shape[2], shape[2])
    memory = ops.encode(f)

    def gradient() -> torch.Tensor:
        return torch.autograd.grad(memory, f, G, retain_graph=True)[0]

    def error() -> float:
        return distance(gradient(), torch.bmm(f.double(), G.double() + G.double().mT))

    ours = Contender("attar.ops.encode", gradient, error, TOLERANCE)
    return weigh(goal, ours, lambda: peak_bytes(gradient), f.nbytes)
