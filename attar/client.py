"""Client and AsyncClient: a served library over HTTP, with the methods, results and errors of `attar.Library`."""

import asyncio
import contextlib
import time
import warnings
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from urllib.parse import quote

import msgspec

from attar import errors, wire
from attar.errors import AttarError, OptionError, UnavailableError
from attar.results import Answer, Change, Document, DocumentDetails

if TYPE_CHECKING:
    import httpx
    from numpy.typing import NDArray

# The longest that a server may make a client wait before it tries again, in seconds.
_LONGEST_WAIT = 10.0
# Questions per request (a server takes 1,024 by default), and documents per page of a list.
_QUESTIONS, _PAGE = 256, 1_000
_BY_STATUS: dict[int, type[AttarError]] = {
    **dict.fromkeys((401, 403), errors.AccessDeniedError),
    **dict.fromkeys((502, 503, 504), UnavailableError),
    404: errors.UnknownDocumentError,
}

_OnChange = Callable[[Change], None] | None
Reply = TypeVar("Reply")


@dataclass(frozen=True)
class _Call(Generic[Reply]):
    """One request and the type of its reply: structs go as JSON, bytes as they are."""

    method: str
    path: str
    reply: type[Reply]
    body: msgspec.Struct | bytes | None = None
    query: dict[str, Any] = field(default_factory=dict)

    def options(self) -> dict[str, Any]:
        """Query, body and content type, as httpx takes them."""
        if self.body is None:
            return {"params": self.query}
        if isinstance(self.body, bytes):
            return {"content": self.body, "headers": {"content-type": wire.MEDIA}}
        return {"content": msgspec.json.encode(self.body), "headers": {"content-type": wire.JSON}}

    def parse(self, content: Any) -> Reply:
        return content if self.reply is bytes else msgspec.json.decode(content, type=self.reply)


class _Base:
    """What both clients share: the connection's options, and the deprecated `put`."""

    _class: str

    def __init__(
        self,
        url: str = "http://127.0.0.1:8000",
        *,
        token: str | None = None,
        timeout: float = 60.0,
        retries: int = 4,
        transport: Any = None,
    ) -> None:
        try:
            import httpx
        except ImportError as fault:
            raise errors.MissingError("client", "httpx", "none", errors.install_command("server")) from fault
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        self._http: Any = getattr(httpx, self._class)(
            base_url=url, headers=headers, timeout=timeout, transport=transport
        )
        self._retries, self._transport_error = retries, httpx.TransportError

    def put(self, name: str, text: str, *, title: str = "", replace: bool = True) -> Any:
        """Deprecated: use `add`, whose default is `replace=False`."""
        message = "put is deprecated and will be removed in the next version; use add(..., replace=True)"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        return self.add(name, text, title=title, replace=replace)  # type: ignore[attr-defined]

    def _unreachable(self, fault: Exception) -> UnavailableError:
        came = str(fault) or type(fault).__name__
        return UnavailableError(f"server {self._http.base_url}", "an answer", came, "is it running?")


