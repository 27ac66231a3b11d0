"""Calling shards: one, any, all at the same time, and all in the rounds of questions to all documents."""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from attar.cluster.shard import Shard
from attar.errors import UnavailableError
from attar.library.rounds import TOGETHER, Rounds
from attar.server.backend import Partial

Result = TypeVar("Result")


class Scatter:
    """Some shards, by their number."""

    def __init__(self, shards: Sequence[Shard]) -> None:
        self.shards = list(shards)
        self._turn = itertools.count()

    def call(self, number: int, method: str, *arguments: Any) -> Any:
        """The result of one shard."""
        (result,) = self.scatter(method, {number: arguments}).values()
        if isinstance(result, UnavailableError):
            raise result
        return result

    def scatter(self, method: str, arguments: Mapping[int, tuple[Any, ...]]) -> dict[int, Any]:
        """The results of shards that are called at the same time, or an `UnavailableError` of one."""
        waiting: dict[int, Callable[[], Any]] = {}
        found: dict[int, Any] = {}
        for number, own in arguments.items():
            try:
                waiting[number] = self.shards[number].submit(method, *own)
            except UnavailableError as error:
                found[number] = error
        fault: Exception | None = None
        for number, result in waiting.items():
            try:
                found[number] = result()
            except UnavailableError as error:
                found[number] = error
            except Exception as error:
                # The other calls are waited for: nothing runs on unnoticed.
                fault = fault or error
        if fault is not None:
            raise fault
        return found

    def all(self, method: str, *arguments: Any) -> Partial[dict[int, Any]]:
        """The results of all shards that are running, at least one."""
        found = self.scatter(method, dict.fromkeys(range(len(self.shards)), arguments))
        lost = {number: each for number, each in found.items() if isinstance(each, UnavailableError)}
        if len(lost) == len(found):
            raise next(iter(lost.values()))
        return Partial({at: each for at, each in found.items() if at not in lost}, _missing(lost))

    def anywhere(self, method: str, *arguments: Any) -> Any:
        """A call of any shard that is running, each in its turn."""
        first = next(self._turn)
        for at in range(len(self.shards)):
            try:
                return self.call((first + at) % len(self.shards), method, *arguments)
            except UnavailableError as error:
                fault = error
        raise fault

    def over_all(self, make: Callable[[str], Rounds[Result]], texts: Sequence[str]) -> Partial[list[Result]]:
        """Run the rounds of questions over the shards that are running; if one is lost, over the others again."""
        lost: dict[int, UnavailableError] = {}
        results: list[Result] = []
        while len(results) < len(texts):
            live = [number for number in range(len(self.shards)) if number not in lost]
            if not live:
                raise next(iter(lost.values()))
            some = texts[len(results) : len(results) + TOGETHER]
            try:
                results += self._run([make(text) for text in some], live)
            except _LostError as fault:
                # From the first question on, so that all answers are from the same shards.
                lost |= fault.lost
                results = []
        return Partial(results, _missing(lost))

    def _run(self, rounds: list[Rounds[Result]], live: list[int]) -> list[Result]:
        """Run rounds in step: those of all questions to one shard are one call."""
        results: dict[int, Result] = {}
        replies: list[Any] = [None] * len(rounds)
        while True:
            asked: list[tuple[int, Any, dict[int, int]]] = []  # question, round, place of each shard's call
            calls: dict[int, list[tuple[str, tuple[Any, ...]]]] = {}
            for at, each in enumerate(rounds):
                if at in results:
                    continue
                try:
                    step = each.send(replies[at])
                except StopIteration as done:
                    results[at] = done.value
                    continue
                by_part = step.by_part
                if by_part is None:
                    parts = [next(self._turn) % len(live)] if step.any_part else range(len(live))
                    by_part = dict.fromkeys(parts, step.arguments)
                places = {}
                for part, arguments in by_part.items():
                    own = calls.setdefault(live[part], [])
                    places[part] = len(own)
                    own.append((step.method, arguments))
                asked.append((at, step, places))
            if not asked:
                return [results[at] for at in range(len(rounds))]
            found = self.scatter("rounds", {number: (own,) for number, own in calls.items()})
            lost = {number: each for number, each in found.items() if isinstance(each, UnavailableError)}
            if lost:
                raise _LostError(lost)
            for at, step, places in asked:
                by_number = {part: found[live[part]][place] for part, place in places.items()}
                if step.by_part is not None:
                    replies[at] = by_number
                else:
                    values = list(by_number.values())
                    replies[at] = values[0] if step.any_part else values


class _LostError(Exception):
    """Shards that stopped running during a question."""

    def __init__(self, lost: dict[int, UnavailableError]) -> None:
        self.lost = lost


def _missing(lost: Iterable[int]) -> list[str]:
    return [f"shard {number}" for number in sorted(lost)]
