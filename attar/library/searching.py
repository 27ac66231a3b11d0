"""Searching a library: signatures are written with their documents, made from texts where they are missing."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from attar.errors import DtypeError, FormatError, OptionError, RecordError, UnknownDocumentError
from attar.library.cache import MemoryCache
from attar.library.places import with_places
from attar.memory import Memory
from attar.progress import Progress, tell_nobody
from attar.results import ABSENT, Answer, Hit, Sentence
from attar.search import (
    RERANKED,
    Collector,
    ReaderEncoder,
    SearchIndex,
    SignatureRecord,
    Signer,
    Statistics,
    Sums,
    default_statistics,
    merged,
    rerank,
)
from attar.store import Fault, Record, Signatures, Store, Transaction, key_of, place_in, unpack_parts

if TYPE_CHECKING:
    from attar.reader import PhraseReader, Reader

# Documents whose missing signatures are made and written together.
_BATCH = 64
# Documents whose phrases answer a question to all, and how much a document's score adds to those of its phrases.
# Chosen on questions of SQuAD's training set (docs/log.md).
_ASKED, _BIAS = 10, 0.8
# Sentences shown per document.
_SENTENCES = 2
# A projection that keeps this much less of the documents' variance than of what it was fitted on is worth refitting.
_DRIFTED, _ENOUGH = 0.1, 100


class SearchState(NamedTuple):
    """Documents that search cannot find, because they have neither signature nor text, and the drift of statistics."""

    left_out: list[str]
    drift: float

    def lines(self) -> list[str]:
        """What a person should know, one line each."""
        lines = []
        if self.left_out:
            first = f"{len(self.left_out):,} documents are left out, such as {self.left_out[0][:72]!r}"
            lines.append(f"{first}: they have neither a signature nor a text; add them again")
        if self.drift > _DRIFTED:
            share = f"its statistics keep {self.drift:.0%} less of these documents than of their own"
            lines.append(f"search may be better after attar store refit: {share}")
        return lines


class Searching:
    """The signatures and the index of a library; the reader is loaded only if there is something to read."""

    def __init__(
        self, store: Store, reader: "Callable[[], Reader]", folder: Path | None, cache: MemoryCache
    ) -> None:
        self._store, self._reader, self._folder, self._cache = store, reader, folder, cache
        self._lock = threading.Lock()
        self._signer: Signer | None = None
        self._known: bytes | None = None
        self._index: SearchIndex | None = None
        self._left_out: list[str] = []

    def state(self) -> SearchState:
        """What the last search found out."""
        index = self._index
        drift = index.drift if index is not None and len(index) >= _ENOUGH else 0.0
        return SearchState(list(self._left_out), drift)

    def search(self, query: str, top: int) -> list[Hit]:
        """The best documents with their best sentences."""
        reader = self._phrase_reader()
        if isinstance(top, bool) or not isinstance(top, int) or top < 1:
            raise OptionError("top", "an integer of at least 1", repr(top))
        hits = []
        found = self._found(query, max(top, RERANKED))
        matches = reader.match([each.memory for each in found[:RERANKED]], query)
        fitted = rerank([each.score for each in found], matches)
        for at, score in fitted[:top]:
            each = found[at]
            text = each.text
            places = [] if text is None else reader.best_sentences(each.memory, query, _SENTENCES)
            parts = unpack_parts(each.parts, each.name) if places else []
            sentences = [
                Sentence((text or "")[start:end], start, end, place_in(parts, start)) for start, end in places
            ]
            hits.append(Hit(each.name, each.title, score, sentences))
        return hits

    def ask(self, question: str, top: int | None) -> list[Answer]:
        """The best answers of the best documents."""
        reader = self._phrase_reader()
        documents = self._found(question, _ASKED)
        if not documents:
            return [Answer("", 1.0, ABSENT)]
        best = documents[0].score
        lists, absent, refused = reader.answer_all(
            [each.memory for each in documents],
            question,
            biases=[_BIAS * (each.score - best) for each in documents],
            top=top,
            texts=[each.text for each in documents],
        )
        answers = [
            msgspec.structs.replace(answer, document=each.name)
            for each, own in zip(documents, lists, strict=True)
            for answer in with_places(own, each.parts, each.name)
        ]
        answers.sort(key=lambda answer: -answer.probability)
        place = sum(answer.probability > absent for answer in answers)
        answers.insert(0 if refused else max(place, min(1, len(answers))), Answer("", absent, ABSENT))
        return answers[:top]

    def _found(self, query: str, count: int) -> list["_Found"]:
        """The best documents, as of one state of the store."""
        if not isinstance(query, str):
            raise DtypeError("question", "a string", type(query).__name__)
        index = self.refresh()
        asked = index.query(query)
        found = []
        with self._store.snapshot() as now:
            index.refresh(now)
            for name, score in index.rank(now, asked, count):
                try:
                    memory, text = self._cache.get(now, name)
                except (RecordError, UnknownDocumentError):  # damaged: `attar store check` tells
                    continue
                entry = now.entry(name)
                found.append(_Found(name, entry.title, score, memory, text, entry.parts))
        return found

    def _phrase_reader(self) -> "PhraseReader":
        from attar.reader import PhraseReader

        reader = self._reader()
        if not isinstance(reader, PhraseReader):
            expected = "one of a phrase reader, to search all documents"
            remedy = "name one document, or move the library to the default reader: attar reread STORE"
            raise OptionError("library", expected, "one of a names reader", remedy)
        return reader

    def signer(self, reader: "Reader") -> Signer | None:
        """Makes signatures with the store's statistics, or the reader's own; None if there are none."""
        from attar.reader import PhraseReader

        if not isinstance(reader, PhraseReader):
            return None
        with self._store.snapshot() as now:
            stored = Signatures(now).statistics
        with self._lock:
            known = self._signer is not None and self._signer.encoder.reader is reader
            if not known or stored != self._known:
                encoder = ReaderEncoder(reader)
                statistics = None if stored is None else self._stored(stored)
                if statistics is None:
                    statistics = default_statistics(reader.fingerprint, self._folder)
                fits = statistics is not None and statistics.fit_states(encoder.size, encoder.pieces)
                self._known = stored
                self._signer = Signer.of(encoder, statistics) if statistics is not None and fits else None
            return self._signer

    def _stored(self, data: bytes) -> Statistics:
        try:
            return Statistics.from_bytes(data)
        except FormatError as fault:
            remedy = "fit them again: attar store refit STORE"
            raise OptionError("statistics of the library", "whole ones", "damaged ones", remedy) from fault

    def record(self, changes: Transaction, sums: Sums | None, *, text_kept: bool) -> bytes | None:
        """A signature to write within a transaction, of which the statistics become part if there are none yet."""
        signer = self._signer
        if sums is None or signer is None:
            return None
        # If another process has fitted new statistics, the signature is made from the text when it is needed.
        return signer.record(sums, text_kept=text_kept) if self._agree(changes, signer) else None

    def _agree(self, changes: Transaction, signer: Signer) -> bool:
        """Whether a store's statistics are the signer's; if it has none yet, or another reader's, they become so."""
        stored = Signatures(changes).statistics
        if stored != signer.statistics.data and stored == self._known:
            changes.put_signature(None, signer.statistics.data)
        return stored in (signer.statistics.data, self._known)

    def extend(
        self, reader: "Reader", before: Record, text: str, progress: Progress
    ) -> tuple[Memory, Sums | None]:
        """A document continued: the memory of both texts, and their sums.

        The last window is read again with what follows, so its sums are subtracted first: the result is exact.
        """
        memory = before.memory
        signer = self.signer(reader)
        if signer is None or memory.phrases is None:
            return reader.extend(memory, text, progress=progress), None
        collector = Collector(signer.projection)
        longer = signer.encoder.reader.extend(memory, text, progress=progress, on_states=collector)
        earlier = self._kept_sums(before, signer)
        if earlier is None and before.text is not None:
            earlier = signer.sums(before.text)
        if earlier is None:
            return longer, None
        return longer, earlier - signer.sums(memory.phrases.tail) + collector.of()

    def _kept_sums(self, record: Record, signer: Signer) -> Sums | None:
        with self._store.snapshot() as now:
            found = Signatures(now).get(key_of(record.name))
        if found is None or found[0] != record.entry.changed:
            return None
        try:
            written = SignatureRecord.from_bytes(found[1], signer.options)
            return written.sums() if written.statistics == signer.projection.digest else None
        except RecordError:
            return None

    def merged(self, changes: Transaction, records: Sequence[Record]) -> bytes | None:
        """The signature of documents joined, if all of them keep their sums; needs no reader."""
        stored, found = Signatures(changes), []
        for record in records:
            each = stored.get(key_of(record.name))
            if each is None or each[0] != record.entry.changed:
                return None
            found.append(each[1])
        try:
            return merged(found)
        except RecordError:
            return None

    def refresh(self, progress: Progress = tell_nobody) -> SearchIndex:
        """The index, equal to the store as it is now; missing signatures are made from texts."""
        signer = self.signer(self._phrase_reader())
        if signer is None:
            expected = "one whose reader has statistics for search"
            remedy = "fit them to its documents: attar store refit STORE"
            raise OptionError("library", expected, "one without", remedy)
        if self._index is None or self._index.signer is not signer:
            self._index = SearchIndex(signer)
        index = self._index
        with self._store.snapshot() as now:
            missing = index.refresh(now)
        if missing and missing != self._left_out:
            self._left_out = self._make(missing, signer, index, progress)
        elif not missing:
            self._left_out = []
        return index

    def _make(
        self, names: Sequence[str], signer: Signer, index: SearchIndex, progress: Progress
    ) -> list[str]:
        """Make signatures from texts, write them if the store can be written; returns the names of those without."""
        left_out = []
        for first in range(0, len(names), _BATCH):
            progress("signatures", first, len(names))
            made: list[tuple[Record, bytes]] = []
            for name in names[first : first + _BATCH]:
                try:
                    record = self._store.get(name)
                except (UnknownDocumentError, RecordError):  # removed meanwhile, or damaged
                    continue
                if record.text is None or record.memory.form != "phrases":
                    left_out.append(name)
                else:
                    made.append((record, signer.record(signer.sums(record.text), text_kept=True)))
            if not self._store.read_only and made:
                with self._store.transaction() as changes:
                    for record, data in made:
                        same = record.name in changes and changes.get(record.name).entry == record.entry
                        if same and self._agree(changes, signer):
                            changes.put_signature(record.name, data)
            index.add([(key_of(record.name), record.entry.changed, data) for record, data in made])
        return left_out

    def refit(self, progress: Progress = tell_nobody) -> int:
        """Fit statistics to the library's own documents, and make all signatures anew, atomically."""
        reader = self._phrase_reader()
        encoder = ReaderEncoder(reader)
        names = [entry.name for entry in self._store.documents() if not isinstance(entry, Fault)]
        statistics = Statistics.empty(reader.fingerprint, size=encoder.size, pieces=encoder.pieces)
        for at, name in enumerate(names):
            progress("fitting", at, len(names))
            text = self._store.get(name).text
            if text is not None:
                ((ids, states),) = encoder.encode([text])
                statistics = statistics.with_document(ids, states)
        if not statistics.tokens:
            raise OptionError("refit", "at least one document whose text is kept", "none", "add some first")
        signer = Signer.of(encoder, statistics)
        made = {}
        for at, name in enumerate(names):
            progress("signatures", at, len(names))
            record = self._store.get(name)
            if record.text is not None:
                made[name] = record.entry, signer.record(signer.sums(record.text), text_kept=True)
        with self._store.transaction() as changes:
            changes.put_signature(None, statistics.data)
            for name, (entry, data) in made.items():
                if name in changes and changes.get(name).entry == entry:
                    changes.put_signature(name, data)
        return len(made)


class _Found(NamedTuple):
    """A document that search found, its memory, its text if kept, and the parts of that as they are stored."""

    name: str
    title: str
    score: float
    memory: Memory
    text: str | None
    parts: bytes
