"""Requests of a client: how they are sent, when they are repeated, and how replies and errors are read."""

import contextlib
import time
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from attar import errors, wire
from attar.errors import AttarError, UnavailableError
from attar.progress import Progress, ignore_progress
from attar.results import Change

if TYPE_CHECKING:
    import httpx

Reply = TypeVar("Reply")

# The longest that a server may make a client wait before it tries again, in seconds.
_LONGEST_WAIT = 10.0
# The client's own wait before it repeats a request whose answer was lost; each further one is twice as long.
_SHORTEST_WAIT = 0.1
# The longest wait between two looks at a job.
_LONGEST_LOOK = 1.0
_BY_STATUS: dict[int, type[AttarError]] = {
    **dict.fromkeys((401, 403), errors.AccessDeniedError),
    **dict.fromkeys((502, 503, 504), UnavailableError),
    404: errors.UnknownDocumentError,
}


class Sender:
    """Sends requests to one server."""

    def __init__(
        self,
        url: str,
        token: str | None,
        timeout: float,
        retries: int,
        transport: "httpx.BaseTransport | None",
    ) -> None:
        try:
            import httpx
        except ImportError as fault:
            remedy = errors.install_command("server")
            raise errors.MissingError("the client needs httpx, which is not installed", remedy) from fault
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        if not url.lower().startswith(("http://", "https://")):  # it may hold a password: it is not repeated
            raise errors.OptionError(
                "the url has no http:// or https://", "give one such as http://127.0.0.1:8000"
            )
        self.http = httpx.Client(base_url=url, headers=headers, timeout=timeout, transport=transport)
        self._retries, self._transport_error = retries, httpx.TransportError
        # The connection broke, or time ran out: the server may have answered, or may answer the next time.
        self._lost = httpx.NetworkError, httpx.TimeoutException, httpx.RemoteProtocolError

    def close(self) -> None:
        self.http.close()

    def get(
        self,
        method: str,
        path: str,
        reply_type: type[Reply],
        body: msgspec.Struct | None = None,
        query: Mapping[str, Any] | None = None,
    ) -> Reply:
        """The reply to a request; a warning says which parts of the library it is without."""
        reply = msgspec.json.decode(self.send(method, path, body, query).content, type=reply_type)
        if missing := getattr(reply, "missing", None):
            parts = ", ".join(missing)
            warnings.warn(f"answered without {parts}: not running now; ask again later", stacklevel=3)
        return reply

    def change(
        self,
        method: str,
        path: str,
        body: msgspec.Struct | bytes,
        *,
        query: Mapping[str, Any] | None = None,
        key: str | None = None,
        progress: Progress = ignore_progress,
    ) -> list[Change]:
        """What a request has changed; `progress` gets the characters that are read if it becomes a job."""
        response = self.send(method, path, body, query, key=key, is_change=True)
        if response.status_code == 202:
            return self._wait_for(msgspec.json.decode(response.content, type=wire.Job), progress)
        if path == wire.FILES:
            return msgspec.json.decode(response.content, type=wire.Changes).changes
        return [msgspec.json.decode(response.content, type=Change)]

    def _wait_for(self, job: wire.Job, progress: Progress) -> list[Change]:
        """What a job has changed when it has ended; whoever interrupts this cancels the job."""
        path, wait = f"{wire.JOBS}/{job.id}", _SHORTEST_WAIT
        try:
            while not job.ended:
                time.sleep(wait)
                wait = min(wait * 1.3, _LONGEST_LOOK)
                job = self.get("GET", path, wire.Job)
                progress("characters", job.done, job.total)
        except BaseException:
            with contextlib.suppress(AttarError):  # the first error is the one to tell
                self.send("DELETE", path)
            raise
        if job.problem is not None:
            raise _error_for(job.problem.status, msgspec.json.encode(job.problem))
        if job.state == "cancelled":
            raise UnavailableError("the job was cancelled", "what it had added before stays")
        return job.changes

    def send(
        self,
        method: str,
        path: str,
        body: msgspec.Struct | bytes | None = None,
        query: Mapping[str, Any] | None = None,
        *,
        key: str | None = None,
        is_change: bool = False,
    ) -> "httpx.Response":
        """Send a request, again if need be: structs as JSON, bytes as they are, of the query what is given."""
        headers = {} if key is None else {wire.KEY_HEADER: key}
        if body is not None:
            headers["content-type"] = wire.MEDIA if isinstance(body, bytes) else wire.JSON
        content = msgspec.json.encode(body) if isinstance(body, msgspec.Struct) else body
        given = {name: value for name, value in (query or {}).items() if value not in (None, "", (), [])}
        for left in reversed(range(self._retries + 1)):
            try:
                response = self.http.request(method, path, content=content, headers=headers, params=given)
            except self._transport_error as fault:
                if not left or path == wire.REMOVE or not isinstance(fault, self._lost):
                    where, reason = self.http.base_url, str(fault) or type(fault).__name__
                    line = f"no answer from {where}: {reason}"
                    raise UnavailableError(line, "is the server running?") from fault
                wait = min(_SHORTEST_WAIT * 2.0 ** (self._retries - left), _LONGEST_WAIT)
            else:
                if response.is_success:
                    return response
                status = response.status_code
                # A server that ran out of time may have made the change; repeated, it is recognised.
                is_repeated = status == 503 or (status in (502, 504) and is_change)
                if not left or not is_repeated:
                    raise _error_for(status, response.content)
                wait = _wait_of(response)
            time.sleep(wait)
        raise AssertionError("unreachable")


def _wait_of(response: "httpx.Response") -> float:
    """The seconds to wait before a refused request is repeated."""
    try:
        return min(max(float(response.headers.get("retry-after", "1")), 0.0), _LONGEST_WAIT)
    except ValueError:
        return 1.0


def _error_for(status: int, body: bytes) -> AttarError:
    """The error for a refused request: one for the status, or else of the class that the server names."""
    kind, message = "", f"the server answered with status {status}"
    with contextlib.suppress(msgspec.DecodeError):
        problem = msgspec.json.decode(body, type=wire.Problem)
        kind, message = problem.kind, problem.detail
    named, error_class = getattr(errors, kind, None), _BY_STATUS.get(status, AttarError)
    if status not in _BY_STATUS and isinstance(named, type) and issubclass(named, AttarError):
        error_class = named
    return error_class(message)