class Client(_Base, contextlib.AbstractContextManager["Client"]):
    """A served library: `Client(url).ask("emma", "Who left?")`. Methods and errors are those of `attar.Library`.

    A busy server (503) is asked again after the time it gives, at most `retries` times.
    """

    _class = "Client"

    def add(self, name: str, text: str, *, title: str = "", replace: bool = False) -> Change:
        """Like `Library.add`."""
        return self._send(_Call("PUT", _path(name), Change, wire.PutDocument(text, title, replace)))

    def add_many(
        self, documents: Iterable[tuple[str, str]], *, replace: bool = False, on_change: _OnChange = None
    ) -> list[Change]:
        """Like `Library.add_many`; one request per document."""
        changes = []
        for name, text in documents:
            changes.append(self.add(name, text, replace=replace))
            if on_change is not None:
                on_change(changes[-1])
        return changes

    def append(self, name: str, text: str) -> Change:
        """Like `Library.append`."""
        return self._send(_Call("POST", _path(name, "/append"), Change, wire.AppendText(text)))

    def ask(self, name: str, question: str, *, top: int | None = 5) -> list[Answer]:
        """Like `Library.ask`."""
        return self.ask_many(name, [question], top=top)[0]

    def ask_many(
        self, names: str | Sequence[str], questions: str | Sequence[str], *, top: int | None = 5
    ) -> list[list[Answer]]:
        """Like `Library.ask_many`; at most 256 questions per request."""
        replies = map(self._send, _asks(names, questions, top))
        return [result.answers for reply in replies for result in reply.results]

    def lookup(self, names: str | Sequence[str], vectors: "NDArray[Any]") -> "NDArray[Any]":
        """The readouts of vectors `[m, k]`, all from one document or each from its own."""
        body = wire.pack_queries([names] if isinstance(names, str) else names, vectors)
        return wire.unpack_readouts(self._send(_Call("POST", wire.LOOKUP, bytes, body)))

    def merge(self, new: str, names: Iterable[str], *, title: str = "", replace: bool = False) -> Change:
        """Like `Library.merge`."""
        body = wire.Merge(new, list(names), title, replace)
        return self._send(_Call("POST", wire.MERGE, Change, body))

    def remove(self, *names: str) -> None:
        """Like `Library.remove`."""
        self._send(_Call("POST", wire.REMOVE, bytes, wire.Remove(list(names))))

    def documents(self, *, after: str | None = None, limit: int | None = None) -> Iterator[Document]:
        """Like `Library.documents`; at most 1,000 documents per request."""
        while limit is None or limit > 0:
            page = self._send(_list(after, limit))
            yield from page.documents
            if page.next is None:
                return
            after, limit = page.next, None if limit is None else limit - len(page.documents)

    def show(self, name: str) -> DocumentDetails:
        """Like `Library.show`."""
        return self._send(_Call("GET", _path(name), DocumentDetails))

    def __contains__(self, name: str) -> bool:
        try:
            self._send(_Call("HEAD", _path(name), bytes))
        except errors.UnknownDocumentError:
            return False
        return True

    def __len__(self) -> int:
        return self._send(_list(None, 1)).total

    def __bool__(self) -> bool:
        return True

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _send(self, call: _Call[Reply]) -> Reply:
        for left in range(self._retries, -1, -1):
            try:
                response = self._http.request(call.method, call.path, **call.options())
            except self._transport_error as fault:
                raise self._unreachable(fault) from fault
            if response.is_success:
                return call.parse(response.content)
            if response.status_code != 503 or not left:
                break
            time.sleep(_wait(response))
        raise _error(response.status_code, response.content)


class AsyncClient(_Base, contextlib.AbstractAsyncContextManager["AsyncClient"]):
    """`Client` for asyncio: the same methods, awaited; `in` and `len()`, which cannot be awaited, are missing."""

    _class = "AsyncClient"

    async def add(self, name: str, text: str, *, title: str = "", replace: bool = False) -> Change:
        """Like `Library.add`."""
        return await self._send(_Call("PUT", _path(name), Change, wire.PutDocument(text, title, replace)))

    async def add_many(
        self, documents: Iterable[tuple[str, str]], *, replace: bool = False, on_change: _OnChange = None
    ) -> list[Change]:
        """Like `Library.add_many`; one request per document, one after the other."""
        changes = []
        for name, text in documents:
            changes.append(await self.add(name, text, replace=replace))
            if on_change is not None:
                on_change(changes[-1])
        return changes

    async def append(self, name: str, text: str) -> Change:
        """Like `Library.append`."""
        return await self._send(_Call("POST", _path(name, "/append"), Change, wire.AppendText(text)))

    async def ask(self, name: str, question: str, *, top: int | None = 5) -> list[Answer]:
        """Like `Library.ask`."""
        return (await self.ask_many(name, [question], top=top))[0]

    async def ask_many(
        self, names: str | Sequence[str], questions: str | Sequence[str], *, top: int | None = 5
    ) -> list[list[Answer]]:
        """Like `Library.ask_many`; at most 256 questions per request, all requests at once."""
        replies = await asyncio.gather(*map(self._send, _asks(names, questions, top)))
        return [result.answers for reply in replies for result in reply.results]

    async def lookup(self, names: str | Sequence[str], vectors: "NDArray[Any]") -> "NDArray[Any]":
        """The readouts of vectors `[m, k]`, all from one document or each from its own."""
        body = wire.pack_queries([names] if isinstance(names, str) else names, vectors)
        return wire.unpack_readouts(await self._send(_Call("POST", wire.LOOKUP, bytes, body)))

    async def merge(
        self, new: str, names: Iterable[str], *, title: str = "", replace: bool = False
    ) -> Change:
        """Like `Library.merge`."""
        body = wire.Merge(new, list(names), title, replace)
        return await self._send(_Call("POST", wire.MERGE, Change, body))

    async def remove(self, *names: str) -> None:
        """Like `Library.remove`."""
        await self._send(_Call("POST", wire.REMOVE, bytes, wire.Remove(list(names))))

    async def documents(
        self, *, after: str | None = None, limit: int | None = None
    ) -> AsyncIterator[Document]:
        """Like `Library.documents`; at most 1,000 documents per request."""
        while limit is None or limit > 0:
            page = await self._send(_list(after, limit))
            for document in page.documents:
                yield document
            if page.next is None:
                return
            after, limit = page.next, None if limit is None else limit - len(page.documents)

    async def show(self, name: str) -> DocumentDetails:
        """Like `Library.show`."""
        return await self._send(_Call("GET", _path(name), DocumentDetails))

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def _send(self, call: _Call[Reply]) -> Reply:
        for left in range(self._retries, -1, -1):
            try:
                response = await self._http.request(call.method, call.path, **call.options())
            except self._transport_error as fault:
                raise self._unreachable(fault) from fault
            if response.is_success:
                return call.parse(response.content)
            if response.status_code != 503 or not left:
                break
            await asyncio.sleep(_wait(response))
        raise _error(response.status_code, response.content)


