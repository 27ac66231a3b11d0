"""Client and AsyncClient: a served library over HTTP, with the methods, results and errors of `attar.Library`."""

import asyncio
import contextlib
import itertools
import os
import time
import warnings
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from attar import errors, wire
from attar.calls import (
    Call,
    Reply,
    append_call,
    ask_all_call,
    ask_all_calls,
    ask_calls,
    document_path,
    error_for,
    file_call,
    list_call,
    merge_call,
    search_call,
)
from attar.errors import UnavailableError
from attar.results import Answer, Change, Document, DocumentDetails, Hit

if TYPE_CHECKING:
    import httpx

# The longest that a server may make a client wait before it tries again, in seconds.
_LONGEST_WAIT = 10.0
# The client's own wait before it repeats a call whose answer was lost; each further one is twice as long.
_SHORTEST_WAIT = 0.1
_OnChange = Callable[[Change], None] | None
_Partial = TypeVar("_Partial", wire.Answers, wire.ManyAnswers, wire.Hits, wire.Page)


class _Base:
    """What both clients share: the connection's options, and when a call is repeated."""

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
            raise errors.MissingError.expected(
                "client", "httpx", "none", errors.install_command("server")
            ) from fault
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        self._http: Any = getattr(httpx, self._class)(
            base_url=url, headers=headers, timeout=timeout, transport=transport
        )
        self._retries, self._transport_error = retries, httpx.TransportError
        # The connection broke, or time ran out: the server may have answered, or may answer the next time.
        self._lost = httpx.NetworkError, httpx.TimeoutException, httpx.RemoteProtocolError

    def _wait_after_fault(self, call: Call[Any], fault: Exception, tries: int) -> float:
        """The seconds to wait before a call whose answer was lost is repeated; raises if it must not be."""
        if tries >= self._retries or not call.repeatable or not isinstance(fault, self._lost):
            raise self._unreachable(fault) from fault
        return min(_SHORTEST_WAIT * float(2**tries), _LONGEST_WAIT)

    def _wait_after_answer(self, call: Call[Any], response: "httpx.Response", tries: int) -> float:
        """The seconds to wait before a refused call is repeated; raises if it must not be."""
        status = response.status_code
        again = status == 503 or (status in (502, 504) and call.is_change)
        if tries >= self._retries or not again:
            raise error_for(status, response.content)
        return _wait(response)

    def _unreachable(self, fault: Exception) -> UnavailableError:
        came = str(fault) or type(fault).__name__
        return UnavailableError.expected(f"server {self._http.base_url}", "an answer", came, "is it running?")


class Client(_Base, contextlib.AbstractContextManager["Client"]):
    """A served library: `Client(url).ask("emma", "Who left?")`. Methods and errors are those of `attar.Library`.

    A call is repeated, at most `retries` times, if the server is busy (503), after the time that it gives, or if the
    answer was lost: each change has a key, so that it is made once. Only a removal whose answer was lost is not.
    """

    _class = "Client"

    def add(self, name: str, text: str, *, title: str = "", replace: bool = False) -> Change:
        """Like `Library.add`."""
        return self._send(Call("PUT", document_path(name), Change, wire.PutDocument(text, title, replace)))

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

    def add_file(
        self, file: str | os.PathLike[str] | bytes, name: str | None = None, *, replace: bool = False
    ) -> list[Change]:
        """Add a file, given as a path or as its bytes and its name; an archive has several documents."""
        return self._send(file_call(file, name, replace)).changes

    def append(self, name: str, text: str, *, key: str | None = None) -> Change:
        """Like `Library.append`; with a new key unless one is given."""
        return self._send(append_call(name, text, key))

    def ask(self, name: str, question: str, *, top: int | None = 5) -> list[Answer]:
        """Like `Library.ask`."""
        return self.ask_many(name, [question], top=top)[0]

    def ask_many(
        self, names: str | Sequence[str], questions: str | Sequence[str], *, top: int | None = 5
    ) -> list[list[Answer]]:
        """Like `Library.ask_many`; at most 256 questions per request."""
        replies = map(self._send, ask_calls(names, questions, top))
        return [result.answers for reply in replies for result in reply.results]

    def ask_all(self, question: str, *, top: int | None = 5) -> list[Answer]:
        """Like `Library.ask_all`."""
        return _whole(self._send(ask_all_call(question, top))).answers

    def ask_all_many(self, questions: Sequence[str], *, top: int | None = 5) -> list[list[Answer]]:
        """Like `Library.ask_all_many`; some questions per request."""
        replies = [_whole(self._send(call)) for call in ask_all_calls(questions, top)]
        return [result.answers for reply in replies for result in reply.results]

    def search(self, query: str, *, top: int = 10) -> list[Hit]:
        """Like `Library.search`."""
        return _whole(self._send(search_call(query, top))).hits

    def merge(
        self,
        new: str,
        names: Iterable[str],
        *,
        title: str = "",
        replace: bool = False,
        key: str | None = None,
    ) -> Change:
        """Like `Library.merge`; with a new key unless one is given."""
        return self._send(merge_call(wire.Merge(new, list(names), title, replace), key))

    def remove(self, *names: str) -> None:
        """Like `Library.remove`."""
        self._send(Call("POST", wire.REMOVE, bytes, wire.Remove(list(names))))

    def documents(self, *, after: str | None = None, limit: int | None = None) -> Iterator[Document]:
        """Like `Library.documents`; at most 1,000 documents per request."""
        while limit is None or limit > 0:
            page = _whole(self._send(list_call(after, limit)))
            yield from page.documents
            if page.next is None:
                return
            after, limit = page.next, None if limit is None else limit - len(page.documents)

    def show(self, name: str) -> DocumentDetails:
        """Like `Library.show`."""
        return self._send(Call("GET", document_path(name), DocumentDetails))

    def __contains__(self, name: str) -> bool:
        try:
            self._send(Call("HEAD", document_path(name), bytes))
        except errors.UnknownDocumentError:
            return False
        return True

    def __len__(self) -> int:
        return self._send(list_call(None, 1)).total

    def __bool__(self) -> bool:
        return True

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _send(self, call: Call[Reply]) -> Reply:
        options = call.options()
        for tries in itertools.count():
            try:
                response = self._http.request(call.method, call.path, **options)
            except self._transport_error as fault:
                wait = self._wait_after_fault(call, fault, tries)
            else:
                if response.is_success:
                    return call.parse(response.content)
                wait = self._wait_after_answer(call, response, tries)
            time.sleep(wait)
        raise AssertionError("unreachable")


