"""`python -m benchmarks.store`: opening, reading by name, bytes per document, adding; on one core."""

import os
import tempfile
import time
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from attar.cli.output import progress_bar
from attar.memory.memory import Memory
from attar.paper.timing import QUICK, Contender, Effort, Timer, WrongResultError, quantity, this_machine
from attar.progress import Progress, ignore_progress
from attar.reader.reader import Reader
from attar.store.records import Record
from attar.store.store import Store
from benchmarks.command import Json, Only, Quick, ReaderFolder, run_command, show
from benchmarks.comparison import Case, Comparison, Goal, compare, compare_with_limit
from benchmarks.ops import shuffled_forever
from benchmarks.report import Report, run_cases
from benchmarks.stories import story_texts

# Different documents; the others of a store repeat them, each copy in its own pages.
DIFFERENT = 64
# Documents per transaction.
BATCH = 1_000
DOCUMENTS_ADDED = 64
# Long enough to average over several commits, which wait for the disk.
ADDING = Effort(budget=8.0, rounds=6)
# An entry and a decoded memory.
READING_SECONDS = 500e-6
OPENING_SECONDS = 0.05
# What opening may add to the resident memory, whatever the store's size.
OPENING_BYTES = 2**20
STATM = Path("/proc/self/statm")


@dataclass(frozen=True)
class Options:
    """What is measured: the documents of the store, its place, and the reader."""

    documents: int = 10_000
    place: Path | None = None
    reader: Path | None = None
    quick: bool = False


@dataclass(frozen=True)
class FilledStore:
    """A store of documents with these memories in turn."""

    folder: Path
    documents: int
    memories: list[Memory]

    def memory(self, number: int) -> Memory:
        """The memory of a document."""
        return self.memories[number % len(self.memories)]


def run(options: Options, *, only: str | None = None, progress: Progress = ignore_progress) -> Report:
    """Measure every row; progress is reported before each one, and while the store is filled."""
    machine = this_machine()  # before the first row adds to its load
    reader = Reader.load(options.reader)
    with tempfile.TemporaryDirectory(prefix="attar-bench-", dir=options.place) as place:
        documents = min(options.documents, 40) if options.quick else options.documents
        filled = fill(Path(place) / "filled", reader, documents, progress)
        cases = all_cases(filled, reader, Path(place), options.quick)
        return run_cases(machine, cases, only, progress, machine.busy_notes(), judged=not options.quick)


def fill(folder: Path, reader: Reader, documents: int, progress: Progress) -> FilledStore:
    """Fill a new store with stories."""
    texts = story_texts(min(documents, DIFFERENT))
    memories = reader.read_many(texts)
    records = [Record.of("story", memory, text=text) for memory, text in zip(memories, texts, strict=True)]
    with Store.open(folder, durability="relaxed") as store:
        for first in range(0, documents, BATCH):
            progress(f"filling a store of {documents:,} documents", first, documents)
            with store.transaction() as changes:
                for number in range(first, min(first + BATCH, documents)):
                    record = records[number % len(records)]
                    entry = msgspec.structs.replace(record.entry, name=f"document {number}")
                    named = Record(entry, record.memory_data, record.text_data)
                    changes.put(named, reader=reader.fingerprint)
    return FilledStore(folder, documents, memories)


def all_cases(filled: FilledStore, reader: Reader, place: Path, quick: bool) -> list[Case]:
    """The cases for a filled store."""
    timer = Timer(QUICK if quick else Effort(), threads=1)
    adding_timer, added = Timer(QUICK if quick else ADDING, threads=1), 2 if quick else DOCUMENTS_ADDED
    opening = f"opening a store of {filled.documents:,} documents"
    reading = f"a memory by name, {filled.documents:,} documents"
    adding = f"adding {added} documents of stories in one transaction, synced to disk, texts kept"
    limit = Goal(1, at_least=False)
    cases = [
        Case(reading, "a limit of 500 µs", limit, lambda: reading_time(filled, timer)),
        Case(opening, "a limit of 50 ms", limit, lambda: opening_time(filled)),
        Case(
            adding,
            "reading alone",
            Goal(1.15, at_least=False),
            lambda: adding_vs_reading(adding_timer, reader, place / "added", added),
        ),
    ]
    if STATM.exists():
        memory = f"resident memory, {opening}"
        cases.append(Case(memory, "a limit of 1 MB", limit, lambda: opening_memory(filled)))
    return cases


def reading_time(filled: FilledStore, timer: Timer) -> Comparison:
    """Seconds to find a document by its name and decode its memory, in random order."""
    with Store.open(filled.folder, read_only=True) as store:
        walk = shuffled_forever(list(range(min(filled.documents, 50_000))))

        def read(number: int) -> Memory:
            with store.snapshot() as now:
                return now.memory(now.entry(f"document {number}"))

        def error() -> float:
            first = range(min(filled.documents, DIFFERENT))
            return 0.0 if all(read(number) == filled.memory(number) for number in first) else float("inf")

        ours = Contender("by name", lambda: read(next(walk)), error)
        return compare_with_limit(ours, READING_SECONDS, timer)


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
            stats = store.stats()
    each = stats.file_bytes // filled.documents, stats.memory_bytes // filled.documents
    note = "on disk {} per document, of which its memory {}".format(*(quantity(size, "B") for size in each))
    return Comparison(grown, [OPENING_BYTES] * rounds, "B", note=note)


def adding_vs_reading(timer: Timer, reader: Reader, folder: Path, documents: int) -> Comparison:
    """Reading texts and writing them to a store, compared with reading alone."""
    texts, numbers = story_texts(documents), count()
    with Store.open(folder, reader=reader.fingerprint) as store:

        def add() -> list[str]:
            names = [f"document {next(numbers)}" for _ in texts]
            memories = reader.read_many(texts)
            with store.transaction() as changes:
                for name, memory, text in zip(names, memories, texts, strict=True):
                    changes.put(Record.of(name, memory, text=text), reader=memory.reader)
            return names

        def error() -> float:
            stored = [store.get(name).memory for name in add()]
            return 0.0 if stored == reader.read_many(texts) else float("inf")

        reading = Contender("reading alone", lambda: reader.read_many(texts))
        return compare(Contender("adding", add, error), [reading], timer)


def _check_count(store: Store, filled: FilledStore) -> None:
    if len(store) != filled.documents:
        raise WrongResultError(f"a store of {len(store):,} documents, not {filled.documents:,}")


def _resident_bytes() -> int:
    return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main(
    documents: Annotated[int, typer.Option(min=1, help="Documents in the store.")] = 10_000,
    place: Annotated[Path | None, typer.Option(help="Where to make the stores; deleted at the end.")] = None,
    reader: ReaderFolder = None,
    only: Only = None,
    json: Json = False,
    quick: Quick = False,
) -> None:
    """Compare the store with reading alone, and with fixed limits."""
    with progress_bar() as progress:
        report = run(Options(documents, place, reader, quick), only=only, progress=progress)
    show(report, json)


if __name__ == "__main__":
    run_command(main)
