"""How many threads numpy computes with."""

from contextlib import AbstractContextManager
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController


@cache
def _libraries() -> "ThreadpoolController":
    from threadpoolctl import ThreadpoolController  # a list of documents needs none

    return ThreadpoolController()


def one_thread() -> AbstractContextManager[Any]:
    """Let numpy's matrix products use one thread.

    With several they round in another way, and a signature must have the same bytes wherever a document is read. The
    products of a question are small, too: where other programs keep the cores busy, threads that wait for each other
    took 360 ms of CPU time for a question that takes 26 with one.
    """
    limited: AbstractContextManager[Any] = _libraries().limit(limits=1, user_api="blas")
    return limited
