"""`python -m benchmarks.store`: lookups by name, bytes per document, opening, adding; on one core."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Annotated

import numpy as np
import torch
import typer

from attar.bench.baselines import Floats, softmax_numpy
from attar.bench.cost import QUICK, Contender, Effort, Timer, WrongResultError, relative_error, tolerance_for
from attar.bench.report import quantity, this_machine
from attar.cli.output import progress_bar
from attar.errors import OptionError
from attar.memory.record import NUMBERS_AT
from attar.progress import Progress, ignore_progress
from attar.store.lookups import compile_lookups
from attar.store.store import Store
from benchmarks.command import Json, Only, Quick, ReaderFolder, run_command, show
from benchmarks.comparison import Case, Comparison, Goal, compare, compare_with_limit
from benchmarks.filled_stores import FilledStore, FilledStores, Sizes, file_size
from benchmarks.ops import shuffled_forever
from benchmarks.report import Report, run_cases
from benchmarks.store_reader import accuracy_cases, adding_case

DTYPES = ("float32", "float16", "int8")
LOOKUPS_PER_CALL = 256
DOCUMENTS_ADDED = 64
# Long enough to average over several commits, which wait for the disk.
ADDING = Effort(budget=8.0, rounds=6)
LOOKUP_SECONDS = 12e-6
LOOKUPS_PER_SECOND = 150_000
OPENING_SECONDS = 0.05
# What opening may add to the resident memory, whatever the store's size.
OPENING_BYTES = 2**20
STATM = Path("/proc/self/statm")
TOLERANCE = tolerance_for(torch.float32)


@dataclass(frozen=True)
class Options:
    """What is measured: the size and dtype of the store, its place, the reader, and cloze sets."""

    documents: int = 10_000
    dtype: str = "float32"
    synthetic: bool = False
    place: Path | None = None
    data: Sequence[Path] = ()
    reader: Path | None = None
    quick: bool = False

    def sizes(self) -> Sizes:
        """The sizes of the random memories."""
        if self.dtype not in DTYPES:
            raise OptionError.expected("--dtype", " or ".join(DTYPES), repr(self.dtype))
        if self.quick:
            return Sizes(min(self.documents, 40), tokens=60, size=20, dtype=self.dtype)
        return Sizes(self.documents, dtype=self.dtype)


def run(options: Options, *, only: str | None = None, progress: Progress = ignore_progress) -> Report:
    """Measure every row; progress is reported before each one, and while a store is filled."""
    machine = this_machine()  # before the first row adds to its load
    compile_lookups()  # a program that asks often has the compiled lookups
    torch.manual_seed(0)
    with FilledStores(options.sizes(), options.place, progress) as stores:
        cases, notes = all_cases(options, stores)
        notes += machine.busy_notes()
        return run_cases(machine, cases, only, progress, notes, judged=not options.quick)


def all_cases(options: Options, stores: FilledStores) -> tuple[list[Case], list[str]]:
    """The cases for these options, and notes on what is not measured."""
    timer = Timer(QUICK if options.quick else Effort(), threads=1)
    cases, notes = store_cases(stores, timer, min(LOOKUPS_PER_CALL, stores.sizes.documents)), list[str]()
    if options.synthetic:
        return cases, notes
    timer = Timer(QUICK if options.quick else ADDING, threads=1)
    added = 2 if options.quick else DOCUMENTS_ADDED
    cases.append(adding_case(options.reader, stores.folder, timer, added))
    if options.data:
        cases += accuracy_cases(options.data, options.reader)
    else:
        notes.append("The accuracy of rounded memories needs a cloze set: --data DIR.")
    return cases, notes


def store_cases(stores: FilledStores, timer: Timer, many: int) -> list[Case]:
    """The cases that need no reader."""
    k, n, dtype, documents = (
        stores.sizes.size,
        stores.sizes.tokens,
        stores.sizes.dtype,
        stores.sizes.documents,
    )
    one = f"lookup by name, {documents:,} documents, {dtype}, k = {k}, one at a time"
    call = f"{many} lookups on random documents in one call, {documents:,} documents, {dtype}, k = {k}"
    opening = f"opening a store of {documents:,} documents"
    limit = Goal(1, at_least=False)
    rate = f"{LOOKUPS_PER_SECOND:,} lookups/s"
    cases = [
        Case(one, f"all states stored, softmax, n = {n}", Goal(10), lambda: lookup_vs_softmax(timer, stores)),
        Case(one, "a limit of 12 µs", limit, lambda: lookup_vs_limit(timer, stores.packed())),
        Case(call, "one at a time", Goal(3), lambda: many_vs_one(timer, stores.packed(), many)),
        Case(call, rate, Goal(1), lambda: many_vs_rate(timer, stores.packed(), many)),
        Case(
            f"bytes per document, float16, k = {k}",
            f"hidden states at n = {n}, float16",
            Goal(round(1 / 13, 4), at_least=False),
            lambda: bytes_per_document(stores),
        ),
        Case(opening, "a limit of 50 ms", limit, lambda: opening_time(stores.packed())),
    ]
    if STATM.exists():
        memory = f"resident memory, {opening}"
        cases.append(Case(memory, "a limit of 1 MB", limit, lambda: opening_memory(stores.packed())))
    return cases


def _lookup_contender(
    what: str, filled: FilledStore, lookup: Callable[[str], Floats], tolerance: float = TOLERANCE
) -> Contender:
    """Lookups of one document at a time, in random order; every document is read once before."""
    walk = shuffled_forever(filled.names())

    def error() -> float:
        readouts = np.stack([lookup(name).reshape(-1) for name in filled.first_names()])
        return relative_error(torch.from_numpy(readouts), filled.expected)

    for name in filled.names():
        lookup(name)
    return Contender(what, lambda: lookup(next(walk)), error, tolerance)


def one_lookup(store: Store, filled: FilledStore) -> Contender:
    """One query to one document per transaction."""

    def lookup(name: str) -> Floats:
        with store.snapshot() as now:
            return now.lookup(name, filled.query)

    return _lookup_contender("one at a time", filled, lookup)


def softmax_lookup(store: Store, filled: FilledStore, sizes: Sizes) -> Contender:
    """Softmax over states in the memory-mapped file, without a Memory either."""
    n, k = sizes.tokens, sizes.size

    def lookup(name: str) -> Floats:
        with store.snapshot() as now:
            states = np.frombuffer(now.view(name), np.float32, n * k, NUMBERS_AT)
            return softmax_numpy(states.reshape(n, k), filled.query[0])

    return _lookup_contender(f"all states stored, softmax, n = {n}", filled, lookup)


def many_lookups(store: Store, filled: FilledStore, many: int) -> Contender:
    """`many` queries, each to its own document, in one call."""
    names, first = filled.names(), filled.first_names()
    walk = shuffled_forever([names[at : at + many] for at in range(0, len(names) - many + 1, many)])
    queries = np.repeat(filled.query, max(many, len(first)), 0)

    def lookup(names: list[str]) -> Floats:
        with store.snapshot() as now:
            return now.lookup_many(names, queries[: len(names)])

    def error() -> float:
        return relative_error(torch.from_numpy(lookup(first)), filled.expected)

    for at in range(0, len(names), many):
        lookup(names[at : at + many])
    return Contender("in one call", lambda: lookup(next(walk)), error, TOLERANCE, amount=many)


def lookup_vs_softmax(timer: Timer, stores: FilledStores) -> Comparison:
    """The same documents in a store with all their states; neither store fits the cache."""
    ours = stores.packed()
    theirs = stores.get("softmax", stores.sizes.hidden_documents, "float32")
    with Store.open(ours.folder, read_only=True) as store, Store.open(theirs.folder, read_only=True) as other:
        return compare(one_lookup(store, ours), [softmax_lookup(other, theirs, stores.sizes)], timer)


def lookup_vs_limit(timer: Timer, filled: FilledStore) -> Comparison:
    """One lookup and the seconds that it may take."""
    with Store.open(filled.folder, read_only=True) as store:
        return compare_with_limit(one_lookup(store, filled), LOOKUP_SECONDS, timer)


def many_vs_one(timer: Timer, filled: FilledStore, many: int) -> Comparison:
    """Many lookups in one call, and as many calls."""
    with Store.open(filled.folder, read_only=True) as store:
        result = compare(many_lookups(store, filled, many), [one_lookup(store, filled)], timer)
    each = [seconds / many for seconds in result.ours]
    return replace(result, ours=each, amounts=(1.0, 1.0), note="seconds per lookup")


def many_vs_rate(timer: Timer, filled: FilledStore, many: int) -> Comparison:
    """Many lookups in one call, and the seconds that each may take."""
    with Store.open(filled.folder, read_only=True) as store:
        result = compare_with_limit(many_lookups(store, filled, many), 1 / LOOKUPS_PER_SECOND, timer)
    return replace(result, note=f"{1 / median(result.ours):,.0f} lookups/s")


def bytes_per_document(stores: FilledStores) -> Comparison:
    """The bytes of a whole record: header, numbers, encoder state, reader."""
    few = min(stores.sizes.documents, 100)
    ours, theirs = (stores.get(mechanism, few, "float16") for mechanism in ("gated", "softmax"))
    on_disk = [quantity(filled.file_bytes(), "B") for filled in (ours, theirs)]
    note = "on disk, with facts and in whole pages, {} compared with {} per document".format(*on_disk)
    return Comparison([ours.record_bytes], [theirs.record_bytes], "B", note=note)


def opening_time(filled: FilledStore, rounds: int = 20) -> Comparison:
    """Seconds to open a store."""
    seconds = []
    for _ in range(rounds):
        start = time.perf_counter()
        store = Store.open(filled.folder)
        seconds.append(time.perf_counter() - start)
        _check_count(store, filled)
        store.close()
    return Comparison(seconds, [OPENING_SECONDS] * rounds)


def opening_memory(filled: FilledStore, rounds: int = 20) -> Comparison:
    """What opening adds to the process's resident memory."""
    grown = []
    for _ in range(rounds):
        before = _resident_bytes()
        with Store.open(filled.folder) as store:
            grown.append(_resident_bytes() - before)
            _check_count(store, filled)
    note = f"its file has {quantity(file_size(filled.folder), 'B')}"
    return Comparison(grown, [OPENING_BYTES] * rounds, "B", note=note)


def _check_count(store: Store, filled: FilledStore) -> None:
    if len(store) != filled.documents:
        raise WrongResultError(f"a store of {len(store):,} documents, not {filled.documents:,}")


def _resident_bytes() -> int:
    return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main(
    documents: Annotated[int, typer.Option(min=1, help="Documents in the store.")] = 10_000,
    synthetic: Annotated[bool, typer.Option("--synthetic", help="Only rows that need no reader.")] = False,
    dtype: Annotated[str, typer.Option(help="Stored as float32, float16 or int8.")] = "float32",
    place: Annotated[Path | None, typer.Option(help="Where to make the stores; deleted at the end.")] = None,
    data: Annotated[list[Path] | None, typer.Option(help="A cloze set, for the accuracy rows.")] = None,
    reader: ReaderFolder = None,
    only: Only = None,
    json: Json = False,
    quick: Quick = False,
) -> None:
    """Compare the store with stored hidden states, with reading alone, and with fixed limits."""
    options = Options(documents, dtype, synthetic, place, data or (), reader, quick)
    with progress_bar() as progress:
        report = run(options, only=only, progress=progress)
    show(report, json)


if __name__ == "__main__":
    run_command(main)
