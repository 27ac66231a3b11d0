"""What a route reads of a request: a body of the right type, a document's name, numbers that can be used."""

from collections.abc import Sequence
from typing import TypeVar
from urllib.parse import unquote_to_bytes

import msgspec
import numpy as np
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from attar.errors import FormatError, OptionError, ShapeError
from attar.memory.forms import Floats
from attar.server.problems import Refusal

Body = TypeVar("Body")
JSON = "application/json"
DOCUMENTS = "/v1/documents/"
APPEND = "/append"

encode = msgspec.json.Encoder().encode


async def body_of(request: Request, decoder: msgspec.json.Decoder[Body]) -> Body:
    """A JSON body. Its type must be said: a foreign page cannot say it without this server's leave."""
    if media_of(request) != JSON:
        raise unknown_media(request, JSON)
    return decoder.decode(await request.body())


def media_of(request: Request) -> str:
    """The type of a request's body, without its parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def unknown_media(request: Request, expected: str) -> Refusal:
    """The refusal of another type of body."""
    came = media_of(request)[:60] or "none"
    return Refusal(415, f"content-type: expected {expected}, got {came}", {"accept": expected})


def respond(value: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A JSON answer."""
    return Response(encode(value), status, headers, JSON)


def name_of(request: Request) -> str:
    """The document that a path names: every character may be percent-encoded, slashes need not be."""
    raw: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
    written = raw.partition(b"?")[0].removeprefix(DOCUMENTS.encode())
    if request.method == "POST":
        # The end of a name may be an encoded "/append"; only a plain one is the route's.
        if not written.endswith(APPEND.encode()):
            raise HTTPException(405, headers={"allow": "PUT, GET, DELETE"})
        written = written.removesuffix(APPEND.encode())
    try:
        return unquote_to_bytes(written).decode()
    except UnicodeDecodeError as fault:
        raise FormatError("name", "percent-encoded UTF-8", "other bytes") from fault


def check_length(word: str, text: str, limit: int) -> None:
    """Refuse a text that is longer than the server reads."""
    if len(text) > limit:
        raise Refusal(
            413, f"{word}: expected at most {limit:,} characters, got {len(text):,}", kind="OptionError"
        )


def check_count(word: str, values: Sequence[object], limit: int) -> None:
    """Refuse more of something than one request may bring."""
    if len(values) > limit:
        raise OptionError(word, f"at most {limit:,} a request", f"{len(values):,}", "send them in parts")


def floats_of(vectors: list[list[float]]) -> Floats:
    """Vectors `[m, k]` of numbers that a float32 can hold.

    >>> floats_of([[1.0, 2.0]]).tolist()
    [[1.0, 2.0]]
    """
    sizes = {len(vector) for vector in vectors}
    if len(sizes) != 1 or 0 in sizes:
        came = ", ".join(map(str, sorted(sizes)))
        raise ShapeError("vectors", "one size for all, from 1 up", came)
    with np.errstate(over="ignore"):
        found = np.array(vectors, np.float32)
    check_finite(found)
    return found


def check_finite(vectors: Floats) -> None:
    """Refuse what is no number, or none that a float32 can hold."""
    if not np.isfinite(vectors).all():
        raise OptionError("vectors", "finite float32 numbers", "infinite ones, or none")


def whole_number(request: Request, word: str, default: int, most: int) -> int:
    """A number in the query."""
    written = request.query_params.get(word, str(default))
    if not (written.isascii() and written.isdigit()) or len(written) > 9 or not 1 <= int(written) <= most:
        raise OptionError(word, f"a whole number from 1 to {most:,}", repr(written[:20]))
    return int(written)
