"""Client and AsyncClient: a served library over HTTP, with the methods, results and errors of `attar.Library`."""

import asyncio
import contextlib
import inspect
import itertools
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Sequence
from inspect import Parameter
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, cast, get_args

from attar import calls, errors, uploads, wire
from attar.calls import Call, Reply
from attar.errors import UnavailableError
from attar.progress import Progress, ignore_progress
from attar.results import (
    Answer,
    Change,
    Document,
    FolderChanges,
    Subset,
)
from attar.uploads import Steps

if TYPE_CHECKING:
    import httpx

Value = TypeVar("Value")
Given = ParamSpec("Given")

# The longest that a server may make a client wait before it tries again, in seconds.
_LONGEST_WAIT = 10.0
# The client's own wait before it repeats a call whose answer was lost; each further one is twice as long.
_SHORTEST_WAIT = 0.1
# The longest wait between two looks at a job.
_LONGEST_LOOK = 1.0
_OnChange = Callable[[Change], None] | None
_OnRefused = Callable[[errors.AttarError], None] | None


def _pauses() -> Iterator[float]:
    """The seconds between looks at a job, which may be short or long."""
    for number in itertools.count():
        yield min(_SHORTEST_WAIT * 1.3**number, _LONGEST_LOOK)


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
            remedy = errors.install_command("server")
            raise errors.MissingError("the client needs httpx, which is not installed", remedy) from fault
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
            reason = str(fault) or type(fault).__name__
            where = self._http.base_url
            raise UnavailableError(f"no answer from {where}: {reason}", "is the server running?") from fault
        return min(_SHORTEST_WAIT * float(2**tries), _LONGEST_WAIT)

    def _wait_after_answer(self, call: Call[Any], response: "httpx.Response", tries: int) -> float:
        """The seconds to wait before a refused call is repeated; raises if it must not be."""
        status = response.status_code
        again = status == 503 or (status in (502, 504) and call.is_change)
        if tries >= self._retries or not again:
            raise calls.error_for(status, response.content)
        try:
            return min(max(float(response.headers.get("retry-after", "1")), 0.0), _LONGEST_WAIT)
        except ValueError:
            return 1.0


def _like(call: Callable[..., Any], method: Any) -> None:
    """Give a method the name, the docstring and the signature of the function that makes its call."""
    whole = inspect.signature(call)
    (reply,) = get_args(whole.return_annotation)
    reply = None if reply is type(None) else reply
    parameters = [Parameter("self", Parameter.POSITIONAL_OR_KEYWORD), *whole.parameters.values()]
    method.__name__, method.__doc__ = call.__name__, call.__doc__
    method.__annotations__ = {"return": reply}
    method.__signature__ = whole.replace(parameters=parameters, return_annotation=reply)


def _sent(call: Callable[Given, Call[Reply]]) -> Callable[Concatenate["Client", Given], Reply]:
    """The method of `Client` that sends a call."""

    def method(self: "Client", /, *given: Given.args, **named: Given.kwargs) -> Reply:
        return self._send(call(*given, **named))

    _like(call, method)
    return method


def _awaited(
    call: Callable[Given, Call[Reply]],
) -> Callable[Concatenate["AsyncClient", Given], Coroutine[Any, Any, Reply]]:
    """The method of `AsyncClient` that sends a call."""

    async def method(self: "AsyncClient", /, *given: Given.args, **named: Given.kwargs) -> Reply:
        return await self._send(call(*given, **named))

    _like(call, method)
    return method


