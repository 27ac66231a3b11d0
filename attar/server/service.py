"""A library for many concurrent requests: questions in batches, everything else on threads of its own."""

import asyncio
import contextlib
import math
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NoReturn, TypeVar

from attar.documents.workers import FileLimits, FileReader
from attar.errors import AttarError, UnknownDocumentError
from attar.library.drafts import Draft, read_upload
from attar.library.served import ServedLibrary, collect_missing
from attar.results import Asked, Subset
from attar.server.batching import Batcher, SerialExecutor, check_length, isolate_failures, turns, weight_of
from attar.server.jobs import Jobs
from attar.server.metrics import Metrics
from attar.server.openapi import Upload
from attar.server.settings import Settings
from attar.store.maintenance import Stats
from attar.wire import Signing

Value = TypeVar("Value")

# Questions of one request that are answered before others have their turn.
_TURN = 64
# The same for questions to all documents, which take longer.
_TURN_OF_ALL = 8
# Seconds between two looks for documents without a signature.
_LOOK_SECONDS = 10.0
# The size that a file may have when it is decompressed, at least: its pictures count too.
_DECOMPRESSED_MB = 64


@dataclass(frozen=True)
class AskJob:
    """The questions of one request, each with the name of its document."""

    names: list[str]
    questions: list[str]
    top: int | None
    look: int | None = None


