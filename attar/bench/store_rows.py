"""Rows on made-up memories: lookups by name, many in one call, bytes a document, opening a large store."""

import os
import time
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np
import torch

from attar.bench.case import (
    Case,
    Contender,
    Goal,
    Measurement,
    WrongResultError,
    check,
    duel,
    ratio_of,
)
from attar.bench.clocks import WallClock
from attar.bench.cpu import forever
from attar.bench.peers import Floats, softmax_numpy
from attar.bench.referee import distance, tolerance_of
from attar.bench.store_filling import Pile, Piles, Sizes, hidden_documents
from attar.bench.tables import quantity
from attar.memory import NUMBERS_AT
from attar.store import Store

ONE_LOOKUP = 12e-6
LOOKUPS_A_SECOND = 150_000
OPENING = 0.05
# What opening may add to the working memory, whatever the store's size.
OPENING_BYTES = 2**20
STATM = Path("/proc/self/statm")

TOLERANCE = tolerance_of(torch.float32)


def store_cases(piles: Piles, clock: WallClock, many: int) -> list[Case]:
    """The rows that need no reader."""
    sizes = piles.sizes
    k, n, dtype = sizes.size, sizes.tokens, sizes.dtype
    one = f"lookup by name, {sizes.documents:,} documents, {dtype}, k = {k}, one at a time"
    call = f"{many} lookups on random documents in one call, {sizes.documents:,} documents, {dtype}, k = {k}"
    opening = f"opening a store of {sizes.documents:,} documents"
    ten, three, limit, rate = Goal(10), Goal(3), Goal(1, at_least=False), Goal(1)
    thirteenth = Goal(round(1 / 13, 4), at_least=False)
    cases = [
        Case(one, f"all states stored, softmax, n = {n}", ten, lambda: beside_softmax(ten, clock, piles)),
        Case(one, "a limit of 12 µs", limit, lambda: one_within(limit, clock, packed(piles))),
        Case(call, "one at a time", three, lambda: beside_one_at_a_time(three, clock, packed(piles), many)),
        Case(
            call,
            f"{LOOKUPS_A_SECOND:,} lookups/s",
            rate,
            lambda: many_within(rate, clock, packed(piles), many),
        ),
        Case(
            f"bytes a document, float16, k = {k}",
            f"hidden states at n = {n}, float16",
            thirteenth,
            lambda: bytes_a_document(thirteenth, piles),
        ),
        Case(opening, "a limit of 50 ms", limit, lambda: opening_time(limit, packed(piles))),
    ]
    if STATM.exists():
        memory = Case(
            f"working memory, {opening}",
            "a limit of 1 MB",
            limit,
            lambda: opening_bytes(limit, packed(piles)),
        )
        cases.append(memory)
    return cases


def packed(piles: Piles) -> Pile:
    """The store that the rows are about."""
    return piles.of("gated", piles.sizes.documents, piles.sizes.dtype)


def one_lookup(store: Store, pile: Pile) -> Contender:
    """One question to one document, in a reading of its own: what a lookup alone costs."""
    walk = forever(pile.names())

    def look_up(name: str) -> Floats:
        with store.snapshot() as now:
            return now.lookup(name, pile.query)

    def error() -> float:
        found = [look_up(pile.name(number)) for number in range(len(pile.expected))]
        return distance(torch.from_numpy(np.concatenate(found)), pile.expected)

    for name in pile.names():  # warm: asked once before the clock starts
        look_up(name)
    return Contender("one at a time", lambda: look_up(next(walk)), error, TOLERANCE)


def many_lookups(store: Store, pile: Pile, many: int) -> Contender:
    """As many questions, each to a document of its own, in one call."""
    names, few = pile.names(), len(pile.expected)
    walk = forever([names[at : at + many] for at in range(0, len(names) - many + 1, many)])
    queries = np.repeat(pile.query, max(many, few), 0)

    def look_up(names: list[str]) -> Floats:
        with store.snapshot() as now:
            return now.lookup_many(names, queries[: len(names)])

    def error() -> float:
        found = look_up([pile.name(number) for number in range(few)])
        return distance(torch.from_numpy(found), pile.expected)

    for at in range(0, len(names), many):
        look_up(names[at : at + many])
    return Contender("in one call", lambda: look_up(next(walk)), error, TOLERANCE, amount=many)


def beside_softmax(goal: Goal, clock: WallClock, piles: Piles) -> Measurement:
    """The same documents in a store with all their states, asked by name too: neither fits the cache."""
    ours = packed(piles)
    theirs = piles.of("softmax", hidden_documents(piles.sizes), "float32")
    with Store.open(ours.folder, read_only=True) as store, Store.open(theirs.folder, read_only=True) as other:
        return duel(goal, one_lookup(store, ours), [softmax_lookup(other, theirs, piles.sizes)], clock)


