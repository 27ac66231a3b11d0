"""The index of a library: signatures and word counts of all documents in memory, kept equal to the store.

The store is the truth: before each question the index takes over what changed since, by the store's list of changes,
or reads all signatures again. A row is never used unless its document still is the version that it was made of.
"""

import contextlib
import threading
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import nsmallest
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attar.errors import RecordError
from attar.progress import return_memory
from attar.search import ranking
from attar.search.lexical import Corpus, Lexical
from attar.search.ranking import CorpusQuery, Moments, Nearest, RankedDocument, Rows, Standards
from attar.search.signatures import SignatureRecord, Signer, signature_bytes, triangle_numbers
from attar.search.statistics import Floats
from attar.store.records import key_of
from attar.store.transactions import Snapshot, StampedSignature

# Arrays get room for this many times their rows when they are full.
_GROWTH = 1.5
_NO_PIECES = np.zeros(0, np.uint16)
# Documents that are read from the store at a time: all records of a million would take more memory than the index.
_LOADED = 4_096
# Bytes of scores that are kept for the next step of a question.
_KEPT = 2**27
# More documents than asked for are looked up in the store, which may have changed some of them.
_SPARE = 8


class SignatureTable:
    """The signature and the words of each document, in rows that are appended and removed, never changed or moved."""

    def __init__(self, signer: Signer, room: int = 0) -> None:
        self._signer = signer
        # The key of each row, also of removed ones.
        self.keys: list[bytes] = []
        self._row_of: dict[bytes, int] = {}
        self._changed = np.zeros(room, np.int64)
        self._packed = np.zeros((room, signature_bytes(signer.size)), np.uint8)
        self._is_live = np.zeros(room, np.bool_)
        self._live: Rows | None = None
        self.words = Lexical(signer.pieces)

    def __len__(self) -> int:
        """The documents: rows that are not removed."""
        return len(self._row_of)

    def __contains__(self, key: bytes) -> bool:
        return key in self._row_of

    @property
    def packed(self) -> NDArray[np.uint8]:
        """The signs of each row."""
        return self._packed[: len(self.keys)]

    @property
    def live(self) -> Rows:
        """The rows of all documents; one array for all queries until something changes."""
        if self._live is None:
            self._live = np.flatnonzero(self._is_live)
        return self._live

    def changed(self, row: int) -> int:
        """The time of change of the document that a row was made of."""
        return int(self._changed[row])

    def append(self, signatures: Iterable[StampedSignature]) -> None:
        """Add signatures as the next rows; those made with other statistics are left out."""
        accepted, statistics = [], self._signer.projection.digest
        for signature in signatures:
            try:
                record = SignatureRecord.from_bytes(signature.data, self._signer.size)
            except RecordError:  # it is made again
                continue
            if record.statistics == statistics:
                accepted.append((signature, record, record.word_counts))
        # One look at all pieces: a look at those of each document took a tenth of the time of opening a library.
        pieces = [counts[0] for *_, counts in accepted]
        if np.concatenate([_NO_PIECES, *pieces]).max(initial=0) >= self._signer.pieces:
            accepted = [each for each in accepted if each[2][0].max(initial=0) < self._signer.pieces]
        if not accepted:
            return
        self.words.append([counts for _, _, counts in accepted])
        first, last = len(self.keys), len(self.keys) + len(accepted)
        self._make_room(last)
        keys = [signature.key for signature, _, _ in accepted]
        self._row_of |= zip(keys, range(first, last), strict=True)
        self.keys += keys
        self._changed[first:last] = [signature.changed for signature, _, _ in accepted]
        joined = b"".join(record.signature for _, record, _ in accepted)
        self._packed[first:last] = np.frombuffer(joined, np.uint8).reshape(len(accepted), -1)
        self._is_live[first:last] = True
        self._live = None

    def _make_room(self, rows: int) -> None:
        if rows > len(self._packed):
            room = max(rows, int(_GROWTH * len(self._packed))) - len(self._packed)
            self._packed = np.concatenate((self._packed, np.zeros((room, self._packed.shape[1]), np.uint8)))
            self._changed = np.concatenate((self._changed, np.zeros(room, np.int64)))
            self._is_live = np.concatenate((self._is_live, np.zeros(room, np.bool_)))

    def remove(self, key: bytes) -> None:
        """Remove a document's row, if there is one."""
        row = self._row_of.pop(key, None)
        if row is not None:
            self._is_live[row] = False
            self._live = None
            self.words.remove(row)


class IndexRows(NamedTuple):
    """The rows of an index, as of a version; `by_words`: their signatures do not count."""

    version: int
    table: SignatureTable
    by_words: bool


