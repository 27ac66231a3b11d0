"""Refitting a library: the statistics of search are fitted to its own texts, and all signatures are made again.

The library answers and grows meanwhile; statistics and signatures are switched in one transaction. Documents that
others change until then get their signatures from their texts at the next search. The shards of a library are fitted
together: their statistics are one sum.
"""

import contextlib
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from attar.errors import FormatError, OptionError, RecordError, UnknownDocumentError, quoted
from attar.progress import Progress
from attar.results import Refit
from attar.search.records import ReaderEncoder, Signer, default_options, fitted_data, stored_options
from attar.search.signatures import SignatureOptions
from attar.search.statistics import Statistics, default_statistics
from attar.store.records import DocumentEntry, Fault, Record
from attar.store.store import Store
from attar.store.transactions import Transaction

if TYPE_CHECKING:
    from attar.reader.reader import Reader

# Characters of texts that are read together: some seconds of one process. Sums are added per batch and in order, so
# that they do not depend on how many processes read.
_BATCH = 2**15


class RefitReader:
    """Reads texts for refitting: for statistics, and then for signatures."""

    def __init__(self, reader: "Reader") -> None:
        self._encoder = ReaderEncoder(reader)
        self._signer: Signer | None = None

    def fit(self, texts: Sequence[str]) -> Statistics:
        """The statistics of texts."""
        encoder = self._encoder
        # A learned map belongs to the reader, whichever the documents are.
        own = default_statistics(encoder.fingerprint)
        learned = None if own is None else own.map
        statistics = Statistics.empty(
            encoder.fingerprint, size=encoder.size, pieces=encoder.pieces, map=learned
        )
        for text in texts:
            statistics = _with_text(statistics, encoder, text)
        return statistics

    def sign(self, texts: Sequence[str], fitted: bytes) -> list[bytes]:
        """The signatures of texts, made with statistics and options."""
        if self._signer is None or self._signer.data != fitted:
            statistics, options = stored_options(fitted)
            self._signer = Signer.of(self._encoder, Statistics.from_bytes(statistics), options)
        signer = self._signer
        return [signer.record(signer.sums(text), text_kept=True) for text in texts]


class RefitCalls(Protocol):
    """Calls of a `RefitReader`, in this process or in others."""

    def __call__(self, method: str, batches: Iterable[list[str]], *shared: Any) -> Iterator[Any]:
        """The results of a method for batches of texts, in their order; each call gets the `shared` arguments."""


def calls_here(reader: "Reader") -> RefitCalls:
    """Calls in this process."""
    own = RefitReader(reader)

    def call(method: str, batches: Iterable[list[str]], *shared: Any) -> Iterator[Any]:
        return (getattr(own, method)(batch, *shared) for batch in batches)

    return call


class _Place(NamedTuple):
    """A document: the number of its store, and its name."""

    store: int
    name: str


def refit(
    stores: Sequence[Store],
    call: RefitCalls,
    *,
    size: int | None,
    dtype: str | None,
    leave_out: bool,
    progress: Progress,
) -> Refit:
    """Fit statistics to the texts of stores, and make all signatures again, atomically in each store.

    They get the size and dtype that are given, or else those of before.
    """
    listed = [list(store.documents()) for store in stores]
    for store, entries in zip(stores, listed, strict=True):
        _check_texts(store, entries, leave_out)
    places = [
        _Place(number, each.name)
        for number, entries in enumerate(listed)
        for each in entries
        if isinstance(each, DocumentEntry) and each.text_bytes is not None
    ]
    # Of no texts: a size that is refused must not wait until all are read.
    statistics: Statistics = next(call("fit", [[]]))
    options = _options(stores[0], statistics, size, dtype)
    fitting = (
        [record.text or "" for _, record in batch] for batch in _batches(stores, places, "fitting", progress)
    )
    for part in call("fit", fitting):
        statistics = statistics + part
    if not statistics.tokens:
        raise OptionError.expected(
            "refit", "at least one document whose text is kept", "none", "add some first"
        )
    fitted = fitted_data(statistics, options)
    made = _signatures(stores, places, call, fitted, progress)
    kept = 0
    with contextlib.ExitStack() as stack:
        # All are written, or none: only a kill between two commits leaves shards that differ, and search says so.
        opened = [stack.enter_context(store.transaction()) for store in stores]
        now = [_entries(changes) for changes in opened]
        # One that was added meanwhile would lose its signature as well.
        without_text = sum(
            _check_texts(store, entries, leave_out) for store, entries in zip(stores, now, strict=True)
        )
        for number, changes in enumerate(opened):
            changes.put_statistics(fitted)
            for each in now[number]:
                entry, data = made.get(_Place(number, each.name), (None, b""))
                if entry == each:
                    changes.put_signature(each, data)
                    kept += 1
    # Of those that are still there as they were listed.
    still = {_Place(number, each.name) for number, entries in enumerate(now) for each in entries}
    unread = sum(place in still and place not in made for place in places)
    faults = sum(isinstance(each, Fault) for entries in listed for each in entries)
    return Refit(kept, without_text, unread + faults)


