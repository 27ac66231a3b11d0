"""Service: a library put to work for many at once; each kind of work has one thread of its own."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeVar

import numpy as np

from attar.errors import AttarError, FormatError, OptionError, ShapeError
from attar.library import Library, Outcome
from attar.library.unknown import suggesting
from attar.memory.forms import Floats
from attar.reader import Answer
from attar.server.batching import Batcher, Watch, apart
from attar.server.bodies import Comparison
from attar.server.comparison import compare_costs
from attar.server.metrics import Metrics
from attar.server.problems import Refusal
from attar.server.settings import Settings
from attar.store import Reading, Stats

Value = TypeVar("Value")

# Questions that are answered at once; from here on more at once are hardly faster (`attar.reader`).
AT_ONCE = 256
# Lookups that take less time, some 15 µs each, than it takes to wake a thread and to be woken.
ON_LOOP = 32
# Writes, or explanations, that wait: each takes far longer than a question.
SLOW_WAITING = 64


class AskJob(NamedTuple):
    """Questions of one request, a document's name for each."""

    names: list[str]
    questions: list[str]
    top: int


class LookupJob(NamedTuple):
    """Vectors `[m, k]` of one request; one name for all, or one for each; packed, readouts are of one width."""

    names: list[str]
    vectors: Floats
    packed: bool


class Found(NamedTuple):
    """Answers to each question, and the bytes of the memories that were asked."""

    answers: list[list[Answer]]
    bytes: int


class Read(NamedTuple):
    """Readouts, one for each vector, and the memories' bytes."""

    readouts: Sequence[Floats] | Floats
    bytes: int


class Service:
    """Asks and looks up in batches; writes one after the other; explains and compares aside from both."""

    def __init__(self, library: Library, settings: Settings, metrics: Metrics) -> None:
        self.library, self.settings, self.metrics = library, settings, metrics
        self.ready = False
        ask, limit = apart(self._ask, AttarError), settings.max_queue
        self._asks = Batcher[AskJob, Found](
            ask, at_once=AT_ONCE, limit=limit, name="ask", watch=self._watch("ask")
        )
        self._lookups = Batcher[LookupJob, Read](
            self._look_up_all,
            at_once=AT_ONCE,
            limit=limit,
            name="lookup",
            watch=self._watch("lookup"),
            on_loop=ON_LOOP,
        )
        self._writing, self._aside = Lane("write"), Lane("explain")

    async def open(self) -> None:
        """Load the reader, so that the first question need not wait for it."""
        await self._aside.done(lambda: self.library.reader)
        self.ready = True

    async def close(self) -> None:
        """Finish what was taken, and let go of the store."""
        self.ready = False
        await asyncio.gather(
            *(each.close() for each in (self._asks, self._lookups, self._writing, self._aside))
        )
        self.library.close()

    async def ask(self, job: AskJob) -> Found:
        """The answers to questions."""
        return await self._asks.done(job, len(job.questions))

    async def look_up(self, job: LookupJob) -> Read:
        """The readouts of vectors."""
        return await self._lookups.done(job, len(job.vectors))

    async def put(self, name: str, text: str, title: str, replace: bool) -> Outcome:
        """Add a document, or replace it."""

        def add() -> Outcome:
            try:
                return self.library.add(name, text, title=title, replace=replace)
            except OptionError as fault:
                if not replace and name in self.library:
                    raise Refusal(409, str(fault), kind="OptionError") from fault
                raise

        return await self._write(add)

    async def append(self, name: str, text: str) -> Outcome:
        """Read on."""
        return await self._write(lambda: self.library.append(name, text))

    async def remove(self, name: str) -> None:
        """Take a document out."""
        await self._write(lambda: self.library.remove(name))

    async def aside(self, work: Callable[[], Value]) -> Value:
        """Do what takes its time where questions do not wait for it."""
        return await self._aside.done(work)

    def compare(self, name: str) -> Comparison:
        """Measure a document's lookup beside softmax."""
        return compare_costs(name, self.library.show(name).memory)

    def text_of(self, name: str) -> str:
        """A document's text, if texts are kept."""
        text = self.library.show(name).text
        if text is None:
            remedy = "send the text itself, or serve with --keep-text and add it again"
            raise FormatError(f"document {name!r}", "one whose text is kept", "its memory alone", remedy)
        return text

    def stats(self) -> Stats:
        """How large the store is."""
        return self.library.store.stats()

    async def _write(self, work: Callable[[], Value]) -> Value:
        if self.settings.read_only:
            raise Refusal(403, "library: expected one served for writing, got one served for reading only")
        return await self._writing.done(work)

    def _ask(self, jobs: list[AskJob]) -> list[Found]:
        names = [name for job in jobs for name in job.names]
        questions = [question for job in jobs for question in job.questions]
        answers = iter(self.library.ask_many(names, questions, top=max(job.top for job in jobs)))
        sizes = self._sizes(set(names))
        return [
            Found(
                [next(answers)[: job.top] for _ in job.questions],
                sum(sizes[name] for name in set(job.names)),
            )
            for job in jobs
        ]

    def _sizes(self, names: set[str]) -> dict[str, int]:
        with self.library.store.reading() as now:
            # Removed since it was asked, it had been read all the same; nobody knows how much.
            return {name: len(now.view(name)) if name in now else 0 for name in names}

    def _look_up_all(self, jobs: list[LookupJob]) -> list[Read | Exception]:
        return [self._look_up(job) for job in jobs]

    def _look_up(self, job: LookupJob) -> Read | Exception:
        names = job.names
        try:
            with suggesting(self.library.store, names), self.library.store.reading() as now:
                readouts = readouts_of(now, job)
                # Nobody is told of packed ones, and to look at a thousand names takes as long as the lookups.
                read = 0 if job.packed else sum(len(now.view(name)) for name in set(names))
        except AttarError as fault:
            return fault
        if not all(np.isfinite(readout).all() for readout in ([readouts] if job.packed else readouts)):
            return OptionError("vectors", "numbers whose readouts a float32 can hold", "larger ones")
        return Read(readouts, read)

    def _watch(self, work: str) -> Watch:
        return Watch(
            begun=lambda weight: self.metrics.worked(work, weight),
            waiting=lambda weight: self.metrics.now(f"waiting_{work}", weight),
        )


