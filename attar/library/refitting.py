"""Refitting a library: the statistics of search are fitted to its own texts, and all signatures are made again.

The library answers and grows meanwhile; statistics and signatures are switched in one transaction. Documents that
others change until then get their signatures from their texts at the next search.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from attar.errors import OptionError, RecordError, UnknownDocumentError, quoted
from attar.progress import Progress
from attar.results import Refit
from attar.search import ReaderEncoder, Signer, Statistics
from attar.store import DocumentEntry, Fault, Record, Signatures, Store

if TYPE_CHECKING:
    from attar.reader import PhraseReader


def refit(store: Store, reader: "PhraseReader", *, leave_out: bool, progress: Progress) -> Refit:
    """Fit statistics to a store's texts, and make all signatures again, atomically."""
    entries = list(store.documents())
    without_text = _check_texts(store, entries, leave_out)
    names = [each.name for each in entries if isinstance(each, DocumentEntry) and each.text_bytes is not None]
    encoder = ReaderEncoder(reader)
    statistics = Statistics.empty(reader.fingerprint, size=encoder.size, pieces=encoder.pieces)
    for record in _readable(store, names, "fitting", progress):
        statistics = _with_text(statistics, encoder, record.text or "")
    if not statistics.tokens:
        raise OptionError("refit", "at least one document whose text is kept", "none", "add some first")
    signer = Signer.of(encoder, statistics)
    made: dict[str, tuple[DocumentEntry, bytes]] = {}
    for record in _readable(store, names, "signatures", progress):
        made[record.name] = record.entry, signer.record(signer.sums(record.text or ""), text_kept=True)
    with store.transaction() as changes:
        stored = Signatures(changes)
        # One that was added meanwhile would lose its signature as well.
        now = [each for key in stored.document_keys() if (each := stored.entry(key)) is not None]
        without_text = _check_texts(store, now, leave_out)
        changes.put_signature(None, statistics.data)
        kept = [each.name for each in now if each.name in made and made[each.name][0] == each]
        for name in kept:
            changes.put_signature(name, made[name][1])
    # Of those that are still there as they were listed.
    still = {each.name for each in now}
    unread = sum(name in still and name not in made for name in names)
    return Refit(len(kept), without_text, unread + sum(isinstance(each, Fault) for each in entries))


def _check_texts(store: Store, entries: Iterable[DocumentEntry | Fault], leave_out: bool) -> int:
    """How many documents have no kept text: they are refused unless they may be left out."""
    names = [each.name for each in entries if isinstance(each, DocumentEntry) and each.text_bytes is None]
    if names and not leave_out:
        came = f"{len(names):,} without, such as {quoted(names[0])}, which search would not find any more"
        remedy = "add them again with their texts, or go on without them: --leave-out"
        raise OptionError(f"library {store.path}", "documents whose texts are kept", came, remedy)
    return len(names)


def _readable(store: Store, names: list[str], task: str, progress: Progress) -> Iterator[Record]:
    """Yield the documents that can be read and have a text."""
    for at, name in enumerate(names):
        progress(task, at, len(names))
        try:
            record = store.get(name)
        except (UnknownDocumentError, RecordError):  # removed meanwhile, or damaged
            continue
        if record.text is not None:
            yield record


def _with_text(statistics: Statistics, encoder: ReaderEncoder, text: str) -> Statistics:
    """Statistics continued by a text, window by window: the states of a long one would not fit into memory."""
    pieces: list[NDArray[np.int64]] = []
    found = statistics

    def add(_: int, ids: NDArray[np.int64], states: NDArray[np.float32]) -> None:
        nonlocal found
        pieces.append(np.unique(ids))
        found = found.with_states(states)

    encoder.reader.token_states([text], add)
    return found.with_words(np.concatenate(pieces) if pieces else np.zeros(0, np.int64))