class Service:
    """A library, and the queues in front of it."""

    def __init__(self, library: ServedLibrary, settings: Settings, metrics: Metrics) -> None:
        self.library, self.settings, self.metrics = library, settings, metrics
        limits = FileLimits(
            memory_mb=settings.max_file_memory_mb,
            cpu_seconds=max(1, int(settings.timeout)),
            decompressed_mb=max(_DECOMPRESSED_MB, settings.max_text * 4 // 2**20),
        )
        self._opened = contextlib.ExitStack()
        # Each for one thread: that of small files, and that of jobs.
        self._files, self._job_files = (self._opened.enter_context(FileReader(limits)) for _ in range(2))
        self.jobs: Jobs
        self.ready = False
        # How many signatures are made, while some are missing; the task that makes them, and when that was looked for.
        self.signing: Signing | None = None
        self._making: asyncio.Task[None] | None = None
        self._looked = -math.inf
        self._asks = Batcher[AskJob, list[Asked]](
            lambda jobs: answer_together(library, jobs),
            name="ask",
            max_batch=settings.max_batch,
            max_queue=settings.max_queue,
            on_batch=metrics.count_batch,
            on_queue=metrics.set_queue_length,
        )
        # A thread each: a list does not wait for a long file, nor an operator for a list.
        self._writes = SerialExecutor("write")
        self._reads = SerialExecutor("read")
        self._searches = SerialExecutor("search")
        self._slow = SerialExecutor("slow")
        self._status = SerialExecutor("status")
        self._signatures = SerialExecutor("signatures")

    async def open(self) -> None:
        """Load the reader, so that the first question does not wait for it, then the signatures, while it serves."""
        await self._slow.run(self.library.prepare)
        self.library.defer_signatures()
        folder = self.settings.shared
        if folder is None:
            folder = Path(self._opened.enter_context(tempfile.TemporaryDirectory(prefix="attar-")))
        self.jobs = Jobs(folder, self.settings.max_jobs)
        self.ready = True
        self._making = asyncio.create_task(self._make_signatures())

    async def _make_signatures(self) -> None:
        """Load signatures, and make those that are missing; until then words find their documents."""
        # A library that cannot be searched says so to the first who tries.
        with contextlib.suppress(AttarError):
            await self._searches.run(self.library.load_signatures)
            await self._signatures.run(lambda: self.library.make_signatures(progress=self._tell))
        self.signing = None

    def _tell(self, what: str, done: int, total: int) -> None:
        self.signing = Signing(done, total)

    @property
    def unsigned(self) -> int:
        """How many documents are found by their words alone."""
        return 0 if self.signing is None else self.signing.total - self.signing.done

    def _look_for_unsigned(self) -> None:
        """Make signatures of documents that another process has added without."""
        now = time.monotonic()
        if (
            self.ready
            and now - self._looked > _LOOK_SECONDS
            and self._making is not None
            and self._making.done()
        ):
            self._looked = now
            self._making = asyncio.create_task(self._make_signatures())

    async def close(self) -> None:
        """Finish accepted work, stop jobs and what nobody waits for, and close the library."""
        self.ready = False
        if self._making is not None:  # else it has not been opened
            self._making.cancel()
            await asyncio.to_thread(self.jobs.close)
        executors = (
            *(self._asks, self._writes, self._reads, self._searches, self._slow, self._status),
            self._signatures,
        )
        await asyncio.gather(*(executor.close() for executor in executors))
        self._opened.close()
        self.library.close()

    async def ask(self, job: AskJob) -> list[Asked]:
        """Answer questions about documents, together with those of other requests."""
        asked: list[Asked] = []
        try:
            for turn in turns(job.questions, _TURN):
                part = AskJob(job.names[turn], job.questions[turn], job.top, job.look)
                asked += await self._asks.submit(part, weight_of(part.questions))
        except UnknownDocumentError as error:
            await self._raise_with_suggestions(job.names, error)
        return asked

    async def ask_all(
        self, questions: list[str], top: int | None, look: int | None, within: Subset | None
    ) -> tuple[list[Asked], list[str]]:
        """Answer questions from all documents; also the parts of the library that the answers are without."""
        asked: list[Asked] = []
        missing: list[str] = []
        for turn in turns(questions, _TURN_OF_ALL):
            ask = partial(self.library.ask_all_many, questions[turn], top=top, look=look, within=within)
            answers, without = await self.search(ask)
            asked += [Asked(answer, 0) for answer in answers]
            missing += [part for part in without if part not in missing]
        return asked, missing

    async def search(self, work: Callable[[], Value]) -> tuple[Value, list[str]]:
        """Run work that looks through all documents; its result, and the parts of the library that it is without."""
        self._look_for_unsigned()
        return await self._searches.run(lambda: _without_missing(work))

    async def read(self, work: Callable[[], Value]) -> tuple[Value, list[str]]:
        """Run work that reads documents, and takes milliseconds; its result, and the missing parts."""
        return await self._reads.run(lambda: _without_missing(work))

    async def write(self, work: Callable[[], Value]) -> Value:
        """Run a short change of the library, one at a time; jobs go on meanwhile."""
        return await self._writes.run(work)

    async def run_slow(self, work: Callable[[], Value]) -> Value:
        """Run work that takes long, on a thread that nothing else waits for."""
        return await self._slow.run(work)

    def read_files(
        self, files: Sequence[Upload], *, tags: Sequence[str] | None, source: str, in_job: bool = False
    ) -> list[Draft]:
        """The documents of files, in order, with tags; `source` is where the only one comes from."""
        reader, drafts, characters = self._job_files if in_job else self._files, [], 0
        for file in files:
            for draft in read_upload(reader, file.name, file.data, source):
                characters += len(draft.text)
                # Of all documents together: an archive of some kilobytes can hold any number of long ones.
                check_length("texts of the file", characters, self.settings.max_text)
                drafts.append(draft.labelled(tags, None))
        return drafts

    async def stats(self) -> Stats:
        """The totals of the library."""
        return await self._status.run(self.library.stats)

    async def default_look(self) -> int:
        """How many sentences a question reads again by default."""
        return await self._status.run(lambda: self.library.default_look)

    async def check(self) -> None:
        """Refuse if the library cannot be read, or cannot be written though it should."""
        await self.stats()
        if not self.settings.read_only:
            await self._status.run(self.library.check_disk)

    async def metrics_text(self) -> bytes:
        """Metrics for Prometheus, with the library's totals."""
        return await self._status.run(lambda: self.metrics.text(self.library.stats()))

    async def _raise_with_suggestions(self, names: Sequence[str], error: UnknownDocumentError) -> NoReturn:
        # Similar names take a second to find among ten thousand documents: only if nobody waits for the thread.
        def suggest() -> None:
            for name in names:
                similar = self.library.similar(name)
                if similar is not None:
                    raise UnknownDocumentError.named(name, similar) from None

        if self._slow.idle:
            await self._slow.run(suggest)
        raise error


def _without_missing(work: Callable[[], Value]) -> tuple[Value, list[str]]:
    with collect_missing() as missing:
        return work(), missing


def answer_together(library: ServedLibrary, jobs: list[AskJob]) -> list[list[Asked] | Exception]:
    """The results of each job of a batch, or its first error, which does not affect other jobs."""

    def ask(some: list[AskJob]) -> list[list[Asked] | Exception]:
        results: list[list[Asked] | Exception] = [[] for _ in some]
        for look in {job.look for job in some}:
            chosen = [at for at, job in enumerate(some) if job.look == look]
            for at, result in zip(chosen, ask_alike([some[at] for at in chosen], look), strict=True):
                results[at] = result
        return results

    def ask_alike(some: list[AskJob], look: int | None) -> list[list[Asked] | Exception]:
        names = [name for job in some for name in job.names]
        questions = [question for job in some for question in job.questions]
        tops = [job.top for job in some if job.top is not None]
        top = max(tops) if len(tops) == len(some) else None
        results = iter(library.ask_each(names, questions, top=top, look=look))
        return [_first_error_or_all([next(results) for _ in job.questions], job.top) for job in some]

    # An error of one question is its result; only what nobody foresaw fails for the whole batch.
    results: list[list[Asked] | Exception] = [*isolate_failures(ask, jobs)]
    return results


def _first_error_or_all(results: list[Asked | AttarError], top: int | None) -> list[Asked] | Exception:
    """The results of one job, each with at most `top` answers: another job of the batch may have asked for more."""
    asked: list[Asked] = []
    for result in results:
        if isinstance(result, AttarError):
            return result
        asked.append(Asked(result.answers[:top], result.bytes))
    return asked
