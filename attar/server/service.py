"""The library on executors: questions and lookups in batches, writes and slow reads one at a time."""

import asyncio
import contextlib
import os
import tempfile
import timeit
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple, NoReturn, TypeVar

import numpy as np

from attar.errors import AttarError, OptionError, ShapeError, UnknownDocumentError
from attar.library import Library, suggesting
from attar.memory import Floats, Memory, look_up_hidden
from attar.results import Answer, Hit
from attar.server.batching import Batcher, SerialExecutor, isolate_failures
from attar.server.metrics import Metrics
from attar.server.problems import ProblemError
from attar.server.requests import all_finite
from attar.server.settings import Settings
from attar.store import Snapshot, Stats, Store
from attar.wire import Comparison, Cost

Value = TypeVar("Value")

# A lookup takes a tenth of a question's time: ten times as many may wait.
_LOOKUPS_PER_QUESTION = 10
# Lookups of at most this many vectors, in memories of at most this size, run on the event loop. Waking a thread for
# them would take longer:
# a single client gets 1.9 times the rate, 64 clients the same.
_INLINE_VECTORS, _INLINE_BYTES = 16, 2**19
# Bytes of random states that a comparison may allocate.
_MAX_STATES = 2**29
_ROUNDS = 9
# The free bytes on disk that a ready server needs: room for some documents.
_DISK_BYTES = 2**20


class AskJob(NamedTuple):
    """The questions of one request, each with the name of its document."""

    names: list[str]
    questions: list[str]
    top: int | None


class AskResult(NamedTuple):
    """The answers to each question, and the bytes of the memories that were read."""

    answers: list[list[Answer]]
    bytes: int


class LookupJob(NamedTuple):
    """The vectors `[m, k]` of one request, with one name for all or one each; `packed`: readouts of one width."""

    names: list[str]
    vectors: Floats
    packed: bool


class LookupResult(NamedTuple):
    """One readout per vector, and the bytes of the memories that were read."""

    readouts: Sequence[Floats] | Floats
    bytes: int


class Service:
    """A library for many concurrent requests."""

    def __init__(self, library: Library, settings: Settings, metrics: Metrics) -> None:
        self.library, self.settings, self.metrics = library, settings, metrics
        self.ready = False
        self._asks = Batcher[AskJob, AskResult](
            partial(_answer_jobs, library),
            name="ask",
            max_batch=settings.max_batch,
            max_queue=settings.max_queue,
            on_batch=partial(metrics.count_batch, "ask"),
            on_queue=partial(metrics.set_queue_length, "ask"),
        )
        self._lookups = Batcher[LookupJob, LookupResult](
            partial(_look_up_jobs, library.store),
            name="lookup",
            max_batch=settings.max_batch,
            max_queue=_LOOKUPS_PER_QUESTION * settings.max_queue,
            on_batch=partial(metrics.count_batch, "lookup"),
            on_queue=partial(metrics.set_queue_length, "lookup"),
        )
        # A thread each: a list does not wait for a long explanation, nor an operator for a list.
        self._writes, self._slow, self._reads, self._searches, self._status = map(
            SerialExecutor, ("write", "slow", "read", "search", "status")
        )

    async def open(self) -> None:
        """Load the reader, so that the first question does not wait for it."""
        await self._slow.run(lambda: self.library.reader.prepare())
        self.ready = True

    async def close(self) -> None:
        """Finish accepted work, and close the library."""
        self.ready = False
        executors = (
            self._asks,
            self._lookups,
            self._writes,
            self._slow,
            self._reads,
            self._searches,
            self._status,
        )
        await asyncio.gather(*(each.close() for each in executors))
        self.library.close()

    def asks_are_full(self) -> bool:
        """Whether another question would have to wait for too long."""
        return not self._asks.has_room()

    async def ask(self, job: AskJob) -> AskResult:
        """Answer questions."""
        try:
            return await self._asks.submit(job, len(job.questions))
        except UnknownDocumentError as error:
            await self._raise_with_suggestions(job.names, error)

    async def ask_all(self, questions: list[str], top: int | None) -> list[list[Answer]]:
        """Answer questions from all documents."""
        return await self._searches.run(lambda: [self.library.ask_all(each, top=top) for each in questions])

    async def search(self, query: str, top: int) -> list[Hit]:
        """Find the documents that fit a query best."""
        return await self._searches.run(lambda: self.library.search(query, top=top))

    async def look_up(self, job: LookupJob) -> LookupResult:
        """Look vectors up."""
        try:
            if len(job.vectors) <= _INLINE_VECTORS:
                result = _look_up(self.library.store, job, max_bytes=_INLINE_BYTES)
                if isinstance(result, Exception):
                    raise result
                if result is not None:
                    self.metrics.count_batch("lookup", len(job.vectors))
                    return result
            return await self._lookups.submit(job, len(job.vectors))
        except UnknownDocumentError as error:
            await self._raise_with_suggestions(job.names, error)

    async def write(self, work: Callable[[], Value]) -> Value:
        """Run a change of the library, one at a time."""
        if self.settings.read_only:
            raise ProblemError(403, "library: expected one that is served for writing, got a read-only one")
        return await self._writes.run(work)

    async def read(self, work: Callable[[], Value]) -> Value:
        """Run work that reads documents, and takes milliseconds."""
        return await self._reads.run(work)

    async def run_slow(self, work: Callable[[], Value]) -> Value:
        """Run work that takes long, on a thread that nothing else waits for."""
        return await self._slow.run(work)

    async def stats(self) -> Stats:
        """The store's totals, for operators."""
        return await self._status.run(self.library.store.stats)

    async def metrics_text(self) -> bytes:
        """Metrics for Prometheus, with the store's totals."""
        library = self.library
        return await self._status.run(
            lambda: self.metrics.text(library.store.stats(), library.reader.fingerprint)
        )

    async def check_disk(self) -> None:
        """Refuse if the store's disk cannot be written, for example because it is full."""
        if not self.settings.read_only:
            await self._status.run(lambda: _check_disk(self.library.store.path))

    async def _raise_with_suggestions(self, names: list[str], error: UnknownDocumentError) -> NoReturn:
        # Similar names take a second to find among ten thousand documents: only if nobody waits for the thread.
        def suggest() -> None:
            with suggesting(self.library.store, names):
                raise error

        if self._slow.idle:
            await self._slow.run(suggest)
        raise error