@dataclass(eq=False)
class _Compared:
    """The scores of all rows by words and by signatures for a query, as of one version of the index."""

    version: int
    corpus: Corpus
    signature: Floats
    rows: Rows
    words: Floats
    signatures: Floats
    standards: Standards
    nearest: tuple[Standards, Nearest] | None = None


class SearchIndex:
    """The signatures of a store's documents, and their scores for queries."""

    def __init__(self, signer: Signer) -> None:
        self.signer = signer
        self._table = SignatureTable(signer)
        self._lock = threading.RLock()
        # Of the store's changes and of the table's.
        self._change = -1
        self._version = 0
        self._missing: list[str] = []
        self._by_words = False
        self._recent: OrderedDict[str, _Compared] = OrderedDict()

    def __len__(self) -> int:
        return len(self._table)

    def refresh(self, now: Snapshot) -> list[str]:
        """Take over what changed in the store; returns the names of documents that have no signature."""
        with self._lock:
            last_change = now.last_change
            if self._change == last_change:
                return self._missing
            changed = now.changed_since(self._change) if self._change >= 0 else None
            if changed is None or len(self._table.keys) > 2 * len(self._table) + 1_024:
                self._load(now)
            else:
                for key in changed:
                    self._table.remove(key)
                signatures = (now.find_signature(key) for key in sorted(changed))
                self._table.append(signature for signature in signatures if signature is not None)
            self._version += 1
            self._change = last_change
            self._missing = []
            if now.header.documents != len(self._table):
                entries = map(now.find_key, (key for key in now.document_keys() if key not in self._table))
                self._missing = sorted(entry.name for entry in entries if entry is not None)
            return self._missing

    def _load(self, now: Snapshot) -> None:
        """Read all signatures; rows get new numbers."""
        self._table = SignatureTable(self.signer, now.header.documents)
        signatures = now.signatures()
        while some := list(islice(signatures, _LOADED)):
            self._table.append(some)
        return_memory()

    def add(self, signatures: Sequence[StampedSignature]) -> None:
        """Add signatures that the store does not have."""
        with self._lock:
            for signature in signatures:
                self._table.remove(signature.key)
            self._table.append(signatures)
            self._version += 1
            self._missing = [name for name in self._missing if key_of(name) not in self._table]

    @contextlib.contextmanager
    def rows(self) -> Iterator[IndexRows]:
        """What is compared with queries, which does not change meanwhile."""
        with self._lock:
            yield IndexRows(self._version, self._table, self._by_words)

    def rank_by_words(self, alone: bool) -> None:
        """Rank documents by their words alone, as long as some have no signature: the others would come before them."""
        with self._lock:
            self._version += self._by_words != alone
            self._by_words = alone

    # The steps of questions, each with what the steps before found out about all documents, in all shards.

    def corpora(self, texts: Sequence[str], also: Sequence[Sequence[str]] | None = None) -> list[Corpus]:
        """The frequencies of each text's words, and of other words `also` that stand for some of them."""
        pieces = [ids for ids, _ in self.signer.reader.tokenizer.read_sentences(texts)]
        if also is not None:
            pieces = [np.union1d(own, self._pieces_of(more)) for own, more in zip(pieces, also, strict=True)]
        with self._lock:
            return [self._table.words.corpus(of_text) for of_text in pieces]

    def _pieces_of(self, words: Sequence[str]) -> NDArray[np.int64]:
        """The pieces of words; a comma between digits tells nothing."""
        read = self.signer.reader.tokenizer.read_sentences([word.replace(",", " ") for word in words])
        pieces: NDArray[np.int64] = np.concatenate([np.zeros(0, np.int64), *(ids for ids, _ in read)])
        return pieces

    def holding(self, groups: Sequence[NDArray[np.int64]], most: int) -> list[list[bytes]]:
        """The keys of documents that hold all word pieces of each group, at most `most` of them."""
        with self._lock:
            found = self._table.words.holding(groups)
            return [[self._table.keys[row] for row in rows[:most].tolist()] for rows in found]

    def moments(self, asked: Sequence[CorpusQuery]) -> list[Standards]:
        """The moments of scores by words and by signatures."""
        with self._lock:
            return [compared.standards for compared in self._compare(asked)]

    def nearest(self, asked: Sequence[CorpusQuery], standards: Sequence[Standards]) -> list[Nearest]:
        """The documents with the highest rounded scores, compared exactly."""
        with self._lock:
            pairs = zip(self._compare(asked), standards, strict=True)
            return [self._nearest(compared, standard) for compared, standard in pairs]

    def best(
        self,
        now: Snapshot,
        asked: Sequence[CorpusQuery],
        standards: Sequence[Standards],
        count: int,
        within: Collection[bytes] | None = None,
    ) -> list[list[RankedDocument]]:
        """The best documents, best first, as of the last `refresh`; those that have changed since are left out.

        `within` has the keys of the only ones that count.
        """
        with self._lock:
            pairs = zip(self._compare(asked), standards, strict=True)
            return [self._best(now, compared, standard, count, within) for compared, standard in pairs]

    def _compare(self, asked: Sequence[CorpusQuery]) -> list[_Compared]:
        """The scores of all rows for each query; those of the last ones are kept for the next step.

        Queries are compared with the signatures together: these are read once, and not once per query. The scores are
        bit for bit those of one query after the other, as they are sums of whole numbers.
        """
        new = {query.text: query.corpus for query in asked if not self._is_kept(query)}
        none = np.zeros(triangle_numbers(self.signer.size), np.float32)
        queries = {text: none if self._by_words else self.signer.query(text) for text in new}
        rounded = any(ranking.is_rounded(corpus.documents) for corpus in new.values())
        together = [text for text, signature in queries.items() if signature.any()]
        signatures: dict[str, Floats] = {}
        if together:
            stacked = np.stack([queries[text] for text in together])
            scores = ranking.near_scores(self._table.packed, stacked, rounded, self._table.live)
            signatures = dict(zip(together, scores, strict=True))
        for text, corpus in new.items():
            self._recent[text] = self._compared(corpus, queries[text], rounded, signatures.get(text))
        for query in asked:
            self._recent.move_to_end(query.text)
        compared = [self._recent[query.text] for query in asked]
        row_bytes = max((scores.words.nbytes + scores.signatures.nbytes for scores in compared), default=0)
        while len(self._recent) > max(len(asked), _KEPT // (row_bytes + 1)):
            self._recent.popitem(last=False)
        return compared

    def _is_kept(self, query: CorpusQuery) -> bool:
        recent = self._recent.get(query.text)
        return recent is not None and recent.version == self._version and recent.corpus.equals(query.corpus)

    def _compared(
        self, corpus: Corpus, signature: Floats, rounded: bool, signatures: Floats | None
    ) -> _Compared:
        """The scores by words are added; without any by signatures, these are 0."""
        rows, words = self._table.live, self._table.words.scores(corpus)
        rounded &= signatures is not None
        if signatures is None:
            signatures = np.zeros(len(rows), np.float32)
        # Scores by words of removed documents, and of most others, are 0.
        of_words = replace(Moments.of(words[words > 0]), count=len(self))
        standards = Standards(of_words, Moments.of(signatures), rounded)
        return _Compared(self._version, corpus, signature, rows, words[rows], signatures, standards)

    def _nearest(self, compared: _Compared, standards: Standards) -> Nearest:
        of_rounded = Standards(standards.words, standards.signatures, rounded=True)
        if compared.nearest is None or compared.nearest[0] != of_rounded:
            mixed = of_rounded.mixed(compared.words, compared.signatures)
            count = min(ranking.CANDIDATES, len(mixed))
            least = -np.partition(-mixed, count - 1)[count - 1] if count else np.inf
            places = np.flatnonzero(mixed >= least)
            rows = compared.rows[places]
            (exact,) = ranking.scores(self._table.packed, compared.signature[None], rows)
            rounded = compared.signatures[places]
            compared.nearest = of_rounded, Nearest(places, mixed[places], rounded, exact)
        return compared.nearest[1]

    def _best(
        self,
        now: Snapshot,
        compared: _Compared,
        standards: Standards,
        count: int,
        within: Collection[bytes] | None,
    ) -> list[RankedDocument]:
        signatures = compared.signatures
        if standards.least is not None:
            nearest = self._nearest(compared, standards)
            changed = nearest.mixed >= standards.least
            signatures = signatures.copy()
            signatures[nearest.places[changed]] = nearest.exact[changed]
        mixed, rows, keys = standards.mixed(compared.words, signatures), compared.rows, self._table.keys
        if within is not None:
            wanted = np.fromiter((keys[row] in within for row in rows.tolist()), np.bool_, len(rows))
            mixed, rows = mixed[wanted], rows[wanted]
        chosen = min(len(mixed), count + _SPARE)
        if not chosen:
            return []
        # Of documents with the same score, the first by key are taken.
        least = -np.partition(-mixed, chosen - 1)[chosen - 1]
        above, equal = np.flatnonzero(mixed > least).tolist(), np.flatnonzero(mixed == least).tolist()
        ties = nsmallest(chosen - len(above), equal, key=lambda at: keys[rows[at]])
        order = sorted([*above, *ties], key=lambda at: (-mixed[at], keys[rows[at]]))
        documents = []
        for at in order:
            entry = now.find_key(keys[rows[at]])
            if entry is not None and entry.changed == self._table.changed(rows[at]):
                documents.append(
                    RankedDocument(float(mixed[at]), keys[rows[at]], entry.name, entry.digest, entry.tokens)
                )
        return documents[:count]
