"""What goes over HTTP, defined once for server and client: paths, JSON bodies, problems, and binary vectors.

Binary vectors are sent as `application/octet-stream`; all numbers are little-endian, nothing is between the parts:

query       "ATLQ", u16 version, u16 0, u32 names d, u32 vectors m, u32 size k,
            d × u32 the names' lengths in bytes, the names in UTF-8, zeros up to a multiple of 4,
            m × k float32; one name for all vectors, or one for each
reply       "ATLR", u16 version, u16 0, u32 readouts m, u32 width w, u32 0, m × w float32;
            readouts of documents with fewer names than others are padded with zeros
"""

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec

from attar import results
from attar.errors import FormatError, OptionError, ShapeError
from attar.results import Answer, Change, Document, DocumentDetails, Hit

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

DOCUMENTS = "/v1/documents"  # and /v1/documents/{name}, /v1/documents/{name}/append
ASK, LOOKUP, MERGE, REMOVE, SEARCH = "/v1/ask", "/v1/lookup", "/v1/merge", "/v1/remove", "/v1/search"
FILES = "/v1/files"
JSON, MEDIA = "application/json", "application/octet-stream"
KEY_HEADER = "idempotency-key"

# The longest name and list that a request may have; a server's own limits on lists and texts are lower.
MAX_NAME, MAX_LIST = 10_000, 65_536

Name = Annotated[str, msgspec.Meta(max_length=MAX_NAME, description="a document's name")]
Names = Annotated[list[Name], msgspec.Meta(max_length=MAX_LIST)]
Title = Annotated[str, msgspec.Meta(max_length=1_000)]
Question = Annotated[
    str, msgspec.Meta(max_length=10_000, description="a sentence, perhaps with a blank: ___")
]
Text = Annotated[str, msgspec.Meta(description="at most --max-text characters")]
Vector = Annotated[list[float], msgspec.Meta(min_length=1, max_length=MAX_LIST)]
Top = Annotated[int, msgspec.Meta(ge=1, le=1_000, description="answers per question, at most; null: all")]
Numbers = list[float]
Value = TypeVar("Value")


class RequestBody(msgspec.Struct, forbid_unknown_fields=True):
    """Base of all request bodies: unknown fields are refused, because most are misspelled."""


class PutDocument(RequestBody):
    """A document: its text, a title, and whether it may replace another text under that name."""

    text: Text
    title: Title = ""
    replace: bool = True


class AppendText(RequestBody):
    """Text to append to a document."""

    text: Text


class Merge(RequestBody):
    """The name of the new document, and the documents to merge into it."""

    new: Name
    documents: Names
    title: Title = ""
    replace: bool = False


class Remove(RequestBody):
    """The documents to remove: all of them, or none if one does not exist."""

    documents: Names


class Ask(RequestBody):
    """A question about a document, or lists: one question per document, or one of either for all.

    Without any document, all documents are asked.
    """

    document: Name | None = None
    question: Question | None = None
    documents: Names | None = None
    questions: Annotated[list[Question], msgspec.Meta(max_length=MAX_LIST)] | None = None
    top: Top | None = 5

    @property
    def single(self) -> bool:
        """Whether it is one question, about one document or all, which gets the `Answers` reply."""
        return self.documents is None and self.questions is None

    @property
    def asks_all(self) -> bool:
        """Whether no document is given: all are asked."""
        return self.document is None and self.documents is None

    def pairs(self) -> tuple[list[str], list[str]]:
        """Documents' names and questions, of equal length.

        >>> Ask(document="emma", questions=["Who left?", "Who came?"]).pairs()
        (['emma', 'emma'], ['Who left?', 'Who came?'])
        """
        if self.asks_all:
            return _paired("question", "", None, self.question, self.questions)
        return _paired("question", self.document, self.documents, self.question, self.questions)


class Lookup(RequestBody):
    """A raw vector for a document, or lists: one vector per document, or one of either for all."""

    document: Name | None = None
    vector: Vector | None = None
    documents: Names | None = None
    vectors: Annotated[list[Vector], msgspec.Meta(max_length=MAX_LIST)] | None = None

    @property
    def single(self) -> bool:
        """Whether it is one vector for one document, which gets the `Readout` reply."""
        return self.documents is None and self.vectors is None

    def pairs(self) -> tuple[list[str], list[Numbers]]:
        """Documents' names and vectors, of equal length."""
        return _paired("vector", self.document, self.documents, self.vector, self.vectors)


