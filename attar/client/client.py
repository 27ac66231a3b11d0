"""Client and AsyncClient: a library that is served, over HTTP."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from attar.client import calls
from attar.client.calls import Call, Change, Document
from attar.client.faults import UnavailableError, fault_of
from attar.errors import MissingError
from attar.results import Answer

if TYPE_CHECKING:
    import httpx
    from numpy.typing import NDArray

URL = "http://127.0.0.1:8000"
# The longest that a server may make a client wait before it tries again, in seconds.
PATIENCE = 10.0


class Client:
    """A library that is served: `Client(url).ask("emma", "Who left?")`. What the server refuses is raised.

    A server that is busy has taken nothing (503), and is asked again when it says, `retries` times at most.
    """

    def __init__(
        self,
        url: str = URL,
        *,
        token: str | None = None,
        timeout: float = 60.0,
        retries: int = 4,
        transport: Any = None,
    ) -> None:
        self._http: httpx.Client = httpx_or_line().Client(
            base_url=url, headers=headers_for(token), timeout=timeout, transport=transport
        )
        self._retries = retries

    def put(self, name: str, text: str, *, title: str = "", replace: bool = True) -> Change:
        """Add a document, or replace it."""
        change: Change = self._send(calls.putting(name, text, title, replace))
        return change

    def append(self, name: str, text: str) -> Change:
        """Read on: the text comes after what the document has."""
        change: Change = self._send(calls.appending(name, text))
        return change

    def ask(self, name: str, question: str, *, top: int = 5) -> list[Answer]:
        """The document's names that may be the answer, likeliest first."""
        return self.ask_many(name, [question], top=top)[0]

    def ask_many(
        self, names: str | Sequence[str], questions: Sequence[str], *, top: int = 5
    ) -> list[list[Answer]]:
        """The answers to each question, all from one document or each from its own."""
        parts = calls.in_parts(names, questions)
        return [answers for part in parts for answers in self._send(calls.asking(*part, top))]

    def lookup(self, names: str | Sequence[str], vectors: "NDArray[Any]") -> "NDArray[Any]":
        """The readouts of vectors `[m, k]`, all from one document or each from its own."""
        readouts: NDArray[Any] = self._send(calls.looking_up(names, vectors))
        return readouts

    def documents(self, *, after: str | None = None, page: int = 1_000) -> Iterator[Document]:
        """Yield the documents in the order of their names, those behind `after`."""
        while True:
            found: calls.Page = self._send(calls.listing(after, page))
            yield from found.documents
            if found.next is None:
                return
            after = found.next

    def show(self, name: str) -> dict[str, Any]:
        """All that the server tells of a document."""
        told: dict[str, Any] = self._send(calls.showing(name))
        return told

    def remove(self, name: str) -> None:
        """Take a document out."""
        self._send(calls.removing(name))

    def close(self) -> None:
        """Let go of the connections."""
        self._http.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _send(self, call: Call) -> Any:
        for left in range(self._retries, -1, -1):
            try:
                response = self._http.request(call.method, call.path, **parts_of(call))
            except httpx_or_line().TransportError as fault:
                raise unreachable(self._http.base_url, fault) from fault
            if response.status_code != 503 or not left:
                return result_of(call, response)
            time.sleep(pause_of(response))
        raise AssertionError("the last try returns")


class AsyncClient:
    """`Client` for asyncio: the same names, awaited."""

    def __init__(
        self,
        url: str = URL,
        *,
        token: str | None = None,
        timeout: float = 60.0,
        retries: int = 4,
        transport: Any = None,
    ) -> None:
        self._http: httpx.AsyncClient = httpx_or_line().AsyncClient(
            base_url=url, headers=headers_for(token), timeout=timeout, transport=transport
        )
        self._retries = retries

    async def put(self, name: str, text: str, *, title: str = "", replace: bool = True) -> Change:
        """Add a document, or replace it."""
        change: Change = await self._send(calls.putting(name, text, title, replace))
        return change

    async def append(self, name: str, text: str) -> Change:
        """Read on: the text comes after what the document has."""
        change: Change = await self._send(calls.appending(name, text))
        return change

    async def ask(self, name: str, question: str, *, top: int = 5) -> list[Answer]:
        """The document's names that may be the answer, likeliest first."""
        return (await self.ask_many(name, [question], top=top))[0]

    async def ask_many(
        self, names: str | Sequence[str], questions: Sequence[str], *, top: int = 5
    ) -> list[list[Answer]]:
        """The answers to each question, all from one document or each from its own."""
        parts = calls.in_parts(names, questions)
        found = await asyncio.gather(*(self._send(calls.asking(*part, top)) for part in parts))
        return [answers for part in found for answers in part]

    async def lookup(self, names: str | Sequence[str], vectors: "NDArray[Any]") -> "NDArray[Any]":
        """The readouts of vectors `[m, k]`, all from one document or each from its own."""
        readouts: NDArray[Any] = await self._send(calls.looking_up(names, vectors))
        return readouts

    async def documents(self, *, after: str | None = None, page: int = 1_000) -> AsyncIterator[Document]:
        """Yield the documents in the order of their names, those behind `after`."""
        while True:
            found: calls.Page = await self._send(calls.listing(after, page))
            for document in found.documents:
                yield document
            if found.next is None:
                return
            after = found.next

    async def show(self, name: str) -> dict[str, Any]:
        """All that the server tells of a document."""
        told: dict[str, Any] = await self._send(calls.showing(name))
        return told

    async def remove(self, name: str) -> None:
        """Take a document out."""
        await self._send(calls.removing(name))

    async def close(self) -> None:
        """Let go of the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _send(self, call: Call) -> Any:
        for left in range(self._retries, -1, -1):
            try:
                response = await self._http.request(call.method, call.path, **parts_of(call))
            except httpx_or_line().TransportError as fault:
                raise unreachable(self._http.base_url, fault) from fault
            if response.status_code != 503 or not left:
                return result_of(call, response)
            await asyncio.sleep(pause_of(response))
        raise AssertionError("the last try returns")


def httpx_or_line() -> Any:
    """The library that speaks HTTP, or the line that says how to get it."""
    try:
        import httpx
    except ImportError as fault:
        raise MissingError("client", "httpx", "none installed", "pip install 'attar[server]'") from fault
    return httpx


def headers_for(token: str | None) -> dict[str, str]:
    """The headers of every request."""
    return {} if token is None else {"authorization": f"Bearer {token}"}


def parts_of(call: Call) -> dict[str, Any]:
    """A call's query, body and type, as httpx takes them."""
    if call.body is None:
        return {"params": call.query}
    return {"params": call.query, "content": call.body, "headers": {"content-type": call.media}}


def pause_of(response: "httpx.Response") -> float:
    """How long the server wants to be left alone, in seconds."""
    try:
        return min(max(float(response.headers.get("retry-after", "1")), 0.0), PATIENCE)
    except ValueError:
        return 1.0


def result_of(call: Call, response: "httpx.Response") -> Any:
    """What a response says, or raises."""
    if response.is_success:
        return call.read(response.content)
    raise fault_of(response.status_code, response.content)


def unreachable(url: object, fault: Exception) -> UnavailableError:
    """The line for a server that is not there, or no longer."""
    return UnavailableError(
        f"server {url}", "an answer", str(fault) or type(fault).__name__, "is it running?"
    )