def _check_disk(folder: Path) -> None:
    """Write a file without a name, as large as a document may be, and delete it."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, _DISK_BYTES)
            file.write(b"attar")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        came = (error.strerror or type(error).__name__).lower()
        detail = f"store: expected a disk that can be written, got an error: {came}"
        raise ProblemError(503, detail, server_fault=True) from error


def _answer_jobs(library: Library, jobs: list[AskJob]) -> list[AskResult | Exception]:
    """The result of each job of a batch, or its error; one job's error does not affect the others."""
    # Unknown names are found before asking: the library would search for similar names while the batch waits.
    sizes: dict[str, int | AttarError] = {}
    with library.store.snapshot() as snapshot:
        for name in {name for job in jobs for name in job.names}:
            try:
                sizes[name] = len(snapshot.view(name))
            except AttarError as error:
                sizes[name] = error

    def first_error(job: AskJob) -> AttarError | None:
        return next((size for name in job.names if isinstance(size := sizes[name], AttarError)), None)

    def answer(valid: list[AskJob]) -> list[AskResult]:
        names = [name for job in valid for name in job.names]
        questions = [question for job in valid for question in job.questions]
        tops = [job.top for job in valid]
        top = None if None in tops else max(each for each in tops if each is not None)
        answers = iter(library.ask_many(names, questions, top=top))
        results = []
        for job in valid:
            read = sum(size for name in set(job.names) if isinstance(size := sizes[name], int))
            results.append(AskResult([next(answers)[: job.top] for _ in job.questions], read))
        return results

    errors = [first_error(job) for job in jobs]
    valid = [job for job, error in zip(jobs, errors, strict=True) if error is None]
    results = iter(isolate_failures(answer)(valid) if valid else [])
    return [next(results) if error is None else error for error in errors]


def _look_up_jobs(store: Store, jobs: list[LookupJob]) -> list[LookupResult | Exception]:
    """The result of each job of a batch, or its error."""
    return [result for job in jobs if (result := _look_up(store, job)) is not None]


def _look_up(store: Store, job: LookupJob, max_bytes: int | None = None) -> LookupResult | Exception | None:
    """The result of a job, or its error; None if its memories have more than `max_bytes`."""
    try:
        with store.snapshot() as snapshot:
            # Packed replies do not report it, and sizing a thousand memories takes as long as the lookups.
            is_sized = max_bytes is not None or not job.packed
            read = sum(len(snapshot.view(name)) for name in set(job.names)) if is_sized else 0
            if max_bytes is not None and read > max_bytes:
                return None
            readouts = _readouts(snapshot, job)
    except Exception as error:
        return error
    finite = all_finite(readouts) if isinstance(readouts, np.ndarray) else all(map(all_finite, readouts))
    if not finite:
        return OptionError("vectors", "numbers whose readouts fit into float32", "larger ones")
    return LookupResult(readouts, read)


def _readouts(snapshot: Snapshot, job: LookupJob) -> Sequence[Floats] | Floats:
    """One readout per vector; packed ones as one array, the narrower padded with zeros."""
    names, vectors, packed = job
    if len(names) == 1:
        return snapshot.lookup(names[0], vectors)
    if packed:
        # Raised where widths differ, or a size is wrong: the lookups one by one below handle both.
        with contextlib.suppress(ShapeError):
            return snapshot.lookup_many(names, vectors)
    each = [snapshot.lookup(name, vector[None])[0] for name, vector in zip(names, vectors, strict=True)]
    if not packed:
        return each
    padded = np.zeros((len(each), max(map(len, each))), np.float32)
    for row, readout in zip(padded, each, strict=True):
        row[: len(readout)] = readout
    return padded


def compare_costs(name: str, memory: Memory) -> Comparison:
    """Measure one lookup in a memory, and one by softmax over as many random states as it has tokens.

    >>> memory = Memory.of("linear", np.eye(2), tokens=3, reader="r")
    >>> comparison = compare_costs("emma", memory)
    >>> comparison.lookup.bytes, comparison.softmax.bytes
    (12, 24)
    """
    k, n = memory.size, memory.tokens
    if 4 * n * k > _MAX_STATES:
        expected = f"a document of at most {_MAX_STATES // (4 * k):,} tokens, whose states fit into memory"
        raise OptionError(f"document {name!r}", expected, f"{n:,}")
    random = np.random.default_rng(0)
    query = random.standard_normal((1, k), np.float32)
    H = random.standard_normal((n, k), np.float32)
    # The form in which the cache holds it.
    ready = memory.astype("float32")
    lookup = _median_seconds(lambda: ready.lookup(query))
    softmax = _median_seconds(lambda: look_up_hidden(H, query))
    return Comparison(name, n, k, Cost(lookup, ready.nbytes), Cost(softmax, H.nbytes))


def _median_seconds(call: Callable[[], object]) -> float:
    call()
    return median(timeit.repeat(call, number=1, repeat=_ROUNDS))
