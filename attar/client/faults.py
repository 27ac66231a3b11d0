"""What a server refused, raised as the error that the library itself would raise."""

from typing import Any

import msgspec

from attar import errors
from attar.errors import AttarError


class NotFoundError(AttarError, LookupError):
    """A name that no document of the server's library has."""


class ConflictError(AttarError, ValueError):
    """Another text under a name that the server has, and may not replace."""


class TokenError(AttarError, PermissionError):
    """A token that is missing or wrong, or a change to a library that is served for reading only."""


class UnavailableError(AttarError, OSError):
    """A server that cannot answer now, or cannot be reached."""


BY_STATUS: dict[int, type[AttarError]] = {
    401: TokenError,
    403: TokenError,
    404: NotFoundError,
    409: ConflictError,
    503: UnavailableError,
    504: UnavailableError,
}


class Problem(msgspec.Struct):
    """What RFC 9457 says of a refusal, as far as it is of use here."""

    title: str = ""
    detail: str = ""
    kind: str = ""


def fault_of(status: int, body: bytes) -> AttarError:
    """The error for a refusal.

    >>> fault_of(422, b'{"detail": "top: expected 1, got 0", "kind": "OptionError"}')
    OptionError('top: expected 1, got 0')
    >>> fault_of(502, b"<html>")
    UnavailableError('server: expected an answer, got status 502')
    """
    try:
        problem = msgspec.json.decode(body, type=Problem)
    except msgspec.DecodeError:
        return UnavailableError("server", "an answer", f"status {status}")
    named: Any = getattr(errors, problem.kind, None)
    own = named if isinstance(named, type) and issubclass(named, AttarError) else AttarError
    return said(BY_STATUS.get(status, own), problem.detail or problem.title or f"status {status}")


def said(kind: type[AttarError], line: str) -> AttarError:
    """An error with the line that the server wrote: it has the four parts in it already."""
    fault = kind.__new__(kind)
    Exception.__init__(fault, line)
    return fault
