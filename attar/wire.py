"""What goes over HTTP as JSON, defined once for server and client: paths, bodies of requests and replies, problems."""

from datetime import date, datetime
from typing import Annotated, Literal

import msgspec

from attar.options import MOST_LOOK
from attar.results import (
    LONGEST_QUESTION,
    Answer,
    AnswerGroup,
    Change,
    Document,
    Hit,
    Subset,
    Verified,
)

DOCUMENTS = "/v1/documents"  # and /v1/documents/{name}, /v1/documents/{name}/append
ANSWERS = "/v1/answers"
ASK = "/v1/ask"
FILES = "/v1/files"
JOBS = "/v1/jobs"  # and /v1/jobs/{id}
MERGE = "/v1/merge"
REMOVE = "/v1/remove"
SEARCH = "/v1/search"
TAG = "/v1/tag"
VERIFY = "/v1/verify"
STATUS = "/v1/status"
JSON = "application/json"
MEDIA = "application/octet-stream"
FORM = "multipart/form-data"
# A change with a key that was made before is not made again.
KEY_HEADER = "idempotency-key"

# The longest name that a request may have.
MAX_NAME = 10_000
# The longest question or query, in characters.
MAX_QUESTION = 2_000
# The longest list; a server's own limits on lists and texts are lower.
MAX_LIST = 65_536

Name = Annotated[str, msgspec.Meta(max_length=MAX_NAME, description="a document's name")]
Names = Annotated[list[Name], msgspec.Meta(max_length=MAX_LIST)]
Title = Annotated[str, msgspec.Meta(max_length=1_000)]
Question = Annotated[str, msgspec.Meta(max_length=MAX_QUESTION, description="a question in plain words")]
Text = Annotated[str, msgspec.Meta(description="at most --max-text characters")]
Look = Annotated[
    int,
    msgspec.Meta(ge=0, le=MOST_LOOK, description="sentences read again with the question; null: the default"),
]
Top = Annotated[int, msgspec.Meta(ge=1, le=1_000, description="answers per question, at most; null: all")]


class RequestBody(msgspec.Struct, forbid_unknown_fields=True):
    """Base of all request bodies: unknown fields are refused, because most are misspelled."""


class PutDocument(RequestBody):
    """A document: its text, a title, and whether it may replace another text under that name.

    Without `tags` or `metadata` it keeps those that it has.
    """

    text: Text
    title: Title = ""
    replace: bool = True
    tags: list[str] | None = None
    metadata: dict[str, str] | None = None


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


class Tag(RequestBody):
    """Documents, the tags that all of them get, and those that are taken away."""

    documents: Names
    add: list[str] = []
    remove: list[str] = []


class Ask(RequestBody):
    """A question about a document, or lists: one question per document, or one of either for all.

    Without any document, all documents are asked, or those of the subset `within`.
    """

    document: Name | None = None
    question: Question | None = None
    documents: Names | None = None
    questions: Annotated[list[Question], msgspec.Meta(max_length=MAX_LIST)] | None = None
    top: Top | None = 5
    look: Look | None = None
    within: Subset | None = None


class ListAnswers(RequestBody):
    """A question, to find all places of all documents that answer it, or of those of a subset."""

    question: Question
    top: Annotated[int, msgspec.Meta(ge=1, le=1_000, description="answers, at most; null: all")] | None = None
    look: Look | None = None
    within: Subset | None = None


class Search(RequestBody):
    """A query to rank all documents by, or those of a subset."""

    query: Question
    top: Annotated[int, msgspec.Meta(ge=1, le=1_000, description="documents, at most")] = 10
    within: Subset | None = None
    passages: Annotated[bool, msgspec.Meta(description="also the paragraphs around the best sentences")] = (
        False
    )


class Verify(RequestBody):
    """A sentence to look for in all documents, or in those of a subset."""

    quote: Annotated[str, msgspec.Meta(max_length=LONGEST_QUESTION, description="a sentence to look for")]
    within: Subset | None = None


