"""What a server needs of a library: `Library` has it, and so has one in shards (`attar.cluster`).

A library in shards goes on without a shard that is not running. Inside `collect_missing`, callers get the answers of
the other shards and the names of the missing ones; elsewhere, a missing shard is an error.
"""

import os
import tempfile
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import TypeVar

from attar.errors import UnavailableError
from attar.library.asking import ask_all_many, list_answers
from attar.library.documents import AskedByName
from attar.library.drafts import Draft
from attar.library.finding import search, verify
from attar.library.shard import EachShard
from attar.progress import Progress, ignore_progress
from attar.results import (
    Answer,
    AnswerGroup,
    Change,
    Document,
    DocumentDetails,
    Hit,
    Subset,
    Verified,
)
from attar.store.store import Stats

# The free bytes on disk that a ready server needs: room for some documents.
_DISK_BYTES = 2**20

Result = TypeVar("Result")


class ServedLibrary(AskedByName):
    """The methods of `Library` that a server calls; they block."""

    # Whether a device answers questions.
    has_bank = False

    @abstractmethod
    def _ask_shards(self, ask: Callable[[EachShard], Result]) -> Result:
        """Take the steps of a question to all documents, in every shard."""

    def ask_all(
        self,
        question: str,
        *,
        top: int | None = 5,
        look: int | None = None,
        within: Subset | None = None,
    ) -> list[Answer]:
        """The most likely answers from all documents, each with its document; the kind "none": not in this library.

        Search finds documents, their phrases answer. Probabilities are over the phrases of all found documents. With
        `within`, only the documents of a subset are asked.
        """
        return self.ask_all_many([question], top=top, look=look, within=within)[0]

    def ask_all_many(
        self,
        questions: Sequence[str],
        *,
        top: int | None = 5,
        look: int | None = None,
        within: Subset | None = None,
    ) -> list[list[Answer]]:
        """The answers to each question from all documents, as `ask_all` gives them; many are compared together."""
        return ask_all_many(self._ask_shards, questions, top, look, within)

    def list_answers(
        self,
        question: str,
        *,
        top: int | None = None,
        look: int | None = None,
        within: Subset | None = None,
    ) -> list[AnswerGroup]:
        """All places that answer a question about as likely as the best one, grouped by answer, the likeliest first.

        For questions with several answers, and for how many documents say one. The thirty documents that fit best are
        looked through; `top` is the number of groups. Empty if the answer is not in this library.
        """
        return self._ask_shards(partial(list_answers, question=question, top=top, look=look, within=within))

    def search(
        self, query: str, *, top: int = 10, within: Subset | None = None, passages: bool = False
    ) -> list[Hit]:
        """The documents that fit a query best, best first, each with its sentences that fit best.

        With `passages`, also with the paragraphs around these: enough for a language model to answer from.
        """
        return self._ask_shards(partial(search, query=query, top=top, within=within, passages=passages))

    def verify(self, quote: str, *, within: Subset | None = None) -> Verified:
        """Whether a document says a sentence, word for word or with a few words changed, and where.

        Case, punctuation, spaces and the kind of quotation marks do not count; one word in four may differ. The texts
        of the twenty documents that fit best are compared.
        """
        return self._ask_shards(partial(verify, quote=quote, within=within))

    @abstractmethod
    def defer_signatures(self) -> None:
        """Search without waiting for missing signatures.

        Until `make_signatures` is done, documents are ranked by their words alone.
        """

    @abstractmethod
    def make_signatures(self, *, progress: Progress = ignore_progress) -> None:
        """Load the signatures of all documents: of a million, this takes half a minute; make those that are missing.

        They are made of texts; searching and asking all do it when they need them.
        """

    @abstractmethod
    def add_many(
        self,
        documents: Iterable[tuple[str, str] | Draft],
        *,
        replace: bool = False,
        on_change: Callable[[Change], None] | None = None,
        progress: Progress = ignore_progress,
    ) -> list[Change]:
        """Add documents, in order: those before a refused one are added."""

    @abstractmethod
    def append(
        self, name: str, text: str | Draft, *, key: str | None = None, progress: Progress = ignore_progress
    ) -> Change:
        """Continue a document: its memory becomes that of both texts, read as one.

        A `key` names the change: to append the same text with the same key again changes nothing.
        """

    @abstractmethod
    def merge(
        self,
        new: str,
        names: Iterable[str],
        *,
        title: str = "",
        replace: bool = False,
        key: str | None = None,
    ) -> Change:
        """Make one document of several, which stay; a merge with the same `key` again changes nothing."""

    @abstractmethod
    def remove(self, *names: str) -> None:
        """Remove documents: all of them, or none if one does not exist."""

    @abstractmethod
    def tag(self, *names: str, add: Sequence[str] = (), remove: Sequence[str] = ()) -> None:
        """Add tags to documents, and take others away: of all of them, or of none if one does not exist."""

    @abstractmethod
    def documents(
        self, *, after: str | None = None, limit: int | None = None, within: Subset | None = None
    ) -> Iterator[Document]:
        """Yield documents in the order of names, only those after `after`, at most `limit`, all or of a subset."""

    @abstractmethod
    def show(self, name: str) -> DocumentDetails:
        """One document in full, with its text if it is kept."""

    @abstractmethod
    def __contains__(self, name: str) -> bool: ...

    @abstractmethod
    def __len__(self) -> int: ...

    @property
    @abstractmethod
    def default_look(self) -> int:
        """How many sentences a question reads again unless it says so; 0 if the reader has no second look."""

    @abstractmethod
    def prepare(self) -> None:
        """Load what the first question would wait for, and the first text if the library is written to."""

    @abstractmethod
    def stats(self) -> Stats:
        """Totals, for operators."""

    @abstractmethod
    def check_disk(self) -> None:
        """Refuse if the disk cannot be written."""

    @abstractmethod
    def close(self) -> None:
        """Close what is open; everything added is on disk already."""


_collected: ContextVar[list[str] | None] = ContextVar("missing", default=None)


@contextmanager
def collect_missing() -> Iterator[list[str]]:
    """Let calls inside go on without the parts of a library that are not running; they are named in the list.

    >>> with collect_missing() as missing:
    ...     report_missing(["shard 1"])
    >>> missing
    ['shard 1']
    """
    missing: list[str] = []
    token = _collected.set(missing)
    try:
        yield missing
    finally:
        _collected.reset(token)


def report_missing(parts: Sequence[str]) -> None:
    """Name parts that are missing in a result, or refuse it if nobody collects them."""
    collected = _collected.get()
    if collected is not None:
        collected += (part for part in parts if part not in collected)
    elif parts:
        raise UnavailableError(f"{', '.join(parts)} of the library cannot be asked now", "try again")


def check_disk(folder: Path) -> None:
    """Refuse a folder on a disk that cannot be written: a file without a name is written, and deleted."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, _DISK_BYTES)
            file.write(b"attar")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise UnavailableError(f"the disk of the library cannot be written: {reason}") from error
