"""What a server needs of a library: `Library` has it, and so has one in shards (`attar.cluster`).

A library in shards goes on without a shard that is not running. Who can use the rest collects what is missing; anybody
else gets an error.
"""

import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Protocol

from attar.errors import AttarError, UnavailableError
from attar.library.drafts import Draft
from attar.progress import Progress, ignore_progress
from attar.results import Answer, AnswerGroup, Asked, Change, Document, DocumentDetails, Hit, Subset, Verified
from attar.store.maintenance import Stats

# The free bytes on disk that a ready server needs: room for some documents.
_DISK_BYTES = 2**20


class ServedLibrary(Protocol):
    """The methods of `Library` that a server calls; they block."""

    @property
    def default_look(self) -> int:
        """How many sentences a question reads again unless it says so; 0 if the reader has no second look."""

    def prepare(self) -> None:
        """Load what the first question would wait for, and the first text if the library is written to."""

    def load_signatures(self) -> None:
        """Load the signatures of all documents into memory: of a million documents, this takes half a minute."""

    def defer_signatures(self) -> None:
        """Let searches not wait for missing signatures: until `make_signatures`, words find their documents."""

    def make_signatures(self, *, progress: Progress = ignore_progress) -> None:
        """Make the signatures that are missing; `progress` is called if there are any."""

    def ask_each(
        self,
        names: Sequence[str],
        questions: Sequence[str],
        *,
        top: int | None = 5,
        look: int | None = None,
    ) -> list[Asked | AttarError]:
        """The answers to each question, or its error, which does not affect the others."""

    def ask_all_many(
        self,
        questions: Sequence[str],
        *,
        top: int | None = 5,
        look: int | None = None,
        within: Subset | None = None,
    ) -> list[list[Answer]]: ...

    def list_answers(
        self,
        question: str,
        *,
        top: int | None = None,
        look: int | None = None,
        within: Subset | None = None,
    ) -> list[AnswerGroup]: ...

    def search(
        self, query: str, *, top: int = 10, within: Subset | None = None, passages: bool = False
    ) -> list[Hit]: ...

    def verify(self, quote: str, *, within: Subset | None = None) -> Verified: ...

    def add_many(
        self,
        documents: Iterable[tuple[str, str] | Draft],
        *,
        replace: bool = False,
        progress: Progress = ignore_progress,
    ) -> list[Change]: ...

    def append(
        self, name: str, text: str | Draft, *, key: str | None = None, progress: Progress = ignore_progress
    ) -> Change: ...

    def merge(
        self,
        new: str,
        names: Iterable[str],
        *,
        title: str = "",
        replace: bool = False,
        key: str | None = None,
    ) -> Change: ...

    def remove(self, *names: str) -> None: ...

    def tag(self, *names: str, add: Sequence[str] = (), remove: Sequence[str] = ()) -> None: ...

    def documents(
        self, *, after: str | None = None, limit: int | None = None, within: Subset | None = None
    ) -> Iterator[Document]: ...

    def show(self, name: str) -> DocumentDetails: ...

    def similar(self, name: str) -> list[str] | None:
        """Names like one that no document has; None if there is a document of that name."""

    def stats(self) -> Stats:
        """Totals, for operators."""

    def check_disk(self) -> None:
        """Refuse if the disk cannot be written."""

    def __contains__(self, name: str) -> bool: ...

    def __len__(self) -> int: ...

    def close(self) -> None: ...


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
