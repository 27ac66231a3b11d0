"""Calling the shards of a library: work is a function of a shard's `Library`, done where that is opened."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from typing import Literal, Protocol, TypeVar

from attar.errors import AttarError, UnavailableError
from attar.library.asking import EachShard
from attar.library.library import Library
from attar.library.served import report_missing
from attar.library.shard import OpenedShard

# Calls of one shard that may wait at the same time: some questions, lists and changes.
_CALLS = 16

# Calls of one kind wait for each other, those of different kinds do not; what writes goes to the shard's one writer.
Kind = Literal["ask", "search", "read", "write", "sign"]
Result = TypeVar("Result")
Step = TypeVar("Step")
Work = Callable[[Library], Result]


class ShardLostError(Exception):
    """The process of a shard does not answer."""


class Shard(Protocol):
    """A shard that can be called."""

    def call(self, work: Work[Result], kind: Kind) -> Result:
        """What the work returns for the shard's library; `ShardLostError` if the shard is not running."""

    def close(self) -> None: ...


class LocalShard:
    """A shard whose store this process opens."""

    def __init__(self, library: Library) -> None:
        self.library = library

    def call(self, work: Work[Result], kind: Kind) -> Result:
        return work(self.library)

    def close(self) -> None:
        self.library.close()


def not_running(number: int) -> UnavailableError:
    """The error for work that only one shard can do."""
    return UnavailableError(f"shard {number} of the library is not running", "try again; Ray restarts it")


class ShardCalls:
    """Calls of shards by number; `at_once`: several of them at the same time."""

    def __init__(self, shards: Sequence[Shard], *, at_once: bool) -> None:
        self.shards = list(shards)
        self._threads = ThreadPoolExecutor(_CALLS * len(shards), "shard") if at_once else None

    def one(self, number: int, work: Work[Result], kind: Kind = "read") -> Result:
        return self.these({number: work}, kind)[number]

    def these(self, work: Mapping[int, Work[Result]], kind: Kind = "read") -> dict[int, Result]:
        """The results of shards, all of which must be running."""
        results, lost = self.some(work, kind)
        if lost:
            raise not_running(min(lost))
        return results

    def running(self, work: Work[Result], kind: Kind = "read") -> list[Result]:
        """The results of the shards that are running, at least one."""
        results, lost = self.some(dict.fromkeys(range(len(self.shards)), work), kind)
        if not results:
            raise not_running(min(lost))
        return list(results.values())

    def all(self, work: Work[Result]) -> list[Result]:
        """The results of the shards that are running; the others are reported as missing."""
        results, lost = self.some(dict.fromkeys(range(len(self.shards)), work), "read")
        self._report(lost)
        return list(results.values())

    def some(self, work: Mapping[int, Work[Result]], kind: Kind) -> tuple[dict[int, Result], set[int]]:
        """The results of shards, and the numbers of those that are lost; all calls end before an error is raised."""
        results: dict[int, Result] = {}
        lost: set[int] = set()
        errors: list[AttarError] = []

        def call(number: int) -> None:
            try:
                results[number] = self.shards[number].call(work[number], kind)
            except ShardLostError:
                lost.add(number)
            except AttarError as error:
                errors.append(error)

        if self._threads is None or len(work) == 1:
            for number in work:
                call(number)
        else:
            calls = [self._threads.submit(call, number) for number in work]
            wait(calls)
            for ended in calls:
                ended.result()
        if errors:
            raise errors[0]
        return dict(sorted(results.items())), lost

    def ask(self, ask: Callable[[EachShard], Result]) -> Result:
        """Ask the shards that are running; if one is lost, the others again, so that all answers are theirs."""
        lost: set[int] = set()

        def each_shard(step: Callable[[OpenedShard], Step]) -> list[Step]:
            running = (number for number in range(len(self.shards)) if number not in lost)
            results, now_lost = self.some(dict.fromkeys(running, partial(_run_step, step)), "search")
            if now_lost:
                lost.update(now_lost)
                raise ShardLostError
            return list(results.values())

        while len(lost) < len(self.shards):
            with contextlib.suppress(ShardLostError):
                result = ask(each_shard)
                self._report(lost)
                return result
        raise not_running(0)

    def _report(self, lost: set[int]) -> None:
        if len(lost) == len(self.shards):
            raise not_running(0)
        report_missing([f"shard {number}" for number in sorted(lost)])

    def close(self) -> None:
        for shard in self.shards:
            shard.close()
        if self._threads is not None:
            self._threads.shutdown()


def _run_step(step: Callable[[OpenedShard], Result], library: Library) -> Result:
    with library.opened() as shard:
        return step(shard)
