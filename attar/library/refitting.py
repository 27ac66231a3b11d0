"""Refitting a library: the statistics of search are fitted to its own texts, and all signatures are made again.

The library answers and grows meanwhile; statistics and signatures are switched in one transaction. Documents that
others change until then get their signatures from their texts at the next search. The shards of a library are fitted
together: their statistics are one sum.
"""

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from attar.errors import OptionError, RecordError, UnknownDocumentError, quoted
from attar.progress import Progress
from attar.results import Refit
from attar.search.signatures import Signer
from attar.search.statistics import Statistics, default_statistics
from attar.store.records import DocumentEntry, Fault, Record
from attar.store.store import Store
from attar.store.transactions import Transaction

if TYPE_CHECKING:
    from attar.reader.reader import Reader


@dataclass(frozen=True)
class _Place:
    """A document: the number of its store, and its name."""

    store: int
    name: str


@dataclass(frozen=True)
class _Signed:
    """A signature, and the entry of the document that it was made of."""

    entry: DocumentEntry
    signature: bytes


def refit(stores: Sequence[Store], reader: "Reader", *, leave_out: bool, progress: Progress) -> Refit:
    """Fit statistics to the texts of stores, and make all signatures again, atomically in each store."""
    listed = [list(store.documents()) for store in stores]
    for store, entries in zip(stores, listed, strict=True):
        _check_texts(store, entries, leave_out)
    places = [
        _Place(number, entry.name)
        for number, entries in enumerate(listed)
        for entry in entries
        if isinstance(entry, DocumentEntry) and entry.text_bytes is not None
    ]
    signer = _fitted(stores, places, reader, progress)
    signed = {
        place: _Signed(record.entry, signer.record(signer.sums(text), text_kept=True))
        for place, record, text in _texts(stores, places, "signatures", progress)
    }
    signatures = 0
    with contextlib.ExitStack() as stack:
        # All are written, or none: only a kill between two commits leaves shards that differ, and search says so.
        opened = [stack.enter_context(store.transaction()) for store in stores]
        now = [_entries(changes) for changes in opened]
        # One that was added meanwhile would lose its signature as well.
        without_text = sum(
            _check_texts(store, entries, leave_out) for store, entries in zip(stores, now, strict=True)
        )
        for number, changes in enumerate(opened):
            changes.put_statistics(signer.statistics.data)
            for entry in now[number]:
                made = signed.get(_Place(number, entry.name))
                if made is not None and made.entry == entry:
                    changes.put_signature(entry, made.signature)
                    signatures += 1
    # Of those that are still there as they were listed.
    still = {_Place(number, entry.name) for number, entries in enumerate(now) for entry in entries}
    unread = sum(place in still and place not in signed for place in places)
    faults = sum(isinstance(entry, Fault) for entries in listed for entry in entries)
    return Refit(signatures, without_text, unread + faults)


def _fitted(
    stores: Sequence[Store],
    places: Sequence[_Place],
    reader: "Reader",
    progress: Progress,
) -> Signer:
    """What makes signatures with the statistics of all texts."""
    encoder = reader.options.encoder
    # A learned map belongs to the reader, whichever the documents are.
    default = default_statistics(reader.fingerprint, reader.folder)
    statistics = Statistics.empty(
        reader.fingerprint,
        size=encoder.size,
        pieces=encoder.vocabulary,
        map=None if default is None else default.map,
    )
    for _, _, text in _texts(stores, places, "fitting", progress):
        statistics = _with_text(statistics, reader, text)
    if not statistics.tokens:
        raise OptionError("no document of the library has a text to fit statistics to", "add some first")
    return Signer.of(reader, statistics)


def _entries(changes: Transaction) -> list[DocumentEntry]:
    """The documents of a store within a transaction."""
    return [entry for entry in changes.documents() if isinstance(entry, DocumentEntry)]


def _check_texts(store: Store, entries: Iterable[DocumentEntry | Fault], leave_out: bool) -> int:
    """How many documents have no kept text: they are refused unless they may be left out."""
    names = [entry.name for entry in entries if isinstance(entry, DocumentEntry) and entry.text_bytes is None]
    if names and not leave_out:
        counted = f"{len(names):,} documents of {store.path} have no kept text, such as {quoted(names[0])}"
        remedy = "add them again with their texts, or go on without them: --leave-out"
        raise OptionError(f"{counted}: search would not find them any more", remedy)
    return len(names)


def _texts(
    stores: Sequence[Store], places: Sequence[_Place], task: str, progress: Progress
) -> Iterator[tuple[_Place, Record, str]]:
    """Yield the documents that can be read and have a text."""
    for at, place in enumerate(places):
        progress(task, at, len(places))
        try:
            record = stores[place.store].get(place.name)
            text = record.text
        except (UnknownDocumentError, RecordError):  # removed meanwhile, or damaged
            continue
        if text is not None:
            yield place, record, text


def _with_text(statistics: Statistics, reader: "Reader", text: str) -> Statistics:
    """Statistics continued by a text, window by window: the states of a long one would not fit into memory."""
    pieces: list[NDArray[np.int64]] = []

    def add(_: int, ids: NDArray[np.int64], states: NDArray[np.float32]) -> None:
        nonlocal statistics
        pieces.append(np.unique(ids))
        statistics = statistics.with_states(ids, states)

    reader.token_states([text], add)
    return statistics.with_words(np.concatenate(pieces) if pieces else np.zeros(0, np.int64))