def _options(store: Store, statistics: Statistics, size: int | None, dtype: str | None) -> SignatureOptions:
    """The options that are given, or else those that a store has; a size that statistics cannot give is refused."""
    before = None
    with contextlib.suppress(FormatError), store.snapshot() as now:  # damaged ones are fitted again
        data = now.signatures.statistics
        before = None if data is None else stored_options(data)[1]
    before = before or default_options(statistics)
    options = SignatureOptions(
        before.size if size is None else size, before.dtype if dtype is None else dtype
    )
    statistics.check_size(options.size)
    return options


def _signatures(
    stores: Sequence[Store], places: Sequence[_Place], call: RefitCalls, fitted: bytes, progress: Progress
) -> dict[_Place, tuple[DocumentEntry, bytes]]:
    """The signatures of all documents that can be read, each with the entry of the text that it was made from."""
    made: dict[_Place, tuple[DocumentEntry, bytes]] = {}
    sent: deque[list[tuple[_Place, DocumentEntry]]] = deque()

    def texts() -> Iterator[list[str]]:
        for batch in _batches(stores, places, "signatures", progress):
            sent.append([(place, record.entry) for place, record in batch])
            yield [record.text or "" for _, record in batch]

    for signatures in call("sign", texts(), fitted):
        for (place, entry), data in zip(sent.popleft(), signatures, strict=True):
            made[place] = entry, data
    return made


def _entries(changes: Transaction) -> list[DocumentEntry]:
    """The documents of a store within a transaction."""
    return [entry for entry in changes.documents() if isinstance(entry, DocumentEntry)]


def _check_texts(store: Store, entries: Iterable[DocumentEntry | Fault], leave_out: bool) -> int:
    """How many documents have no kept text: they are refused unless they may be left out."""
    names = [each.name for each in entries if isinstance(each, DocumentEntry) and each.text_bytes is None]
    if names and not leave_out:
        came = f"{len(names):,} without, such as {quoted(names[0])}, which search would not find any more"
        remedy = "add them again with their texts, or go on without them: --leave-out"
        raise OptionError.expected(f"library {store.path}", "documents whose texts are kept", came, remedy)
    return len(names)


def _batches(
    stores: Sequence[Store], places: Sequence[_Place], task: str, progress: Progress
) -> Iterator[list[tuple[_Place, Record]]]:
    """Yield the documents that can be read and have a text, some at a time."""
    batch: list[tuple[_Place, Record]] = []
    size = 0
    for at, place in enumerate(places):
        progress(task, at, len(places))
        try:
            record = stores[place.store].get(place.name)
            text = record.text
        except (UnknownDocumentError, RecordError):  # removed meanwhile, or damaged
            continue
        if text is not None:
            batch.append((place, record))
            size += len(text)
        if size >= _BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _with_text(statistics: Statistics, encoder: ReaderEncoder, text: str) -> Statistics:
    """Statistics continued by a text, window by window: the states of a long one would not fit into memory."""
    pieces: list[NDArray[np.int64]] = []
    found = statistics

    def add(_: int, ids: NDArray[np.int64], states: NDArray[np.float32]) -> None:
        nonlocal found
        pieces.append(np.unique(ids))
        found = found.with_states(ids, states)

    encoder.reader.token_states([text], add)
    return found.with_words(np.concatenate(pieces) if pieces else np.zeros(0, np.int64))
