"""What a server needs of a library: the backend of `Service`, over one store here, over shards in `attar.cluster`.

Methods block; the service calls them on its executors. What a library of several parts could not answer, because a part
is not running, is named in `Partial.missing`.
"""

from collections.abc import Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from attar import wire
from attar.library.drafts import Draft
from attar.results import Answer, Change, Document, DocumentDetails, Hit
from attar.store.maintenance import Stats

Value = TypeVar("Value")


class AskJob(NamedTuple):
    """The questions of one request, each with the name of its document."""

    names: list[str]
    questions: list[str]
    top: int | None


class AskResult(NamedTuple):
    """The answers to each question, and the bytes of the memories that were read."""

    answers: list[list[Answer]]
    bytes: int


class Partial(NamedTuple, Generic[Value]):
    """A result from all documents, and the parts of the library that are missing in it."""

    value: Value
    missing: list[str]


class Listed(NamedTuple):
    """Some documents in the order of names, and the count of all."""

    documents: list[Document]
    total: int


class Backend(Protocol):
    """A library as a server needs it; changes, and their errors, are those of `Library`."""

    def prepare(self) -> None:
        """Load the reader."""

    def prepare_search(self) -> None:
        """Load the signatures: of a million documents, this takes half a minute."""

    def answer(self, jobs: list[AskJob]) -> list[AskResult | Exception]:
        """The result of each job of a batch, or its error; one job's error does not affect the others."""

    def ask_all(self, questions: Sequence[str], top: int | None) -> Partial[list[list[Answer]]]:
        """The answers to questions from all documents."""

    def search(self, query: str, top: int) -> Partial[list[Hit]]:
        """The documents that fit a query best."""

    def page(self, after: str | None, limit: int) -> Partial[Listed]:
        """Some documents in the order of names."""

    def show(self, name: str) -> DocumentDetails:
        """One document in full."""

    def add(self, name: str, text: str, title: str, replace: bool) -> Change:
        """Add a document."""

    def add_many(self, drafts: Sequence[Draft], replace: bool) -> list[Change]:
        """Add documents; those before a refused one are added."""

    def append(self, name: str, text: str, key: str | None) -> Change:
        """Continue a document."""

    def merge(self, body: wire.Merge, key: str | None) -> Change:
        """Make one document of several."""

    def remove(self, names: Sequence[str]) -> None:
        """Remove documents: all of them, or none if one does not exist."""

    def similar(self, name: str) -> list[str] | None:
        """Names like one that no document has; None if there is a document of that name."""

    def stats(self) -> Stats:
        """Totals, for operators."""

    def fingerprint(self) -> str:
        """The reader's."""

    def check_disk(self) -> None:
        """Refuse if the disk cannot be written."""

    def close(self) -> None:
        """Close the library."""
