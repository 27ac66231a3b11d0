"""Refusals as RFC 9457 problem objects: what was expected, what came, what to do, and the status for it."""

import msgspec
from starlette.exceptions import HTTPException
from starlette.responses import Response

from attar.errors import AttarError, MissingError, NameTakenError, RecordError
from attar.store import BusyError, StoreError, UnknownNameError
from attar.wire import Problem

MEDIA = "application/problem+json"
RETRY_AFTER = "1"

TITLES = {
    400: "The request cannot be read",
    401: "A token is needed",
    403: "Served for reading only",
    404: "Not found",
    405: "Not a method of this resource",
    409: "The name is taken",
    413: "Too large",
    415: "Not a type that is read here",
    421: "Not this server's name",
    422: "The request cannot be done",
    431: "Too many headers",
    500: "A fault of the server",
    501: "A part is not installed",
    503: "Busy, or not able to answer now",
    504: "It took too long",
}


class Refusal(Exception):  # noqa: N818  # it is what the server does, not what went wrong in it
    """A request that is answered with a problem.

    >>> Refusal(413, "text: expected 10 characters at most, got 11").status
    413
    """

    def __init__(
        self,
        status: int,
        detail: str,
        headers: dict[str, str] | None = None,
        kind: str = "",
        own: bool = False,
    ) -> None:
        super().__init__(detail)
        # Own: a fault that those who run the server should know of.
        self.status, self.detail, self.kind, self.own = status, detail, kind, own
        self.headers = dict(headers or {})
        if status == 503:
            self.headers.setdefault("retry-after", RETRY_AFTER)

    def response(self, request_id: str) -> Response:
        """The response that says it."""
        problem = Problem(
            TITLES.get(self.status, "Refused"),
            self.status,
            self.detail,
            kind=self.kind,
            instance=f"urn:request:{request_id}",
        )
        return Response(msgspec.json.encode(problem), self.status, self.headers, MEDIA)


def refusal_of(fault: Exception) -> Refusal | None:
    """The refusal for what was raised; None for a fault of the server's own.

    >>> refusal_of(UnknownNameError("emma")).status, refusal_of(ZeroDivisionError())
    (404, None)
    """
    if isinstance(fault, Refusal):
        return fault
    if isinstance(fault, AttarError):
        return of_attar(fault)
    if isinstance(fault, msgspec.ValidationError):
        return Refusal(422, f"body: {fault}", kind="FormatError")
    if isinstance(fault, msgspec.DecodeError | UnicodeDecodeError):
        return Refusal(400, f"body: expected JSON, got what cannot be read: {fault}", kind="FormatError")
    if isinstance(fault, TimeoutError):
        return Refusal(504, "request: expected an answer within the server's time limit, got none")
    if isinstance(fault, HTTPException):
        return Refusal(fault.status_code, fault.detail, dict(fault.headers or {}))
    return None


def of_attar(fault: AttarError) -> Refusal:
    """The refusal for an error of the library's."""
    kind = type(fault).__name__
    if isinstance(fault, UnknownNameError):
        return Refusal(404, str(fault), kind=kind)
    if isinstance(fault, NameTakenError):
        return Refusal(409, str(fault), kind=kind)
    if isinstance(fault, BusyError):
        return Refusal(503, "store: expected its turn to write, got none in time; try again", kind=kind)
    # Their lines tell of folders and disks, which are nobody's business outside; the log has them.
    if isinstance(fault, StoreError):
        detail = "store: expected one in working order, got a fault; see the server's log"
        return Refusal(503, detail, kind=kind, own=True)
    if isinstance(fault, RecordError):
        detail = (
            "store: expected a whole record, got one that cannot be read; "
            "add the document again, or see the server's log"
        )
        return Refusal(500, detail, kind=kind, own=True)
    return Refusal(501 if isinstance(fault, MissingError) else 422, str(fault), kind=kind)
