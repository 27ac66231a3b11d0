"""A lane: one thread for work that takes its time, where questions do not wait for it."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from attar.server.problems import Refusal

Value = TypeVar("Value")

# Writes, or explanations, that wait: each takes far longer than a question.
SLOW_WAITING = 64


class Lane:
    """One thread for work that takes its time, one piece after the other; few may wait."""

    def __init__(self, name: str) -> None:
        self._name, self._thread = name, ThreadPoolExecutor(1, thread_name_prefix=name)
        self._taken = 0

    @property
    def idle(self) -> bool:
        """Whether nothing is being done."""
        return not self._taken

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