class Explain(RequestBody):
    """A question, and a text or a document whose text is kept."""

    question: Question
    text: Text | None = None
    document: Name | None = None


class Compare(RequestBody):
    """The document whose lookup is compared with softmax attention over as many states."""

    document: Name


class Search(RequestBody):
    """A query to rank all documents by."""

    query: Question
    top: Annotated[int, msgspec.Meta(ge=1, le=1_000, description="documents, at most")] = 10


class Hits(msgspec.Struct, omit_defaults=True):
    """The documents that fit a query best, best first, and the seconds the server took; `missing` as in `Answers`."""

    query: str
    hits: list[Hit]
    seconds: float
    missing: list[str] = []


class Result(msgspec.Struct):
    """The answers to one of several questions, most likely first; without a document if all were asked."""

    document: str | None
    question: str
    answers: list[Answer]


class Answers(Result, omit_defaults=True):
    """The answers to a single question, the seconds the server took, and the bytes of memory read.

    `missing`: parts of the library that could not be asked, such as "shard 1"; their documents are not in the answers.
    """

    seconds: float
    bytes: int
    missing: list[str] = []


class ManyAnswers(msgspec.Struct, omit_defaults=True):
    """The answers to each question, in order; `missing` as in `Answers`."""

    results: list[Result]
    seconds: float
    bytes: int
    missing: list[str] = []


class Readout(msgspec.Struct):
    """What one lookup returned."""

    document: str
    readout: Numbers
    seconds: float
    bytes: int


class Readouts(msgspec.Struct):
    """What each lookup returned, in order."""

    readouts: list[Numbers]
    seconds: float
    bytes: int


class Explanation(results.Explanation, frozen=True):
    """A text's tokens, each token's weight for the question, the answers, and the seconds the server took."""

    seconds: float


class Cost(msgspec.Struct):
    """What one lookup took: the median of several measured times, and the bytes read."""

    seconds: float
    bytes: int


class Comparison(msgspec.Struct):
    """What a lookup in a document's memory took, and one by softmax over as many states, both measured."""

    document: str
    tokens: int
    size: int
    lookup: Cost
    softmax: Cost


class Picture(msgspec.Struct):
    """A memory's numbers as rows, labelled where each row belongs to a name; large memories are subsampled."""

    rows: int
    columns: int
    labels: list[str]
    values: list[Numbers]


class ShownDocument(DocumentDetails, frozen=True):
    """One document in full; `memory` only if the request asks for it."""

    memory: Picture | None = None


class Changes(msgspec.Struct):
    """What happened to each document of a file."""

    changes: list[Change]


class Page(msgspec.Struct, omit_defaults=True):
    """Some documents in the order of names, the `after` of the next page, and the count of all documents.

    `missing` as in `Answers`: documents of these parts are neither listed nor counted.
    """

    documents: list[Document]
    next: str | None
    total: int
    missing: list[str] = []


class Problem(msgspec.Struct, omit_defaults=True):
    """An error (RFC 9457); `kind` is the class of the error in Python, `instance` the request's id."""

    title: str
    status: int
    detail: str
    type: str = "about:blank"
    kind: str = ""
    instance: str = ""


def _paired(
    word: str, name: str | None, names: list[str] | None, value: Value | None, values: list[Value] | None
) -> tuple[list[str], list[Value]]:
    """Names and values of equal length, each given once or as a list; a single one is repeated for all."""
    for each, one, many in (("document", name, names), (word, value, values)):
        if (one is None) == (many is None):
            raise OptionError(each, f'"{each}" or "{each}s"', "neither" if one is None else "both")
    names = [name] if name is not None else names or []
    values = [value] if value is not None else values or []
    if not names or not values:
        raise OptionError(f"{word}s", "at least one, and a document", "none")
    names = names * len(values) if len(names) == 1 else names
    values = values * len(names) if len(values) == 1 else values
    if len(names) != len(values):
        raise ShapeError(f"{word}s", f"one for each of {len(names)} documents", str(len(values)))
    return names, values


