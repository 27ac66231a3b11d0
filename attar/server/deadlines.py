"""A time limit for every request, and one timer for all of them: each may take equally long."""

import asyncio
from typing import Any

# A task, or what nobody waits for but a callback.
Running = asyncio.Future[Any]


class Deadlines:
    """Ends what takes too long; what began first is due first.

    A timer for each request costs 5 µs to set and to take back, a twentieth of what a lookup over HTTP takes.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        # In the order of their deadlines, as they came.
        self._running: dict[Running, float] = {}
        self._late: set[Running] = set()
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, running: Running) -> None:
        """Take its time from now on."""
        loop = running.get_loop()
        self._running[running] = loop.time() + self.seconds
        if self._timer is None:
            self._timer = loop.call_later(self.seconds, self._ring, loop)

    def end(self, running: Running) -> bool:
        """Take its time no longer, and tell whether it was ended because it was late."""
        self._running.pop(running, None)
        if running not in self._late:
            return False
        self._late.discard(running)
        # Whoever else wanted a task to end, as a server that stops, goes first.
        return not isinstance(running, asyncio.Task) or running.uncancel() == 0

    def _ring(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        now = loop.time()
        late = []
        for running, due in self._running.items():
            if due > now:
                self._timer = loop.call_later(due - now, self._ring, loop)
                break
            late.append(running)
        for running in late:
            del self._running[running]
            self._late.add(running)
            running.cancel()