def _path(name: str, after: str = "") -> str:
    """The path of a document; every character of a name is percent-encoded, slashes too."""
    if name in ("", ".", ".."):
        raise OptionError("name", "a name that a path can hold", repr(name), "give it another name")
    try:
        return f"{wire.DOCUMENTS}/{quote(name, safe='')}{after}"
    except UnicodeEncodeError:
        raise OptionError("name", "text", "half of a surrogate pair", "rename it") from None


def _list(after: str | None, limit: int | None) -> _Call[wire.Page]:
    query = {"limit": _PAGE if limit is None else min(limit, _PAGE)} | ({"after": after} if after else {})
    return _Call("GET", wire.DOCUMENTS, wire.Page, query=query)


def _asks(
    names: str | Sequence[str], questions: str | Sequence[str], top: int | None
) -> Iterator[_Call[wire.ManyAnswers]]:
    """The requests for many questions."""
    about = [names] if isinstance(names, str) else list(names)
    asked = [questions] * len(about) if isinstance(questions, str) else list(questions)
    if not isinstance(names, str) and len(about) != len(asked):
        raise errors.ShapeError("questions", f"one for each of {len(about)} documents", str(len(asked)))
    for at in range(0, len(asked), _QUESTIONS):
        part = about if isinstance(names, str) else about[at : at + _QUESTIONS]
        body = wire.Ask(documents=part, questions=asked[at : at + _QUESTIONS], top=top)
        yield _Call("POST", wire.ASK, wire.ManyAnswers, body)


def _wait(response: "httpx.Response") -> float:
    """The seconds after which a busy server asks to be tried again."""
    try:
        return min(max(float(response.headers.get("retry-after", "1")), 0.0), _LONGEST_WAIT)
    except ValueError:
        return 1.0


def _error(status: int, body: bytes) -> AttarError:
    """The error for a refused request: one for the status, or else of the class that the server names."""
    kind, message = "", f"server: expected an answer, got status {status}"
    with contextlib.suppress(msgspec.DecodeError):
        problem = msgspec.json.decode(body, type=wire.Problem)
        kind, message = problem.kind, problem.detail
    named, error_class = getattr(errors, kind, None), _BY_STATUS.get(status, AttarError)
    if status not in _BY_STATUS and isinstance(named, type) and issubclass(named, AttarError):
        error_class = named
    # Constructors build a message from its parts; this one is complete already.
    error = error_class.__new__(error_class)
    Exception.__init__(error, message)
    return error
