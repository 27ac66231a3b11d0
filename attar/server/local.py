"""The backend of one library, whose store is opened by this process."""

import contextlib
import os
import tempfile
import timeit
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

import msgspec
import numpy as np

from attar import wire
from attar.errors import AttarError, FormatError, OptionError, ShapeError
from attar.library.drafts import Draft
from attar.library.finding import similar_names
from attar.library.library import Library
from attar.memory.forms import Floats, look_up_hidden
from attar.memory.memory import Memory
from attar.results import Answer, Change, Explanation, Hit
from attar.server.backend import AskJob, AskResult, Listed, LookupJob, LookupResult, Partial
from attar.server.batching import isolate_failures
from attar.server.problems import ProblemError
from attar.server.requests import all_finite
from attar.store.maintenance import Stats
from attar.store.store import Store
from attar.store.transactions import Snapshot
from attar.wire import Comparison, Cost

# Lookups in memories of at most this size run on the event loop. Waking a thread for them would take longer.
_INLINE_BYTES = 2**19
# Bytes of random states that a comparison may allocate.
_MAX_STATES = 2**29
_ROUNDS = 9
# The free bytes on disk that a ready server needs: room for some documents.
_DISK_BYTES = 2**20
# No screen shows a larger heat map.
_MAX_ROWS, _MAX_COLUMNS = 256, 512


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

    def look_up(self, jobs: list[LookupJob]) -> list[LookupResult | Exception]:
        """The result of each job of a batch, or its error."""
        return [result for job in jobs if (result := _look_up(self.library.store, job)) is not None]

    def look_up_now(self, job: LookupJob) -> LookupResult | None:
        """The result of a job whose memories are small."""
        result = _look_up(self.library.store, job, max_bytes=_INLINE_BYTES)
        if isinstance(result, Exception):
            raise result
        return result

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

    def show(self, name: str, with_memory: bool) -> wire.ShownDocument:
        """One document in full."""
        fields = msgspec.structs.asdict(self.library.show(name))
        picture = _picture(self.library.memory(name)) if with_memory else None
        return wire.ShownDocument(**fields, memory=picture)

    def explain(self, text: str | None, document: str | None, question: str) -> Explanation:
        """The weight of each token of a text, or of a document's text, for a question."""
        if document is not None:
            text = self.library.show(document).text
            if text is None:
                remedy = "send the text itself, or serve without --no-text and add it again"
                what = f"document {document!r}"
                raise FormatError.expected(what, "one whose text is kept", "its memory alone", remedy)
        return self.library.reader.explain(text or "", question)

    def compare(self, name: str) -> Comparison:
        """What a lookup in a document's memory takes, and one by softmax over as many states."""
        return compare_costs(name, self.library.memory(name))

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
                sizes[name] = len(snapshot.view(name))
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


def _look_up(store: Store, job: LookupJob, max_bytes: int | None = None) -> LookupResult | Exception | None:
    """The result of a job, or its error; None if its memories have more than `max_bytes`."""
    try:
        with store.snapshot() as snapshot:
            # Packed replies do not report it, and sizing a thousand memories takes as long as the lookups.
            is_sized = max_bytes is not None or not job.packed
            read = sum(len(snapshot.view(name)) for name in set(job.names)) if is_sized else 0
            if max_bytes is not None and read > max_bytes:
                return None
            readouts = _readouts(snapshot, job)
    except Exception as error:
        return error
    finite = all_finite(readouts) if isinstance(readouts, np.ndarray) else all(map(all_finite, readouts))
    if not finite:
        return OptionError.expected("vectors", "numbers whose readouts fit into float32", "larger ones")
    return LookupResult(readouts, read)


def _readouts(snapshot: Snapshot, job: LookupJob) -> Sequence[Floats] | Floats:
    """One readout per vector; packed ones as one array, the narrower padded with zeros."""
    names, vectors, packed = job
    if len(names) == 1:
        return snapshot.lookup(names[0], vectors)
    if packed:
        # Raised where widths differ, or a size is wrong: the lookups one by one below handle both.
        with contextlib.suppress(ShapeError):
            return snapshot.lookup_many(names, vectors)
    each = [snapshot.lookup(name, vector[None])[0] for name, vector in zip(names, vectors, strict=True)]
    if not packed:
        return each
    padded = np.zeros((len(each), max(map(len, each))), np.float32)
    for row, readout in zip(padded, each, strict=True):
        row[: len(readout)] = readout
    return padded


def compare_costs(name: str, memory: Memory) -> Comparison:
    """Measure one lookup in a memory, and one by softmax over as many random states as it has tokens.

    >>> memory = Memory.of("linear", np.eye(2), tokens=3, reader="r")
    >>> comparison = compare_costs("emma", memory)
    >>> comparison.lookup.bytes, comparison.softmax.bytes
    (12, 24)
    """
    k, n = memory.size, memory.tokens
    if 4 * n * k > _MAX_STATES:
        expected = f"a document of at most {_MAX_STATES // (4 * k):,} tokens, whose states fit into memory"
        raise OptionError.expected(f"document {name!r}", expected, f"{n:,}")
    random = np.random.default_rng(0)
    query = random.standard_normal((1, k), np.float32)
    H = random.standard_normal((n, k), np.float32)
    # The form in which the cache holds it.
    ready = memory.astype("float32")
    lookup = _median_seconds(lambda: ready.lookup(query))
    softmax = _median_seconds(lambda: look_up_hidden(H, query))
    return Comparison(name, n, k, Cost(lookup, ready.nbytes), Cost(softmax, H.nbytes))


def _median_seconds(call: Callable[[], object]) -> float:
    call()
    return median(timeit.repeat(call, number=1, repeat=_ROUNDS))


def _picture(memory: Memory) -> wire.Picture:
    """The numbers of a memory as a heat map, one row per phrase or name where it has them; sampled if there are many.

    >>> _picture(Memory.of("linear", np.eye(2), tokens=3, reader="r")).values
    [[1.0, 0.0], [0.0, 1.0]]
    """
    values: Floats = np.atleast_2d(memory.array())
    rows, columns = values.shape
    shown_rows, shown_columns = _sampled(rows, _MAX_ROWS), _sampled(columns, _MAX_COLUMNS)
    labels = [memory.names.names[at] for at in shown_rows] if memory.form == "names" else []
    if memory.phrases is not None:
        labels = [memory.phrases.text_of(at) for at in shown_rows]
    # Four digits are more than a colour has.
    shown = [
        [float(f"{value:.4g}") for value in row] for row in values[np.ix_(shown_rows, shown_columns)].tolist()
    ]
    return wire.Picture(rows, columns, labels, shown)


def _sampled(count: int, most: int) -> list[int]:
    """At most `most` of `count` indices, evenly spaced.

    >>> _sampled(3, 5), _sampled(10, 5)
    ([0, 1, 2], [0, 2, 4, 6, 8])
    """
    return list(range(count)) if count <= most else [at * count // most for at in range(most)]
