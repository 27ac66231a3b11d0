"""The short way of a busy request: answered where its connection reads it, by no task of its own.

A task, its messages and its writings take as long as a lookup does. A request of which something is wrong gets a
task after all, in which the gate says so.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from attar.server.gate import ROUTE, Gate
from attar.server.passage import Passage
from attar.server.requests import JSON_BYTES

if TYPE_CHECKING:
    from attar.server.connection import Connection

# Bytes of a body: what is asked for by more takes far longer than its way.
LONGEST_BODY = 16_384
# Said in other words, or not at all, it is for the usual way to judge.
SAYS_JSON = (b"content-type", JSON_BYTES)

Refuse = Callable[[Exception], Awaitable[object]]


class Begun(NamedTuple):
    """What will be found, how it is told, and how a fault is."""

    found: asyncio.Future[Any]
    tell: Callable[[Any], bytes]
    refuse: Refuse


def is_short(gate: Gate, cycle: RequestResponseCycle) -> bool:
    """Whether a request goes the short way, as far as its head tells."""
    scope = cycle.scope
    return (
        scope["path"] in gate.short
        and scope["method"] == "POST"
        and SAYS_JSON in scope["headers"]
        and not cycle.waiting_for_100_continue
    )


class Shortcut:
    """One request whose body is whole, and uvicorn's cycle of it."""

    __slots__ = ("_connection", "_cycle", "_gate", "_passage")

    def __init__(self, gate: Gate, connection: "Connection", cycle: RequestResponseCycle) -> None:
        self._gate, self._connection, self._cycle = gate, connection, cycle
        # uvicorn's types of these say more than Starlette's.
        asgi: tuple[Any, Any, Any] = cycle.scope, cycle.receive, cycle.send
        self._passage = Passage(*asgi, gate.settings.max_body)

    def take(self) -> None:
        """Answer it, now or when its answer is found."""
        gate, passage = self._gate, self._passage
        gate.enter(passage)
        try:
            gate.admit(passage)
            passage.scope[ROUTE] = passage.path.rpartition("/")[2]
            begun = gate.short[passage.path](self._cycle.body)
        except Exception as fault:
            self._refuse(raise_again, fault)
            return
        if isinstance(begun, bytes):
            self._answer(begun)
        else:
            gate.deadlines.begin(begun.found)
            begun.found.add_done_callback(lambda found: self._finish(begun, found))

    def _finish(self, begun: Begun, found: asyncio.Future[Any]) -> None:
        self._gate.deadlines.end(found)
        try:
            body = begun.tell(found.result())
        except asyncio.CancelledError:
            # By its deadline: nobody else can.
            self._refuse(raise_again, TimeoutError())
        except Exception as fault:
            self._refuse(begun.refuse, fault)
        else:
            self._answer(body)

    def _answer(self, body: bytes) -> None:
        self._connection.answer(self._cycle, self._passage.good(body, JSON_BYTES), body)
        self._gate.leave(self._passage)

    def _refuse(self, refuse: Refuse, fault: Exception) -> None:
        async def application(*_: object) -> None:
            await self._gate.pass_through(self._passage, lambda _: refuse(fault))

        self._connection.start_task(self._cycle, application)


async def raise_again(fault: Exception) -> NoReturn:
    """Refuse without more words."""
    raise fault
