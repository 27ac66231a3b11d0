"""The backend of one library, whose store is opened by this process."""

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from attar import wire
from attar.errors import AttarError
from attar.library.drafts import Draft
from attar.library.finding import similar_names
from attar.library.library import Library
from attar.results import Answer, Change, DocumentDetails, Hit
from attar.server.backend import AskJob, AskResult, Listed, Partial
from attar.server.batching import isolate_failures
from attar.server.problems import ProblemError
from attar.store.maintenance import Stats

# The free bytes on disk that a ready server needs: room for some documents.
_DISK_BYTES = 2**20


class LibraryBackend:
    """The backend of one library."""

    def __init__(self, library: Library) -> None:
        self.library = library

    def prepare(self) -> None:
        """Load the reader; one that only answers needs no torch."""
        self.library.reader.prepare(texts=not self.library.store.read_only)

    def prepare_search(self) -> None:
        """Load the signatures."""
        self.library.load_signatures()

    def answer(self, jobs: list[AskJob]) -> list[AskResult | Exception]:
        """The result of each job of a batch, or its error."""
        return _answer_jobs(self.library, jobs)

    def ask_all(self, questions: Sequence[str], top: int | None) -> Partial[list[list[Answer]]]:
        """The answers to questions from all documents."""
        return Partial(self.library.ask_all_many(questions, top=top), [])

    def search(self, query: str, top: int) -> Partial[list[Hit]]:
        """The documents that fit a query best."""
        return Partial(self.library.search(query, top=top), [])

    def page(self, after: str | None, limit: int) -> Partial[Listed]:
        """Some documents in the order of names."""
        library = self.library
        return Partial(Listed([*library.documents(after=after, limit=limit)], len(library)), [])

    def show(self, name: str) -> DocumentDetails:
        """One document in full."""
        return self.library.show(name)

    def add(self, name: str, text: str, title: str, replace: bool) -> Change:
        """Add a document."""
        return self.library.add(name, text, title=title, replace=replace)

    def add_many(self, drafts: Sequence[Draft], replace: bool) -> list[Change]:
        """Add documents; those before a refused one are added."""
        return self.library.add_many(drafts, replace=replace)

    def append(self, name: str, text: str, key: str | None) -> Change:
        """Continue a document."""
        return self.library.append(name, text, key=key)

    def merge(self, body: wire.Merge, key: str | None) -> Change:
        """Make one document of several."""
        new, names = body.new, body.documents
        return self.library.merge(new, names, title=body.title, replace=body.replace, key=key)

    def remove(self, names: Sequence[str]) -> None:
        """Remove documents: all of them, or none if one does not exist."""
        self.library.remove(*names)

    def similar(self, name: str) -> list[str] | None:
        """Names like one that no document has; None if there is a document of that name."""
        return None if name in self.library else similar_names(self.library.store, name)

    def stats(self) -> Stats:
        """Totals, for operators."""
        return self.library.store.stats()

    def fingerprint(self) -> str:
        """The reader's."""
        return self.library.reader.fingerprint

    def check_disk(self) -> None:
        """Refuse if the disk cannot be written."""
        _check_disk(self.library.store.path)

    def close(self) -> None:
        """Close the library."""
        self.library.close()


def _check_disk(folder: Path) -> None:
    """Write a file without a name, as large as a document may be, and delete it."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, _DISK_BYTES)
            file.write(b"attar")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        came = (error.strerror or type(error).__name__).lower()
        detail = f"store: expected a disk that can be written, got an error: {came}"
        raise ProblemError(503, detail, server_fault=True) from error


def _answer_jobs(library: Library, jobs: list[AskJob]) -> list[AskResult | Exception]:
    """The result of each job of a batch, or its error; one job's error does not affect the others."""
    # Unknown names are found before asking: the library would search for similar names while the batch waits.
    sizes: dict[str, int | AttarError] = {}
    with library.store.snapshot() as snapshot:
        for name in {name for job in jobs for name in job.names}:
            try:
                sizes[name] = snapshot.entry(name).memory_bytes
            except AttarError as error:
                sizes[name] = error

    def first_error(job: AskJob) -> AttarError | None:
        return next((size for name in job.names if isinstance(size := sizes[name], AttarError)), None)

    def answer(valid: list[AskJob]) -> list[AskResult]:
        names = [name for job in valid for name in job.names]
        questions = [question for job in valid for question in job.questions]
        tops = [job.top for job in valid]
        top = None if None in tops else max(each for each in tops if each is not None)
        answers = iter(library.ask_many(names, questions, top=top))
        results = []
        for job in valid:
            read = sum(size for name in set(job.names) if isinstance(size := sizes[name], int))
            results.append(AskResult([next(answers)[: job.top] for _ in job.questions], read))
        return results

    errors = [first_error(job) for job in jobs]
    valid = [job for job, error in zip(jobs, errors, strict=True) if error is None]
    results = iter(isolate_failures(answer)(valid) if valid else [])
    return [next(results) if error is None else error for error in errors]