def softmax_lookup(store: Store, pile: Pile, sizes: Sizes) -> Contender:
    """Softmax over states where they lie in the file, without a Memory either."""
    n, k = sizes.tokens, sizes.size
    walk, query = forever(pile.names()), pile.query[0]

    def look_up(name: str) -> Floats:
        with store.snapshot() as now:
            states = np.frombuffer(now.view(name), np.float32, n * k, NUMBERS_AT)
            return softmax_numpy(states.reshape(n, k), query)

    def error() -> float:
        found = [look_up(pile.name(number)) for number in range(len(pile.expected))]
        return distance(torch.from_numpy(np.stack(found)), pile.expected)

    for name in pile.names():
        look_up(name)
    what = f"all states stored, softmax, n = {n}"
    return Contender(what, lambda: look_up(next(walk)), error, TOLERANCE)


def one_within(goal: Goal, clock: WallClock, pile: Pile) -> Measurement:
    """A lookup beside what it may take."""
    with Store.open(pile.folder, read_only=True) as store:
        return within(goal, clock, one_lookup(store, pile), ONE_LOOKUP)


def beside_one_at_a_time(goal: Goal, clock: WallClock, pile: Pile, many: int) -> Measurement:
    """Many lookups in one call, beside as many calls."""
    with Store.open(pile.folder, read_only=True) as store:
        found = duel(goal, many_lookups(store, pile, many), [one_lookup(store, pile)], clock)
    return replace(found, ours=found.ours / many, note="seconds a lookup")


def many_within(goal: Goal, clock: WallClock, pile: Pile, many: int) -> Measurement:
    """Many lookups in one call, beside the seconds that a lookup may take."""
    with Store.open(pile.folder, read_only=True) as store:
        found = within(goal, clock, many_lookups(store, pile, many), 1 / LOOKUPS_A_SECOND)
    return replace(found, note=f"{1 / found.ours:,.0f} lookups/s")


def within(goal: Goal, clock: WallClock, ours: Contender, limit: float) -> Measurement:
    """Check ours, then time it beside a limit of so many seconds for one of what it does."""
    check(ours)
    (times,) = clock.race([ours])
    seconds = [each / ours.amount for each in times]
    ratio, low, high = ratio_of(goal, seconds, [limit] * len(seconds))
    return Measurement(ratio, low, high, median(seconds), limit, "s")


def bytes_a_document(goal: Goal, piles: Piles) -> Measurement:
    """A record's bytes, all of it: header, numbers, the state to read on from, whose it is."""
    few = min(piles.sizes.documents, 100)
    ours, theirs = (piles.of(mechanism, few, "float16") for mechanism in ("gated", "softmax"))
    ratio = ours.record_bytes / theirs.record_bytes
    note = (
        f"on the disk, with facts and in whole pages, {quantity(ours.file_bytes(), 'B')} beside "
        f"{quantity(theirs.file_bytes(), 'B')} a document"
    )
    return Measurement(ratio, ratio, ratio, ours.record_bytes, theirs.record_bytes, "B", note=note)


def opening_time(goal: Goal, pile: Pile, rounds: int = 20) -> Measurement:
    """Seconds from the call to a store that can be asked."""
    seconds = []
    for _ in range(rounds):
        start = time.perf_counter()
        store = Store.open(pile.folder)
        seconds.append(time.perf_counter() - start)
        check_count(store, pile)
        store.close()
    ratio, low, high = ratio_of(goal, seconds, [OPENING] * rounds)
    return Measurement(ratio, low, high, median(seconds), OPENING, "s")


def opening_bytes(goal: Goal, pile: Pile, rounds: int = 20) -> Measurement:
    """What opening adds to the process's resident memory."""
    grown = []
    for _ in range(rounds):
        before = resident_bytes()
        with Store.open(pile.folder) as store:
            grown.append(resident_bytes() - before)
            check_count(store, pile)
            size = store.stats().file_bytes
    ratio, low, high = ratio_of(goal, grown, [OPENING_BYTES] * rounds)
    note = f"its file has {quantity(size, 'B')}"
    return Measurement(ratio, low, high, median(grown), OPENING_BYTES, "B", note=note)


def check_count(store: Store, pile: Pile) -> None:
    """Refuse to time the opening of anything but the whole store."""
    if len(store) != pile.documents:
        raise WrongResultError(f"a store of {len(store):,} documents, not {pile.documents:,}")


def resident_bytes() -> int:
    """The process's resident memory, as Linux counts it."""
    return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
