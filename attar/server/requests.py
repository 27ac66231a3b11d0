"""What a route reads of a request: a body of the right type, a document's name, numbers that can be used."""

import math
from array import array
from collections.abc import Sequence
from itertools import chain
from typing import TypeVar
from urllib.parse import unquote_to_bytes

import msgspec
import numpy as np
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from attar.errors import FormatError, OptionError, ShapeError
from attar.memory import Floats
from attar.server.passage import Passage
from attar.server.problems import Refusal

Body = TypeVar("Body")
JSON = "application/json"
JSON_BYTES = JSON.encode()
DOCUMENTS = "/v1/documents/"
APPEND = "/append"

encode = msgspec.json.Encoder().encode


async def body_of(request: Request | Passage, decoder: msgspec.json.Decoder[Body]) -> Body:
    """A JSON body. Its type must be said: a foreign page cannot say it without this server's leave."""
    media = media_of(request)
    if media != JSON:
        raise Refusal(415, f"content-type: expected {JSON}, got {media[:60] or 'none'}", {"accept": JSON})
    return decoder.decode(await request.body())


def media_of(request: Request | Passage) -> str:
    """The type of a request's body, without its parameters."""
    if isinstance(request, Passage):
        said = request.headers.get(b"content-type", b"")
        if said == JSON_BYTES:
            return JSON
        written = said.decode("latin-1")
    else:
        written = request.headers.get("content-type", "")
    return written.partition(";")[0].strip().lower()


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
    first, *others = vectors
    size = len(first)
    if not size or any(len(other) != size for other in others):
        came = ", ".join(map(str, sorted({len(vector) for vector in vectors})))
        raise ShapeError("vectors", "one size for all, from 1 up", came)
    # In half the time of np.array, and without a warning where a number is too large.
    numbers = array("f", chain.from_iterable(vectors) if others else first)
    found: Floats = np.frombuffer(numbers, np.float32).reshape(len(vectors), size)
    check_finite(found)
    return found


def check_finite(vectors: Floats) -> None:
    """Refuse what is no number, or none that a float32 can hold."""
    if not all_finite(vectors):
        raise OptionError("vectors", "finite float32 numbers", "infinite ones, or none")


def all_finite(numbers: Floats) -> bool:
    """Whether all are finite numbers.

    >>> all_finite(np.array([1, 2], np.float32)), all_finite(np.array([np.inf], np.float32))
    (True, False)
    """
    # A sum of squares is finite only if all of its numbers are: one look, where none is very large.
    return math.isfinite(np.vdot(numbers, numbers)) or bool(np.isfinite(numbers).all())


def whole_number(request: Request, word: str, default: int, most: int) -> int:
    """A number in the query."""
    written = request.query_params.get(word, str(default))
    if not (written.isascii() and written.isdigit()) or len(written) > 9 or not 1 <= int(written) <= most:
        raise OptionError(word, f"a whole number from 1 to {most:,}", repr(written[:20]))
    return int(written)
