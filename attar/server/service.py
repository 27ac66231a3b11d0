"""The library on executors: questions in batches, writes and slow reads one at a time."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import NoReturn, TypeVar

from attar.errors import AttarError, UnknownDocumentError
from attar.results import Answer, Hit
from attar.server.backend import AskJob, AskResult, Backend, Partial
from attar.server.batching import Batcher, SerialExecutor
from attar.server.metrics import Metrics
from attar.server.problems import ProblemError
from attar.server.settings import Settings
from attar.store.maintenance import Stats

Value = TypeVar("Value")


class Service:
    """A library for many concurrent requests."""

    def __init__(self, backend: Backend, settings: Settings, metrics: Metrics) -> None:
        self.backend, self.settings, self.metrics = backend, settings, metrics
        self.ready = False
        self._asks = Batcher[AskJob, AskResult](
            backend.answer,
            name="ask",
            max_batch=settings.max_batch,
            max_queue=settings.max_queue,
            on_batch=partial(metrics.count_batch, "ask"),
            on_queue=partial(metrics.set_queue_length, "ask"),
        )
        # A thread each: a list does not wait for a long explanation, nor an operator for a list.
        self._writes, self._slow, self._reads, self._searches, self._status = map(
            SerialExecutor, ("write", "slow", "read", "search", "status")
        )

    async def open(self) -> None:
        """Load the reader, so that the first question does not wait for it, then the signatures, while it serves."""
        await self._slow.run(self.backend.prepare)
        self.ready = True
        self._loading = asyncio.create_task(self._load_signatures())

    async def _load_signatures(self) -> None:
        # A library that cannot be searched says so to the first who tries.
        with contextlib.suppress(AttarError):
            await self._searches.run(self.backend.prepare_search)

    async def close(self) -> None:
        """Finish accepted work, and close the library."""
        self.ready = False
        executors = (
            self._asks,
            self._writes,
            self._slow,
            self._reads,
            self._searches,
            self._status,
        )
        await asyncio.gather(*(each.close() for each in executors))
        self.backend.close()

    def asks_are_full(self) -> bool:
        """Whether another question would have to wait for too long."""
        return not self._asks.has_room()

    async def ask(self, job: AskJob) -> AskResult:
        """Answer questions."""
        try:
            return await self._asks.submit(job, len(job.questions))
        except UnknownDocumentError as error:
            await self._raise_with_suggestions(job.names, error)

    async def ask_all(self, questions: list[str], top: int | None) -> Partial[list[list[Answer]]]:
        """Answer questions from all documents."""
        return await self._searches.run(lambda: self.backend.ask_all(questions, top))

    async def search(self, query: str, top: int) -> Partial[list[Hit]]:
        """Find the documents that fit a query best."""
        return await self._searches.run(lambda: self.backend.search(query, top))

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
        return await self._status.run(self.backend.stats)

    async def metrics_text(self) -> bytes:
        """Metrics for Prometheus, with the store's totals."""
        backend = self.backend
        return await self._status.run(lambda: self.metrics.text(backend.stats(), backend.fingerprint()))

    async def check_disk(self) -> None:
        """Refuse if the store's disk cannot be written, for example because it is full."""
        if not self.settings.read_only:
            await self._status.run(self.backend.check_disk)

    async def _raise_with_suggestions(self, names: Sequence[str], error: UnknownDocumentError) -> NoReturn:
        # Similar names take a second to find among ten thousand documents: only if nobody waits for the thread.
        def suggest() -> None:
            for name in names:
                similar = self.backend.similar(name)
                if similar is not None:
                    raise UnknownDocumentError.named(name, similar) from None

        if self._slow.idle:
            await self._slow.run(suggest)
        raise error
