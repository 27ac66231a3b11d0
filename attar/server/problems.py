"""Errors as RFC 9457 problem objects: what was expected, what came, what to do, and the status for it."""

import itertools
import secrets
from http import HTTPStatus

import msgspec
from starlette.exceptions import HTTPException
from starlette.responses import Response

from attar.errors import (
    AttarError,
    BusyError,
    MissingError,
    NameTakenError,
    RecordError,
    StoreError,
    UnavailableError,
    UnknownDocumentError,
)
from attar.wire import Problem

MEDIA_TYPE = "application/problem+json"
_RETRY_AFTER = "1"

# Of each status: the title, and the class of the error in Python where none is given.
_STATUSES = {
    400: ("Malformed request", "FormatError"),
    401: ("Authentication required", "AccessDeniedError"),
    403: ("Read-only server", "AccessDeniedError"),
    404: ("Not found", ""),
    405: ("Method not allowed", ""),
    408: ("Request timed out", "UnavailableError"),
    409: ("Name already taken", "NameTakenError"),
    413: ("Content too large", "OptionError"),
    415: ("Unsupported media type", "FormatError"),
    421: ("Misdirected request", "AccessDeniedError"),
    422: ("Invalid request", "FormatError"),
    431: ("Request header fields too large", "OptionError"),
    500: ("Internal server error", ""),
    501: ("Optional dependency not installed", "MissingError"),
    503: ("Service unavailable", "UnavailableError"),
    504: ("Request timed out", "UnavailableError"),
}
# Characters of a message that a client is sent, or that is logged, of a request.
_MAX_DETAIL = 500
# Random ids take a system call each.
_ID_PREFIX, _ID_NUMBERS = secrets.token_hex(4), itertools.count(1)
TITLES = {status: title for status, (title, _) in _STATUSES.items()}


def new_request_id() -> str:
    """An id of its own for each request: a prefix per process, and a number."""
    return f"{_ID_PREFIX}{next(_ID_NUMBERS) & 0xFFFFFFFF:08x}"


def printable(text: str, most: int = _MAX_DETAIL) -> str:
    r"""What a client sent as messages and logs show it: without control characters, and cut in the middle if long.

    >>> print(printable("a\nb\x1b[2J"), printable("x" * 99 + "y", 10))
    a\nb\x1b[2J xxxxx…xxxxy
    """
    if len(text) > most:
        text = f"{text[: most // 2]}…{text[(1 - most) // 2 :]}"
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


class ProblemError(Exception):
    """Raised where a request is answered with a problem; `server_fault` if the operator should know of it.

    >>> ProblemError(413, "text: expected at most 10 characters, got 11").status
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
        self.title, default_kind = _STATUSES.get(status, ("Error", ""))
        self.kind = kind or default_kind
        self.headers = dict(headers or {})
        if status == 503:
            self.headers.setdefault("retry-after", _RETRY_AFTER)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.status, self.detail, self.headers, self.kind, self.server_fault)

    def response(self, request_id: str) -> Response:
        """The response with the problem object."""
        instance = f"urn:request:{request_id}"
        problem = Problem(self.title, self.status, self.detail, kind=self.kind, instance=instance)
        return Response(msgspec.json.encode(problem), self.status, self.headers, MEDIA_TYPE)


def problem_for(error: Exception) -> ProblemError | None:
    """The problem for an error that a handler raised; None for a bug in the server.

    >>> problem_for(UnknownDocumentError("emma")).status, problem_for(ZeroDivisionError())
    (404, None)
    """
    if isinstance(error, ProblemError):
        return error
    if isinstance(error, AttarError):
        return _problem_for_attar(error)
    if isinstance(error, msgspec.ValidationError):
        return ProblemError(422, f"body: {error}")
    if isinstance(error, msgspec.DecodeError | UnicodeDecodeError):
        return ProblemError(400, f"body: expected JSON, got malformed data: {error}")
    if isinstance(error, TimeoutError):
        return ProblemError(504, "request: expected an answer within the server's time limit, got none")
    if isinstance(error, HTTPException):
        headers = {name.lower(): value for name, value in (error.headers or {}).items()}
        details = {
            404: "path: expected one of those in /openapi.json, got another",
            405: f"method: expected {headers.get('allow', 'another one')}, got one that this path does not have",
        }
        plain = error.detail == HTTPStatus(error.status_code).phrase
        detail = details.get(error.status_code, error.detail) if plain else error.detail
        return ProblemError(error.status_code, detail, headers)
    return None


def _problem_for_attar(error: AttarError) -> ProblemError:
    kind = type(error).__name__
    if isinstance(error, BusyError):
        return ProblemError(503, "store: expected the write lock, got none in time; try again", kind=kind)
    # These messages name folders and disks, which clients must not see; the log has them.
    if isinstance(error, StoreError):
        detail = "store: expected one in working order, got an error; see the server's log"
        return ProblemError(503, detail, kind=kind, server_fault=True)
    if isinstance(error, RecordError):
        detail = (
            "store: expected an intact record, got one that cannot be read; "
            "add the document again, or see the server's log"
        )
        return ProblemError(500, detail, kind=kind, server_fault=True)
    statuses = {UnknownDocumentError: 404, NameTakenError: 409, MissingError: 501, UnavailableError: 503}
    return ProblemError(statuses.get(type(error), 422), str(error), kind=kind)