def readouts_of(now: Reading, job: LookupJob) -> Sequence[Floats] | Floats:
    """The readout of each vector; packed ones as one array, the narrower filled up with zeros."""
    names, vectors, packed = job
    if len(names) == 1:
        return now.lookup(names[0], vectors)
    if packed:
        # Refused where widths differ, or where sizes do not fit: then each says for itself which.
        with contextlib.suppress(ShapeError):
            return now.lookup_many(names, vectors)
    each = [now.lookup(name, vector[None])[0] for name, vector in zip(names, vectors, strict=True)]
    if not packed:
        return each
    filled = np.zeros((len(each), max(map(len, each))), np.float32)
    for row, readout in zip(filled, each, strict=True):
        row[: len(readout)] = readout
    return filled


class Lane:
    """One thread for work that takes its time, one piece after the other; few may wait."""

    def __init__(self, name: str) -> None:
        self._name, self._thread = name, ThreadPoolExecutor(1, thread_name_prefix=name)
        self._taken = 0

    async def done(self, work: Callable[[], Value]) -> Value:
        """What comes of a piece of work; once begun it is done, whoever has gone meanwhile."""
        if self._taken >= SLOW_WAITING:
            raise Refusal(
                503, f"{self._name}: expected room in the queue, got {self._taken} that wait already"
            )
        self._taken += 1
        working = asyncio.get_running_loop().run_in_executor(self._thread, work)
        working.add_done_callback(self._left)
        return await working

    def _left(self, working: asyncio.Future[Value]) -> None:
        self._taken -= 1

    async def close(self) -> None:
        """Finish what was taken."""
        while self._taken:
            await asyncio.sleep(0.01)
        self._thread.shutdown()