class Client(_Base, contextlib.AbstractContextManager["Client"]):
    """A served library: `Client(url).ask("emma", "Who left?")`. Methods and errors are those of `attar.Library`.

    A call is repeated, at most `retries` times, if the server is busy (503), after the time that it gives, or if the
    answer was lost: each change has a key, so that it is made once. Only a removal whose answer was lost is not.
    """

    _class = "Client"

    add = _sent(calls.add)

    def add_many(
        self,
        documents: Iterable[tuple[str, str]],
        *,
        replace: bool = False,
        on_change: _OnChange = None,
        on_refused: _OnRefused = None,
        progress: Progress = ignore_progress,
    ) -> list[Change]:
        """Like `Library.add_many`; one request per document."""
        return self._run(uploads.add_many(documents, replace, on_change, on_refused, progress))

    add_file = _sent(calls.add_file)

    def add_folder(
        self,
        folder: str | os.PathLike[str],
        *,
        tags: Sequence[str] | None = None,
        replace: bool = False,
        sync: bool = False,
        on_change: _OnChange = None,
        on_refused: _OnRefused = None,
        progress: Progress = ignore_progress,
    ) -> FolderChanges:
        """Like `Library.add_folder`, with a folder of this computer; one request per file."""
        found = uploads.find(folder, sync)
        steps = uploads.add_files(found, tags, replace, sync, on_change, on_refused, progress)
        return self._run(steps)

    def watch(
        self,
        folder: str | os.PathLike[str],
        *,
        tags: Sequence[str] | None = None,
        on_change: _OnChange = None,
        stop: threading.Event | None = None,
    ) -> Iterator[FolderChanges]:
        """Like `Library.watch`, with a folder of this computer."""
        rounds = uploads.watch(folder, stop)
        return (self._run(uploads.add_files(found, tags, sync=True, on_change=on_change)) for found in rounds)

    append = _sent(calls.append)
    ask = _sent(calls.ask)

    def ask_many(
        self,
        names: str | Sequence[str],
        questions: str | Sequence[str],
        *,
        top: int | None = 5,
        look: int | None = None,
    ) -> list[list[Answer]]:
        """Like `Library.ask_many`; at most 256 questions per request."""
        return [*itertools.chain.from_iterable(map(self._send, calls.ask_parts(names, questions, top, look)))]

    ask_all = _sent(calls.ask_all)

    def ask_all_many(
        self,
        questions: Sequence[str],
        *,
        top: int | None = 5,
        look: int | None = None,
        within: Subset | None = None,
    ) -> list[list[Answer]]:
        """Like `Library.ask_all_many`; some questions per request."""
        return [
            *itertools.chain.from_iterable(map(self._send, calls.ask_all_parts(questions, top, look, within)))
        ]

    list_answers = _sent(calls.list_answers)
    search = _sent(calls.search)
    verify = _sent(calls.verify)
    merge = _sent(calls.merge)
    remove = _sent(calls.remove)
    tag = _sent(calls.tag)

    def documents(
        self, *, after: str | None = None, limit: int | None = None, within: Subset | None = None
    ) -> Iterator[Document]:
        """Like `Library.documents`; at most 1,000 documents per request."""
        while limit is None or limit > 0:
            page = self._send(calls.page(after, limit, within))
            yield from page.documents
            if page.next is None:
                return
            after, limit = page.next, None if limit is None else limit - len(page.documents)

    show = _sent(calls.show)

    def __contains__(self, name: str) -> bool:
        try:
            self._send(calls.find(name))
        except errors.UnknownDocumentError:
            return False
        return True

    def __len__(self) -> int:
        return self._send(calls.page(None, 1, None)).total

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
                if response.status_code == 202:
                    return self._wait_for(call, calls.accepted(response.content))
                if response.is_success:
                    return call.read(response.content)
                wait = self._wait_after_answer(call, response, tries)
            time.sleep(wait)
        raise AssertionError("unreachable")

    def _run(self, steps: "Steps[Value]") -> Value:
        """Send the requests of several steps, each with the reply to the one before; their result."""
        try:
            call = next(steps)
            while True:
                try:
                    reply = self._send(call)
                except errors.AttarError as fault:
                    call = steps.throw(fault)
                else:
                    call = steps.send(reply)
        except StopIteration as end:
            return cast(Value, end.value)

    def _wait_for(self, call: Call[Reply], job: wire.Job) -> Reply:
        """The reply of a change that became a job; whoever interrupts it cancels the job."""
        try:
            for seconds in _pauses():
                if job.ended:
                    break
                time.sleep(seconds)
                job = self._send(calls.job(job))
                call.progress("characters", job.done, job.total)
        except BaseException:
            with contextlib.suppress(errors.AttarError):  # the first error is the one to tell
                self._send(calls.cancel(job))
            raise
        return calls.result_of(call, job)