_VERSION, HEADER = 1, struct.Struct("<4sHHIII")
_QUERY, _REPLY = b"ATLQ", b"ATLR"


def pack_queries(names: Sequence[str], vectors: "NDArray[Any]") -> bytes:
    """The body that asks for the readouts of vectors `[m, k]`."""
    # Here and below: numpy loads with the first vector, so that a client without vectors loads nothing heavy.
    import numpy as np

    q = np.ascontiguousarray(vectors, "<f4")
    if q.ndim != 2:
        raise ShapeError("vectors", "[m, k]", str(list(q.shape)))
    try:
        encoded = [name.encode() for name in names]
    except UnicodeEncodeError:
        raise OptionError("names", "text", "half of a surrogate pair", "rename it") from None
    lengths, text = struct.pack(f"<{len(encoded)}I", *map(len, encoded)), b"".join(encoded)
    head = HEADER.pack(_QUERY, _VERSION, 0, len(encoded), *q.shape)
    return b"".join((head, lengths, text, bytes(-len(text) % 4), q.tobytes()))


def unpack_queries(body: bytes, limit: int) -> "tuple[list[str], Floats]":
    """The names and the vectors `[m, k]` of a body, at most `limit` of each; a body that is cut is refused.

    >>> import numpy as np
    >>> names, vectors = unpack_queries(pack_queries(["emma"], np.ones((1, 2))), 10)
    >>> names, vectors.tolist()
    (['emma'], [[1.0, 1.0]])
    """
    import numpy as np

    d, m, k = _counts_in(body, _QUERY)
    if m > limit or d > limit:
        raise OptionError("vectors", f"at most {limit:,} per request", f"{max(d, m):,}", "send them in parts")
    if d not in (1, m) or not m or not k:
        expected = "one name for all vectors or one for each, and vectors of size 1 or more"
        raise ShapeError("vectors", expected, f"{d} names, {m} vectors of size {k}")
    at = HEADER.size + 4 * d
    if len(body) < at:
        raise _wrong_length(at, body)
    lengths = struct.unpack_from(f"<{d}I", body, HEADER.size)
    vectors_at = at + sum(lengths) + -sum(lengths) % 4
    if len(body) != vectors_at + 4 * m * k:
        raise _wrong_length(vectors_at + 4 * m * k, body)
    names = []
    for length in lengths:
        try:
            names.append(body[at : at + length].decode())
        except UnicodeDecodeError as fault:
            raise FormatError("names", "UTF-8", f"the byte 0x{body[at + fault.start]:02x}") from fault
        at += length
    return names, np.frombuffer(body, "<f4", m * k, vectors_at).reshape(m, k)


def pack_readouts(readouts: "Floats") -> bytes:
    """The body that replies with readouts `[m, w]`."""
    import numpy as np

    head = HEADER.pack(_REPLY, _VERSION, 0, *readouts.shape, 0)
    return head + np.ascontiguousarray(readouts, "<f4").tobytes()


def unpack_readouts(body: bytes) -> "Floats":
    """The readouts `[m, w]` of a reply.

    >>> import numpy as np
    >>> unpack_readouts(pack_readouts(np.ones((1, 2), np.float32))).tolist()
    [[1.0, 1.0]]
    """
    import numpy as np

    m, w, _ = _counts_in(body, _REPLY)
    if len(body) != HEADER.size + 4 * m * w:
        raise _wrong_length(HEADER.size + 4 * m * w, body)
    return np.frombuffer(body, "<f4", m * w, HEADER.size).reshape(m, w)


def _counts_in(body: bytes, magic: bytes) -> tuple[int, int, int]:
    """The three counts in a body's header."""
    if len(body) < HEADER.size:
        raise _wrong_length(HEADER.size, body)
    found, version, zero, a, b, c = HEADER.unpack_from(body)
    if (found, version, zero) != (magic, _VERSION, 0):
        expected, came = f"{magic!r}, version {_VERSION}", f"{found!r}, version {version}"
        raise FormatError("vectors", expected, came, "see attar.wire for the format")
    return a, b, c


def _wrong_length(expected: int, body: bytes) -> FormatError:
    """The error for a body whose length differs from what its header says."""
    return FormatError("vectors", f"{expected:,} bytes, as the header says", f"{len(body):,}")
