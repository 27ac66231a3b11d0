"""Service: a library put to work for many at once; each kind of work has one thread of its own."""

import asyncio
from collections.abc import Callable
from typing import NoReturn, TypeVar

from attar.errors import FormatError
from attar.library import Library, suggesting
from attar.results import Change
from attar.server.batching import Batcher, Watch
from attar.server.comparison import compare_costs
from attar.server.lanes import Lane
from attar.server.lookups import LookupJob, Read, look_up, look_up_at_once
from attar.server.metrics import WAITING, Metrics
from attar.server.problems import Refusal
from attar.server.questions import AskJob, Found, answer_each
from attar.server.settings import Settings
from attar.store import Stats, UnknownNameError
from attar.wire import Comparison

Value = TypeVar("Value")

# A lookup takes a tenth of a question's time: so many more may wait.
LOOKUPS_A_QUESTION = 10


class Service:
    """Asks and looks up in batches; writes one after the other; explains and compares aside from both."""

    def __init__(self, library: Library, settings: Settings, metrics: Metrics) -> None:
        self.library, self.settings, self.metrics = library, settings, metrics
        self.ready = False
        self._asks = Batcher[AskJob, Found](
            answer_each(library),
            at_once=settings.max_batch,
            limit=settings.max_queue,
            name="ask",
            watch=self._watch("ask"),
        )
        self._lookups = Batcher[LookupJob, Read](
            lambda jobs: [look_up(library.store, job) for job in jobs],
            at_once=settings.max_batch,
            limit=LOOKUPS_A_QUESTION * settings.max_queue,
            name="lookup",
            watch=self._watch("lookup"),
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

    def begin_ask(self, job: AskJob) -> asyncio.Future[Found]:
        """Take questions, to which there will be answers."""
        return self._asks.begin(job, len(job.questions))

    async def ask(self, job: AskJob) -> Found:
        """The answers to questions."""
        try:
            return await self.begin_ask(job)
        except UnknownNameError as fault:
            return await self.refuse(job.names, fault)

    def look_up_at_once(self, job: LookupJob) -> Read | None:
        """The readouts of vectors, where that is soon done."""
        read = look_up_at_once(self.library.store, job)
        if read is not None:
            self.metrics.worked("lookup", len(job.vectors))
        return read

    def begin_look_up(self, job: LookupJob) -> asyncio.Future[Read]:
        """Take vectors, of which there will be readouts."""
        return self._lookups.begin(job, len(job.vectors))

    async def look_up(self, job: LookupJob) -> Read:
        """The readouts of vectors."""
        read = self.look_up_at_once(job)
        if read is not None:
            return read
        try:
            return await self.begin_look_up(job)
        except UnknownNameError as fault:
            return await self.refuse(job.names, fault)

    async def refuse(self, names: list[str], fault: Exception) -> NoReturn:
        """Raise a fault; for a name that is not there with near ones, if there is time to look for them."""

        def look() -> None:
            with suggesting(self.library.store, names):
                raise fault

        if isinstance(fault, UnknownNameError) and self._aside.idle:
            await self._aside.done(look)
        raise fault

    async def put(self, name: str, text: str, title: str, replace: bool) -> Change:
        """Add a document, or replace it."""
        return await self._write(lambda: self.library.add(name, text, title=title, replace=replace))

    async def append(self, name: str, text: str) -> Change:
        """Read on."""
        return await self._write(lambda: self.library.append(name, text))

    async def merge(self, new: str, names: list[str], title: str, replace: bool) -> Change:
        """Make one document of several."""
        return await self._write(lambda: self.library.merge(new, names, title=title, replace=replace))

    async def remove(self, *names: str) -> None:
        """Remove documents: all of them, or none."""
        await self._write(lambda: self.library.remove(*names))

    async def aside(self, work: Callable[[], Value]) -> Value:
        """Do what takes its time where questions do not wait for it."""
        return await self._aside.done(work)

    def compare(self, name: str) -> Comparison:
        """Measure a document's lookup beside softmax."""
        return compare_costs(name, self.library.memory(name))

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

    def _watch(self, work: str) -> Watch:
        return Watch(
            begun=lambda weight: self.metrics.worked(work, weight),
            waiting=lambda weight: self.metrics.now(WAITING[work], weight),
        )