class AsyncClient(_Base, contextlib.AbstractAsyncContextManager["AsyncClient"]):
    """`Client` for asyncio: the same methods, awaited; `in` and `len()`, which cannot be awaited, are missing."""

    _class = "AsyncClient"

    add = _awaited(calls.add)

    async def add_many(
        self,
        documents: Iterable[tuple[str, str]],
        *,
        replace: bool = False,
        on_change: _OnChange = None,
        on_refused: _OnRefused = None,
        progress: Progress = ignore_progress,
    ) -> list[Change]:
        """Like `Library.add_many`; one request per document, one after the other."""
        return await self._run(uploads.add_many(documents, replace, on_change, on_refused, progress))

    add_file = _awaited(calls.add_file)

    async def add_folder(
        self,
        folder: str | os.PathLike[str],
        *,
        tags: Sequence[str] | None = None,
        replace: bool = False,
        sync: bool = False,
        on_change: _OnChange = None,
        on_refused: _OnRefused = None,
        progress: Progress = ignore_progress,
    ) -> FolderChanges:
        """Like `Library.add_folder`, with a folder of this computer; one request per file."""
        found = uploads.find(folder, sync)
        steps = uploads.add_files(found, tags, replace, sync, on_change, on_refused, progress)
        return await self._run(steps)

    async def watch(
        self,
        folder: str | os.PathLike[str],
        *,
        tags: Sequence[str] | None = None,
        on_change: _OnChange = None,
        stop: threading.Event | None = None,
    ) -> AsyncIterator[FolderChanges]:
        """Like `Library.watch`, with a folder of this computer."""
        stop = threading.Event() if stop is None else stop
        rounds = uploads.watch(folder, stop)
        try:
            while (found := await asyncio.to_thread(next, rounds, None)) is not None:
                yield await self._run(uploads.add_files(found, tags, sync=True, on_change=on_change))
        finally:
            stop.set()  # for the thread that waits for changes

    append = _awaited(calls.append)
    ask = _awaited(calls.ask)

    async def ask_many(
        self,
        names: str | Sequence[str],
        questions: str | Sequence[str],
        *,
        top: int | None = 5,
        look: int | None = None,
    ) -> list[list[Answer]]:
        """Like `Library.ask_many`; at most 256 questions per request, all requests at once."""
        parts = await asyncio.gather(*map(self._send, calls.ask_parts(names, questions, top, look)))
        return [*itertools.chain.from_iterable(parts)]

    ask_all = _awaited(calls.ask_all)

    async def ask_all_many(
        self,
        questions: Sequence[str],
        *,
        top: int | None = 5,
        look: int | None = None,
        within: Subset | None = None,
    ) -> list[list[Answer]]:
        """Like `Library.ask_all_many`; some questions per request, one after the other."""
        parts = [await self._send(call) for call in calls.ask_all_parts(questions, top, look, within)]
        return [*itertools.chain.from_iterable(parts)]

    list_answers = _awaited(calls.list_answers)
    search = _awaited(calls.search)
    verify = _awaited(calls.verify)
    merge = _awaited(calls.merge)
    remove = _awaited(calls.remove)
    tag = _awaited(calls.tag)

    async def documents(
        self, *, after: str | None = None, limit: int | None = None, within: Subset | None = None
    ) -> AsyncIterator[Document]:
        """Like `Library.documents`; at most 1,000 documents per request."""
        while limit is None or limit > 0:
            page = await self._send(calls.page(after, limit, within))
            for document in page.documents:
                yield document
            if page.next is None:
                return
            after, limit = page.next, None if limit is None else limit - len(page.documents)

    show = _awaited(calls.show)

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
                if response.status_code == 202:
                    return await self._wait_for(call, calls.accepted(response.content))
                if response.is_success:
                    return call.read(response.content)
                wait = self._wait_after_answer(call, response, tries)
            await asyncio.sleep(wait)
        raise AssertionError("unreachable")

    async def _run(self, steps: "Steps[Value]") -> Value:
        """Send the requests of several steps, each with the reply to the one before; their result."""
        try:
            call = next(steps)
            while True:
                try:
                    reply = await self._send(call)
                except errors.AttarError as fault:
                    call = steps.throw(fault)
                else:
                    call = steps.send(reply)
        except StopIteration as end:
            return cast(Value, end.value)

    async def _wait_for(self, call: Call[Reply], job: wire.Job) -> Reply:
        """The reply of a change that became a job; whoever interrupts it cancels the job."""
        try:
            for seconds in _pauses():
                if job.ended:
                    break
                await asyncio.sleep(seconds)
                job = await self._send(calls.job(job))
                call.progress("characters", job.done, job.total)
        except BaseException:
            with contextlib.suppress(errors.AttarError):
                await self._send(calls.cancel(job))
            raise
        return calls.result_of(call, job)
