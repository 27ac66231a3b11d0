"""Queues in front of one thread each: questions in batches, slow work one by one; what questions cost."""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple, TypeVar

from attar.errors import AttarError
from attar.library.asking import ASKED
from attar.library.served import ServedLibrary
from attar.options import LOOK
from attar.progress import StoppedError, stopped_by
from attar.results import Asked
from attar.server.metrics import Metrics
from attar.server.problems import OverloadedError, ProblemError

Value = TypeVar("Value")

# The longest that a job may have to wait, in seconds: a client has given up by then, or a person has.
_MAX_WAIT = 1.0
# Work per batch: larger ones are hardly faster.
_MAX_BATCH = 256
# Slow jobs take far longer than questions: only a few may wait.
_MAX_SLOW = 64


@dataclass(frozen=True)
class AskJob:
    """The questions of one request, each with the name of its document, or to all documents; and their work."""

    names: list[str]
    questions: list[str]
    top: int | None
    look: int | None
    work: list[int]
    to_all: bool = False


class _Queued(NamedTuple):
    job: AskJob
    work: int
    future: asyncio.Future[list[Asked]]


def _are_cancelled(batch: list[_Queued]) -> bool:
    return all(queued.future.cancelled() for queued in batch)


# The answers of each job of a batch, or its error.
Answered = Sequence[list[Asked] | Exception]


class AskQueue:
    """Questions about documents, and with a device to all: those of concurrent requests are answered together.

    One thread answers batches: jobs that arrive during one form the next. An idle queue starts at once. The work of a
    batch adds up to at most `max_batch`, that of waiting jobs to at most `max_queue`.
    """

    def __init__(
        self,
        answer: Callable[[list[AskJob]], Answered],
        metrics: Metrics,
        max_queue: int,
        max_batch: int = _MAX_BATCH,
    ) -> None:
        self._answer, self._metrics = answer, metrics
        self._max_queue, self._max_batch = max_queue, max_batch
        # Measured while jobs wait: only then a batch is as large, and the rate as high, as it can be.
        self._per_second: float | None = None
        self._queue: deque[_Queued] = deque()
        self._waiting = 0
        self._working: asyncio.Task[None] | None = None
        self._closed = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ask")

    async def ask(self, job: AskJob) -> list[Asked]:
        """The answers to each question; other requests have their turn in between."""
        asked: list[Asked] = []
        for turn in turns(job.work):
            part = replace(job, names=job.names[turn], questions=job.questions[turn], work=job.work[turn])
            asked += await self.submit(part)
        return asked

    def submit(self, job: AskJob) -> asyncio.Future[list[Asked]]:
        if self._closed:
            raise ProblemError(503, "the server is stopping")
        work = sum(job.work)
        if not self._has_room(work):
            raise OverloadedError
        loop = asyncio.get_running_loop()
        future: asyncio.Future[list[Asked]] = loop.create_future()
        self._queue.append(_Queued(job, work, future))
        self._wait_for(work)
        if self._working is None or self._working.done():
            # In the loop's next iteration: jobs that arrive in this one join the batch.
            self._working = loop.create_task(self._work())
        return future

    def _has_room(self, work: int) -> bool:
        """Whether a job may wait: the queue is not longer than what is answered within _MAX_WAIT."""
        most = self._max_queue
        if self._per_second is not None:
            most = min(most, round(_MAX_WAIT * self._per_second))
        return not self._waiting or self._waiting + work <= most

    def _wait_for(self, work: int) -> None:
        self._waiting += work
        self._metrics.queue.set(self._waiting)

    async def _work(self) -> None:
        """Answer batch after batch until no job waits."""
        while self._queue:
            if not (batch := self._next_batch()):
                continue
            jobs = [queued.job for queued in batch]
            self._metrics.batches.observe(sum(len(job.questions) for job in jobs))
            began = time.perf_counter()
            # By all who asked: their requests timed out, or their clients left.
            answer = partial(_stopping_when, partial(_are_cancelled, batch), self._answer, jobs)
            results: Answered
            try:
                results = await asyncio.get_running_loop().run_in_executor(self._thread, answer)
            except Exception as error:
                results = [error] * len(batch)
            if self._queue:
                measured = sum(queued.work for queued in batch) / (time.perf_counter() - began)
                before = measured if self._per_second is None else self._per_second
                self._per_second = (3 * before + measured) / 4
            for queued, result in zip(batch, results, strict=True):
                if queued.future.done():
                    continue
                if isinstance(result, Exception):
                    queued.future.set_exception(result)
                else:
                    queued.future.set_result(result)

    def _next_batch(self) -> list[_Queued]:
        batch: list[_Queued] = []
        work = 0
        while self._queue and (not batch or work + self._queue[0].work <= self._max_batch):
            queued = self._queue.popleft()
            self._wait_for(-queued.work)
            # Cancelled by a timeout or a closed connection.
            if not queued.future.cancelled():
                batch.append(queued)
                work += queued.work
        return batch

    async def close(self) -> None:
        self._closed = True
        if self._working is not None:
            await asyncio.wait([self._working])
        self._thread.shutdown()


class SerialExecutor:
    """Runs slow jobs one after the other on one thread; few may wait."""

    def __init__(self, name: str) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._pending = 0

    @property
    def idle(self) -> bool:
        return not self._pending

    async def run(self, work: Callable[[], Value]) -> Value:
        """The result of a job. If the caller is cancelled, a job that waits is dropped, one that runs is stopped."""
        if self._pending >= _MAX_SLOW:
            raise OverloadedError
        self._pending += 1
        given_up = threading.Event()
        loop = asyncio.get_running_loop()
        running = self._thread.submit(_stopping_when, given_up.is_set, work)
        # When the thread has finished it, not when its caller was cancelled.
        running.add_done_callback(lambda done: loop.call_soon_threadsafe(self._finish))
        try:
            return await asyncio.wrap_future(running)
        except asyncio.CancelledError:
            given_up.set()
            raise

    def _finish(self) -> None:
        self._pending -= 1

    async def close(self) -> None:
        while self._pending:
            await asyncio.sleep(0.01)
        self._thread.shutdown()


