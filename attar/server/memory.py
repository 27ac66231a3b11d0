"""Freed memory, given back to the system: the C library keeps what a long text took in case there is another."""

import asyncio
import contextlib
import ctypes
from collections.abc import AsyncIterator

# Seconds between two times; each takes some milliseconds, in which nothing waits.
_PAUSE = 5.0


@contextlib.asynccontextmanager
async def returning_freed_memory() -> AsyncIterator[None]:
    """Give freed memory back every few seconds. Only glibc needs that, and can do it."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is None:
        yield
        return

    async def return_again_and_again() -> None:
        while True:
            await asyncio.sleep(_PAUSE)
            await asyncio.to_thread(trim, 0)

    task = asyncio.create_task(return_again_and_again())
    try:
        yield
    finally:
        task.cancel()
