"""Micro-batching: while one batch is worked on, what arrives makes the next; nobody waits when all is idle."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from attar.server.problems import Refusal

Job = TypeVar("Job")
Done = TypeVar("Done")

# Work on a batch: for every job what came of it, or what is wrong with it.
Work = Callable[[list[Job]], Sequence[Done | Exception]]


class Watch(NamedTuple):
    """Who hears each batch's weight, and how much waits whenever that changes."""

    begun: Callable[[int], None] = lambda weight: None
    waiting: Callable[[int], None] = lambda weight: None


@dataclass(slots=True)
class Waiting(Generic[Job, Done]):
    """A job, how much it counts, and who waits for what comes of it."""

    job: Job
    weight: int
    done: asyncio.Future[Done]


class Batcher(Generic[Job, Done]):
    """Gives one thread all that waits at a time, up to so much; refuses at once what would wait too long.

    `at_once` of 1 is one job after the other.
    """

    def __init__(
        self,
        work: Work[Job, Done],
        *,
        at_once: int,
        limit: int,
        name: str,
        watch: Watch | None = None,
    ) -> None:
        self._work, self._at_once, self._limit, self._name = work, at_once, limit, name
        self._watch = watch or Watch()
        self._waiting: deque[Waiting[Job, Done]] = deque()
        self._weight = 0
        self._busy = False
        self._closed = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)

    def begin(self, job: Job, weight: int = 1) -> asyncio.Future[Done]:
        """Take a job, to be worked on together with others: what will come of it."""
        if self._closed:
            raise Refusal(503, f"{self._name}: expected a running server, got one that stops")
        if self._weight and self._weight + weight > self._limit:
            came = f"{self._weight:,} that wait already"
            raise Refusal(503, f"{self._name}: expected room for {weight:,} in the queue, got {came}")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Done] = loop.create_future()
        self._waiting.append(Waiting(job, weight, future))
        self._weigh(weight)
        if not self._busy:
            self._busy = True
            # At the end of this turn of the loop: what came in the same turn is in the same batch.
            loop.call_soon(self._start)
        return future

    def _start(self) -> None:
        batch: list[Waiting[Job, Done]] = []
        weight = 0
        while self._waiting and (not batch or weight + self._waiting[0].weight <= self._at_once):
            waiting = self._waiting.popleft()
            self._weigh(-waiting.weight)
            # Whoever has gone, by a time limit or a closed connection, is not worked for.
            if not waiting.done.cancelled():
                batch.append(waiting)
                weight += waiting.weight
        if not batch:
            self._busy = False
            return
        self._watch.begun(weight)
        jobs = [waiting.job for waiting in batch]
        loop = asyncio.get_running_loop()
        found = asyncio.ensure_future(loop.run_in_executor(self._thread, self._work, jobs))
        found.add_done_callback(lambda done: self._hand_out(batch, done))

    def _hand_out(
        self, batch: list[Waiting[Job, Done]], found: asyncio.Future[Sequence[Done | Exception]]
    ) -> None:
        fault = found.exception()
        results = [fault] * len(batch) if fault is not None else found.result()
        for waiting, result in zip(batch, results, strict=True):
            if waiting.done.done():
                continue
            if isinstance(result, BaseException):
                waiting.done.set_exception(result)
            else:
                waiting.done.set_result(result)
        self._start()

    def _weigh(self, change: int) -> None:
        self._weight += change
        self._watch.waiting(self._weight)

    async def close(self) -> None:
        """Finish what was taken, and take no more."""
        self._closed = True
        while self._busy:
            await asyncio.sleep(0.01)
        self._thread.shutdown()


def apart(work: Callable[[list[Job]], list[Done]]) -> Callable[[list[Job]], list[Done | Exception]]:
    """Work that fails as a whole, made to fail for those alone whose fault it is: halves are tried in turn.

    >>> def invert(numbers):
    ...     return [1 / number for number in numbers]
    >>> apart(invert)([1, 2, 0, 4])
    [1.0, 0.5, ZeroDivisionError('division by zero'), 0.25]
    """

    def each(jobs: list[Job]) -> list[Done | Exception]:
        try:
            return list(work(jobs))
        except Exception as fault:
            if len(jobs) == 1:
                return [fault]
        half = len(jobs) // 2
        return each(jobs[:half]) + each(jobs[half:])

    return each
