"""A library for many concurrent requests: questions in batches, everything else on threads of its own."""

import asyncio
import contextlib
import math
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple, NoReturn, TypeVar

from attar.documents.workers import FileReader
from attar.errors import AttarError, UnknownDocumentError
from attar.library.drafts import Draft, read_upload
from attar.library.served import ServedLibrary, collect_missing
from attar.options import FileLimits
from attar.results import Asked, Subset
from attar.server.batching import AskQueue, SerialExecutor, answer_together, check_length, turns
from attar.server.jobs import Jobs
from attar.server.metrics import Metrics
from attar.server.settings import Settings
from attar.wire import Searched, Signing

Value = TypeVar("Value")

# Seconds between two looks for documents without a signature.
_LOOK_SECONDS = 10.0
# The size that a file may have when it is decompressed, at least: its pictures count too.
_DECOMPRESSED = 2**26
# The most documents of a file: a kilobyte of an archive can hold a thousand short ones, all of them in memory at once.
_MOST_DOCUMENTS = 10_000
# Seconds that reading a file may take by the clock: programs that recognise text take a while.
_FILE_SECONDS = 240.0


class Upload(NamedTuple):
    """A file that was sent, as the whole body or in a form."""

    name: str
    data: bytes


class Service:
    """A library, and the queues in front of it."""

    def __init__(self, library: ServedLibrary, settings: Settings, metrics: Metrics) -> None:
        self.library, self.settings, self.metrics = library, settings, metrics
        limits = FileLimits(
            max_file_memory_mb=settings.max_file_memory_mb,
            max_file_seconds=max(1, int(settings.timeout)),
            seconds=_FILE_SECONDS,
            max_decompressed=max(_DECOMPRESSED, settings.max_text * 4),
        )
        self._opened = contextlib.ExitStack()
        # Each for one thread: that of small files, and that of jobs.
        self._files, self._job_files = (self._opened.enter_context(FileReader(limits)) for _ in range(2))
        self.jobs: Jobs
        self.ready = False
        # How many signatures are made, while some are missing; the task that makes them, and when that was looked for.
        self.signing: Signing | None = None
        self._making: asyncio.Task[None]
        self._looked = -math.inf
        self.asks = AskQueue(partial(answer_together, library), metrics, settings.max_queue)
        # A thread each: a list does not wait for a long file, nor an operator for a list.
        # Short changes; jobs have a thread of their own.
        self.writes = SerialExecutor("write")
        # What takes long, and nothing else waits for.
        self.slow = SerialExecutor("slow")
        # What operators ask.
        self.status = SerialExecutor("status")
        self._reads = SerialExecutor("read")
        self._searches = SerialExecutor("search")
        self._signatures = SerialExecutor("signatures")

    async def open(self) -> None:
        """Load the reader, so that the first question does not wait for it, then the signatures, while it serves."""
        await self.slow.run(self.library.prepare)
        self.library.defer_signatures()
        folder = self.settings.shared
        if folder is None:
            folder = Path(self._opened.enter_context(tempfile.TemporaryDirectory(prefix="attar-")))
        self.jobs = Jobs(folder, self.settings.max_jobs)
        self.ready = True
        self._making = asyncio.create_task(self._make_signatures())

    async def _make_signatures(self) -> None:
        """Load signatures, and make those that are missing; until then, documents are ranked by their words alone."""
        # A library that cannot be searched says so to the first who tries.
        with contextlib.suppress(AttarError):
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
        if self.ready and self._making.done() and now - self._looked > _LOOK_SECONDS:
            self._looked = now
            self._making = asyncio.create_task(self._make_signatures())

    async def close(self) -> None:
        """Finish accepted work, stop jobs and what nobody waits for, and close the library."""
        if self.ready:  # else it could not be opened
            self.ready = False
            self._making.cancel()
            await asyncio.to_thread(self.jobs.close)
        threads = self.writes, self.slow, self.status, self._reads, self._searches, self._signatures
        await asyncio.gather(self.asks.close(), *(thread.close() for thread in threads))
        self._opened.close()
        self.library.close()

    async def ask_all(
        self,
        questions: list[str],
        top: int | None,
        look: int | None,
        within: Subset | None,
        work: Sequence[int],
    ) -> tuple[list[Asked], Searched]:
        """Answer questions, whose `work` is known, from all documents; also what the answers are without."""
        asked: list[Asked] = []
        about = Searched(seconds=0.0)
        for turn in turns(work):
            ask = partial(self.library.ask_all_many, questions[turn], top=top, look=look, within=within)
            answers, of_turn = await self.search(ask)
            asked += [Asked(answer, 0) for answer in answers]
            about.seconds += of_turn.seconds
            about.missing += [part for part in of_turn.missing if part not in about.missing]
            about.by_words = max(about.by_words, of_turn.by_words)
        return asked, about

    def look_of(self, look: int | None) -> int | None:
        """How many sentences are read again: as a request says, else as the settings; None: the reader's default."""
        return self.settings.look if look is None else look

    async def search(self, work: Callable[[], Value]) -> tuple[Value, Searched]:
        """Run work that looks through all documents; its result, and what it is without."""
        started = time.perf_counter()
        self._look_for_unsigned()
        result, missing = await self._searches.run(lambda: _without_missing(work))
        seconds = time.perf_counter() - started
        return result, Searched(seconds=seconds, missing=missing, by_words=self.unsigned)

    async def read(self, work: Callable[[], Value]) -> tuple[Value, list[str]]:
        """Run work that reads documents, and takes milliseconds; its result, and the missing parts."""
        return await self._reads.run(lambda: _without_missing(work))

    def read_files(
        self, files: Sequence[Upload], *, tags: Sequence[str] | None, source: str, in_job: bool = False
    ) -> list[Draft]:
        """The documents of files, in order, with tags; `source` is where the only one comes from."""
        reader, characters = self._job_files if in_job else self._files, 0
        drafts: list[Draft] = []
        for file in files:
            for draft in read_upload(reader, file.name, file.data, source):
                characters += len(draft.text)
                # Of all documents together: an archive of some kilobytes can hold any number of long ones.
                check_length("texts of the file", characters, self.settings.max_text)
                check_length("documents of the file", len(drafts) + 1, _MOST_DOCUMENTS, "documents")
                drafts.append(draft.tagged(tags))
        return drafts

    def check(self) -> None:
        """Refuse if the library cannot be read, or cannot be written though it should."""
        self.library.stats()
        if not self.settings.read_only:
            self.library.check_disk()

    async def raise_with_suggestions(self, names: Sequence[str], error: UnknownDocumentError) -> NoReturn:
        """Raise the error with names like one that no document has."""

        # Similar names take a second to find among ten thousand documents: only if nobody waits for the thread.
        def suggest() -> None:
            for name in names:
                similar = self.library.similar(name)
                if similar is not None:
                    raise UnknownDocumentError.named(name, similar) from None

        if self.slow.idle:
            await self.slow.run(suggest)
        raise error


def _without_missing(work: Callable[[], Value]) -> tuple[Value, list[str]]:
    with collect_missing() as missing:
        return work(), missing