def _stopping_when(should_stop: Callable[[], bool], work: Callable[..., Value], *arguments: object) -> Value:
    with stopped_by(should_stop):
        try:
            return work(*arguments)
        except StoppedError as stopped:
            # Nobody reads its traceback, whose frames would hold all that was read so far for a while.
            raise stopped.with_traceback(None) from None


def answer_together(library: ServedLibrary, jobs: list[AskJob]) -> list[list[Asked] | Exception]:
    """The results of each job of a batch, or its first error, which does not affect other jobs."""

    def ask(some: list[AskJob]) -> list[list[Asked] | AttarError]:
        results: list[list[Asked] | AttarError] = [[] for _ in some]
        # What a question is answered depends on `top`, so it must not be that of another job.
        for top, look, to_all in {(job.top, job.look, job.to_all) for job in some}:
            alike = [
                at for at, job in enumerate(some) if (job.top, job.look, job.to_all) == (top, look, to_all)
            ]
            names = [name for at in alike for name in some[at].names]
            questions = [question for at in alike for question in some[at].questions]
            asked: Sequence[Asked | AttarError] = (
                [Asked(found, 0) for found in library.ask_all_many(questions, top=top, look=look)]
                if to_all
                else library.ask_each(names, questions, top=top, look=look)
            )
            answers = iter(asked)
            for at in alike:
                results[at] = _first_error_or_all([next(answers) for _ in some[at].questions])
        return results

    def ask_alone(job: AskJob) -> list[Asked] | Exception:
        try:
            return ask([job])[0]
        except StoppedError:
            raise
        except Exception as error:
            return error

    # An error of one question is its result; only what nobody foresaw fails for the whole batch.
    try:
        return [*ask(jobs)]
    except StoppedError:
        raise
    except Exception:
        return [ask_alone(job) for job in jobs]


def _first_error_or_all(results: list[Asked | AttarError]) -> list[Asked] | AttarError:
    asked: list[Asked] = []
    for result in results:
        if isinstance(result, AttarError):
            return result
        asked.append(result)
    return asked


# Work that is done for one request before others have their turn: about an eighth of a second.
_TURN = 128
# Characters of all questions of a request: those of 1,000 long ones would take minutes.
MAX_CHARACTERS = 128_000
# Answers that a request may ask for; each takes some 300 bytes of the reply.
MAX_ANSWERS = 50_000
# Work of all questions of a request: about twenty seconds, less than a request may take.
MAX_WORK = 20_000
# As many as there may be if all are asked for (`top` is null).
_ALL = 1_000
# Characters of a question that people ask, at most.
_SHORT = 64
# Answers that take as long as a short question.
_ANSWERS = 20
# How many times as long as a short question each sentence takes that is read again, and at most a long question more:
# what does not fit into the window of the second look is cut.
_READ_AGAIN, _LONG = 8, 10
# What finding the documents that answer a question to all takes.
_SEARCH = 30


def check_length(what: str, length: int, limit: int, unit: str = "characters") -> None:
    """Refuse a text with more than `limit` characters, or a file with more documents."""
    if length > limit:
        came = f"got {length:,}; shorten it, or send it in parts"
        raise ProblemError(413, f"{what}: expected at most {limit:,} {unit}, {came}")


def check_cost(questions: Sequence[str], top: int | None, work: Sequence[int]) -> None:
    """Refuse questions that are too long together, ask for too many answers, or would take too long."""
    characters = sum(map(len, questions))
    answers = len(questions) * (_ALL if top is None else top)
    split = "split them over several requests"
    for what, limit, got, remedy in (
        ("characters of all questions", MAX_CHARACTERS, characters, split),
        ("questions × top", MAX_ANSWERS, answers, "ask for fewer answers, or split the questions"),
        ("milliseconds that all questions take, about", MAX_WORK, sum(work), f"{split}, or lower look"),
    ):
        if got > limit:
            raise ProblemError(413, f"{what}: expected at most {limit:,}, got {got:,}; {remedy}")


def work_of(question: str, top: int | None, look: int | None, of_all: bool = False) -> int:
    """How much work a question is, compared with a short one that the memory answers alone: about a millisecond.

    >>> work_of("Who left?", 5, 0), work_of("Who left?", 5, None), work_of("a" * 1_920, 5, 3)
    (1, 25, 65)
    >>> work_of("Who left?", 5, 0, of_all=True), work_of("Who left?", 5, None, of_all=True)
    (31, 79)
    """
    length, sentences = len(question) // _SHORT, LOOK if look is None else look
    again = _READ_AGAIN * sentences + min(length, _LONG) if sentences else 0
    answers = (_ALL if top is None else top) // _ANSWERS
    return 1 + answers + (ASKED * (length + again) + _SEARCH if of_all else length + again)


def turns(work: Sequence[int]) -> Iterator[slice]:
    """Cut questions into turns, given the work of each.

    >>> list(turns([60, 60, 60])), list(turns([200, 1]))
    ([slice(0, 2, None), slice(2, 3, None)], [slice(0, 1, None), slice(1, 2, None)])
    """
    first = done = 0
    for at, of_question in enumerate(work):
        if at > first and done + of_question > _TURN:
            yield slice(first, at)
            first, done = at, 0
        done += of_question
    if work:
        yield slice(first, len(work))