class AsyncClient(_Base, contextlib.AbstractAsyncContextManager["AsyncClient"]):
    """`Client` for asyncio: the same methods, awaited; `in` and `len()`, which cannot be awaited, are missing."""

    _class = "AsyncClient"

    async def add(self, name: str, text: str, *, title: str = "", replace: bool = False) -> Change:
        """Like `Library.add`."""
        return await self._send(
            Call("PUT", document_path(name), Change, wire.PutDocument(text, title, replace))
        )

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

    async def add_file(
        self, file: str | os.PathLike[str] | bytes, name: str | None = None, *, replace: bool = False
    ) -> list[Change]:
        """Add a file, given as a path or as its bytes and its name; an archive has several documents."""
        return (await self._send(file_call(file, name, replace))).changes

    async def append(self, name: str, text: str, *, key: str | None = None) -> Change:
        """Like `Library.append`; with a new key unless one is given."""
        return await self._send(append_call(name, text, key))

    async def ask(self, name: str, question: str, *, top: int | None = 5) -> list[Answer]:
        """Like `Library.ask`."""
        return (await self.ask_many(name, [question], top=top))[0]

    async def ask_many(
        self, names: str | Sequence[str], questions: str | Sequence[str], *, top: int | None = 5
    ) -> list[list[Answer]]:
        """Like `Library.ask_many`; at most 256 questions per request, all requests at once."""
        replies = await asyncio.gather(*map(self._send, ask_calls(names, questions, top)))
        return [result.answers for reply in replies for result in reply.results]

    async def ask_all(self, question: str, *, top: int | None = 5) -> list[Answer]:
        """Like `Library.ask_all`."""
        return _whole(await self._send(ask_all_call(question, top))).answers

    async def ask_all_many(self, questions: Sequence[str], *, top: int | None = 5) -> list[list[Answer]]:
        """Like `Library.ask_all_many`; some questions per request, one after the other."""
        replies = [_whole(await self._send(call)) for call in ask_all_calls(questions, top)]
        return [result.answers for reply in replies for result in reply.results]

    async def search(self, query: str, *, top: int = 10) -> list[Hit]:
        """Like `Library.search`."""
        return _whole(await self._send(search_call(query, top))).hits

    async def merge(
        self,
        new: str,
        names: Iterable[str],
        *,
        title: str = "",
        replace: bool = False,
        key: str | None = None,
    ) -> Change:
        """Like `Library.merge`; with a new key unless one is given."""
        return await self._send(merge_call(wire.Merge(new, list(names), title, replace), key))

    async def remove(self, *names: str) -> None:
        """Like `Library.remove`."""
        await self._send(Call("POST", wire.REMOVE, bytes, wire.Remove(list(names))))

    async def documents(
        self, *, after: str | None = None, limit: int | None = None
    ) -> AsyncIterator[Document]:
        """Like `Library.documents`; at most 1,000 documents per request."""
        while limit is None or limit > 0:
            page = _whole(await self._send(list_call(after, limit)))
            for document in page.documents:
                yield document
            if page.next is None:
                return
            after, limit = page.next, None if limit is None else limit - len(page.documents)

    async def show(self, name: str) -> DocumentDetails:
        """Like `Library.show`."""
        return await self._send(Call("GET", document_path(name), DocumentDetails))

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def _send(self, call: Call[Reply]) -> Reply:
        options = call.options()
        for tries in itertools.count():
            try:
                response = await self._http.request(call.method, call.path, **options)
            except self._transport_error as fault:
                wait = self._wait_after_fault(call, fault, tries)
            else:
                if response.is_success:
                    return call.parse(response.content)
                wait = self._wait_after_answer(call, response, tries)
            await asyncio.sleep(wait)
        raise AssertionError("unreachable")


def _whole(reply: _Partial) -> _Partial:
    """A reply; a warning says which parts of the library it is without."""
    if reply.missing:
        parts = ", ".join(reply.missing)
        warnings.warn(f"answered without {parts}: not running now; ask again later", stacklevel=3)
    return reply


def _wait(response: "httpx.Response") -> float:
    """The seconds after which a busy server asks to be tried again."""
    try:
        return min(max(float(response.headers.get("retry-after", "1")), 0.0), _LONGEST_WAIT)
    except ValueError:
        return 1.0
