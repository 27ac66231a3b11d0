"""Reading requests: a document's name, query parameters, and lengths."""

from collections.abc import Sequence
from urllib.parse import unquote_to_bytes

from starlette.exceptions import HTTPException
from starlette.requests import Request

from attar import wire
from attar.errors import FormatError, OptionError
from attar.server.problems import ProblemError

_DOCUMENTS = f"{wire.DOCUMENTS}/".encode()
_APPEND = b"/append"
# Python refuses to parse numbers of thousands of digits.
_MAX_DIGITS = 9


def document_name(request: Request) -> str:
    """The name in the path: any character may be percent-encoded, slashes need not be."""
    raw: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
    written = raw.partition(b"?")[0].removeprefix(_DOCUMENTS)
    if request.method == "POST":
        # A name may end with an encoded "/append"; only a plain one belongs to the route.
        if not written.endswith(_APPEND):
            raise HTTPException(405, headers={"allow": "PUT, GET, DELETE"})
        written = written.removesuffix(_APPEND)
    try:
        name = unquote_to_bytes(written).decode()
    except UnicodeDecodeError as error:
        raise FormatError.expected("name", "percent-encoded UTF-8", "other bytes") from error
    if len(name) > wire.MAX_NAME:
        raise OptionError.expected("name", f"at most {wire.MAX_NAME:,} characters", f"{len(name):,}")
    return name


def idempotency_key(request: Request) -> str | None:
    """The key by which a repeated change is recognised, if the client sent one."""
    return request.headers.get(wire.KEY_HEADER)


def query_number(request: Request, name: str, default: int, most: int) -> int:
    """A whole number from the query string."""
    written = request.query_params.get(name, str(default))
    is_number = written.isascii() and written.isdigit() and len(written) <= _MAX_DIGITS
    if not is_number or not 1 <= int(written) <= most:
        raise OptionError.expected(name, f"a whole number from 1 to {most:,}", repr(written[:20]))
    return int(written)


def query_flag(request: Request, name: str) -> bool:
    """Whether the query string has this parameter as 1; it is 0 unless given."""
    written = request.query_params.get(name, "0")
    if written not in ("0", "1"):
        raise OptionError.expected(name, "0 or 1", repr(written[:20]))
    return written == "1"


def file_name(request: Request) -> str:
    """The name of a file in the query string."""
    name = request.query_params.get("name", "")
    if not 0 < len(name) <= wire.MAX_NAME:
        expected = f"a file's name of 1 to {wire.MAX_NAME:,} characters"
        raise OptionError.expected("name", expected, f"{len(name):,}")
    return name


def check_length(what: str, characters: int, limit: int) -> None:
    """Refuse a text with more than `limit` characters."""
    if characters > limit:
        came = f"got {characters:,}; send it in parts"
        raise ProblemError(413, f"{what}: expected at most {limit:,} characters, {came}")


def check_count(what: str, values: Sequence[object], limit: int) -> None:
    """Refuse more than `limit` values in one request."""
    if len(values) > limit:
        remedy = "split them over several requests"
        raise OptionError.expected(what, f"at most {limit:,} per request", f"{len(values):,}", remedy)