class ListQuery(msgspec.Struct, rename={"names": "name", "folder": "in", "tags": "tag"}):
    """Which documents are listed, and at most how many."""

    after: Annotated[str, msgspec.Meta(description="only names after this one")] = ""
    limit: Annotated[int, msgspec.Meta(ge=1, le=1_000, description="at most this many documents")] = 100
    contains: Annotated[
        str, msgspec.Meta(description="only those whose name or title contains this, in any case")
    ] = ""
    names: Annotated[tuple[str, ...], msgspec.Meta(description="only these documents")] = ()
    folder: Annotated[str, msgspec.Meta(description="only documents below this folder")] = ""
    tags: Annotated[tuple[str, ...], msgspec.Meta(description="only documents with all these tags")] = ()
    since: Annotated[date | None, msgspec.Meta(description="only documents with a date from this day on")] = (
        None
    )


class FileQuery(msgspec.Struct, rename={"tags": "tag"}):
    """How files are added."""

    name: Annotated[
        str,
        msgspec.Meta(
            max_length=MAX_NAME, description="the file's name; that of a form's only file if not its own"
        ),
    ] = ""
    replace: Annotated[
        Literal["0", "1"], msgspec.Meta(description="1: another text of that name is replaced")
    ] = "0"
    tags: Annotated[tuple[str, ...], msgspec.Meta(description="tags of its documents")] = ()
    source: Annotated[
        str,
        msgspec.Meta(
            max_length=MAX_NAME,
            description="where the file comes from: what comes from there again may replace it",
        ),
    ] = ""


class Searched(msgspec.Struct, omit_defaults=True, kw_only=True):
    """What all replies to questions have: the seconds the server took, and what the answers are without.

    `missing`: parts of the library that could not be asked, such as "shard 1"; their documents are not in the
    answers. `by_words`: how many signatures are still being made; until then, documents are found by their words
    (BM25) alone.
    """

    seconds: float
    missing: list[str] = []
    by_words: int = 0


class Verification(Verified, frozen=True, kw_only=True):
    """Whether documents say a quote; `seconds`, `missing` and `by_words` as in other replies."""

    quote: str
    seconds: float
    missing: list[str] = msgspec.field(default_factory=list)
    by_words: int = 0


class AnswerList(Searched):
    """The answers to a question with all their places, the likeliest first. Without any, no document has the answer."""

    question: str
    groups: list[AnswerGroup]


class Hits(Searched):
    """The documents that fit a query best, best first."""

    query: str
    hits: list[Hit]


class QuestionAnswers(msgspec.Struct):
    """The answers to one of several questions, most likely first; without a document if all were asked."""

    document: str | None
    question: str
    answers: list[Answer]


class Answers(Searched):
    """The answers to a single question, and the bytes of memory read; 0 if all documents were asked."""

    document: str | None
    question: str
    answers: list[Answer]
    bytes: int


class ManyAnswers(Searched):
    """The answers to each question, in order, and the bytes of memory read."""

    results: list[QuestionAnswers]
    bytes: int


class Changes(msgspec.Struct):
    """What happened to each document of a file."""

    changes: list[Change]


class Page(msgspec.Struct, omit_defaults=True):
    """Some documents in the order of names, the `after` of the next page, and the count of all documents.

    `missing`: documents of these parts are neither listed nor counted.
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


class Job(msgspec.Struct, omit_defaults=True):
    """A change that takes long: how far it is, the documents that are on disk, and the problem if it failed.

    `done` of `total` characters are read; `total` is 0 until it is known. What was added before a job is cancelled or
    fails stays.
    """

    id: str
    what: str
    state: Literal["waiting", "running", "done", "failed", "cancelled"]
    created: datetime
    done: int = 0
    total: int = 0
    changes: list[Change] = []
    problem: Problem | None = None

    @property
    def ended(self) -> bool:
        return self.state not in ("waiting", "running")


class JobList(msgspec.Struct):
    """All jobs that wait or run, and those that ended a short time ago; the oldest first."""

    jobs: list[Job]


class Signing(msgspec.Struct):
    """How many of the missing signatures are made."""

    done: int
    total: int


class Status(msgspec.Struct):
    """The library and its server: sizes, and questions answered since the start.

    `read_only`: this client cannot change the library. `signatures` says how many are made while some are missing.
    `look`: how many sentences a question reads again by default; 0 if the reader has no second look.
    """

    version: str
    reader: str
    read_only: bool
    documents: int
    memory_bytes: int
    file_bytes: int
    questions: int
    signatures: Signing | None
    look: int
