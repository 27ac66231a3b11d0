"""Errors as RFC 9457 problem objects: a sentence, what to do, and the status for it."""

from http import HTTPStatus

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from attar.errors import (
    AttarError,
    BusyError,
    DeviceError,
    MissingError,
    NameTakenError,
    RecordError,
    StoreError,
    UnavailableError,
    UnknownDocumentError,
)
from attar.wire import Problem

MEDIA_TYPE = "application/problem+json"
# Seconds after which a client may try again.
RETRY_AFTER = 1
# The status of a request whose client is gone: nobody reads a response.
DISCONNECTED = 499
# What a refused client reads whose connection cannot be used for another request.
CLOSE = {"connection": "close"}

# The class of the error in Python for each status, where none is given.
_KINDS = {
    **dict.fromkeys((400, 415, 422), "FormatError"),
    **dict.fromkeys((401, 403), "AccessDeniedError"),
    **dict.fromkeys((408, 503, 504), "UnavailableError"),
    **dict.fromkeys((413, 431), "OptionError"),
}
# Maximum length of request text in replies and logs.
_MAX_DETAIL = 500


def printable(text: str, most: int = _MAX_DETAIL) -> str:
    r"""What a client sent as messages and logs show it: without control characters, and cut in the middle if long.

    >>> print(printable("a\nb\x1b[2J"), printable("x" * 99 + "y", 10))
    a\nb\x1b[2J xxxxx…xxxxy
    """
    if len(text) > most:
        text = f"{text[: most // 2]}…{text[(1 - most) // 2 :]}"
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else ascii(character)[1:-1] for character in text)


class ProblemError(Exception):
    """Raised where a request is answered with a problem; `server_fault` if the operator should know of it.

    >>> ProblemError(413, "the text has more than 10 characters").status
    413
    """

    def __init__(
        self,
        status: int,
        detail: str,
        headers: dict[str, str] | None = None,
        kind: str = "",
        server_fault: bool = False,
    ) -> None:
        detail = printable(detail)
        super().__init__(detail)
        self.status, self.detail, self.server_fault = status, detail, server_fault
        self.kind = kind or _KINDS.get(status, "")
        self.headers = dict(headers or {})
        if status == 503:
            self.headers.setdefault("retry-after", str(RETRY_AFTER))

    def described(self, instance: str = "") -> Problem:
        title = HTTPStatus(self.status).phrase.capitalize()
        return Problem(title, self.status, self.detail, kind=self.kind, instance=instance)

    def response(self, request_id: str) -> Response:
        problem = self.described(f"urn:request:{request_id}")
        return Response(msgspec.json.encode(problem), self.status, self.headers, MEDIA_TYPE)


class OverloadedError(ProblemError):
    """A request more than the server can answer in time. Refusals are logged together, since there are many."""

    def __init__(self) -> None:
        super().__init__(503, f"the server is overloaded; try again in {RETRY_AFTER} s")


def problem_for(error: Exception) -> ProblemError | None:
    """The problem for an error that a handler raised; None for a bug in the server.

    >>> problem_for(UnknownDocumentError("emma")).status, problem_for(ZeroDivisionError())
    (404, None)
    """
    match error:
        case ProblemError():
            return error
        case AttarError():
            return _problem_for_attar(error)
        case msgspec.ValidationError():
            return ProblemError(422, f"body: {error}")
        case msgspec.DecodeError() | UnicodeDecodeError():
            return ProblemError(400, f"the body is not JSON: {error}")
        case TimeoutError():
            return ProblemError(504, "the server's time limit was reached before there was an answer")
        case ClientDisconnect():
            return ProblemError(
                DISCONNECTED, "the client closed the connection before it had sent the whole request"
            )
        case HTTPException():
            return _problem_for_http(error)
    return None


def _problem_for_http(error: HTTPException) -> ProblemError:
    """What Starlette's router and static files raise."""
    headers = {name.lower(): value for name, value in (error.headers or {}).items()}
    details = {
        404: "there is no such path; see /docs",
        405: f"this path has {headers.get('allow', 'others')} only",
    }
    is_plain = error.detail == HTTPStatus(error.status_code).phrase
    detail = details.get(error.status_code, error.detail) if is_plain else error.detail
    return ProblemError(error.status_code, detail, headers)


def _problem_for_attar(error: AttarError) -> ProblemError:
    kind = type(error).__name__
    if isinstance(error, BusyError):
        return ProblemError(503, "another process is writing to the library; try again", kind=kind)
    # These messages name folders, disks and devices, which clients must not see; the log has them.
    if isinstance(error, StoreError | DeviceError):
        detail = "the library cannot be used now; the server's log has the reason"
        return ProblemError(503, detail, kind=kind, server_fault=True)
    if isinstance(error, RecordError):
        detail = "the document cannot be read; add it again, or see the server's log"
        return ProblemError(500, detail, kind=kind, server_fault=True)
    # A file that only another program or package could read, such as a photo, is no fault of the server.
    statuses = {UnknownDocumentError: 404, NameTakenError: 409, MissingError: 415, UnavailableError: 503}
    return ProblemError(statuses.get(type(error), 422), str(error), kind=kind)
