"""SearchPart: what one store replies in the rounds of a search, or of a question to all documents (`rounds`)."""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from attar.errors import RecordError, UnknownDocumentError
from attar.library.cache import MemoryCache
from attar.library.places import with_places
from attar.library.rounds import OtherStatisticsError, Scored, Sentences
from attar.library.searching import Searching
from attar.memory.forms import Floats
from attar.memory.memory import Memory
from attar.results import Sentence
from attar.search.lexical import Corpus
from attar.search.moments import Moments
from attar.search.ranking import Common, Ranked, SearchQuery
from attar.store.origin import place_in, unpack_parts
from attar.store.store import Store

if TYPE_CHECKING:
    from attar.reader.answers import ScoredPhrases, Shares


# Sentences shown per document.
_SENTENCES = 2
# Questions whose scores are kept for their next round.
_KEPT = 32


class _Opened(NamedTuple):
    """A document, its title, its memory, its text if kept, and the parts of that as they are stored."""

    name: str
    title: str
    memory: Memory
    text: str | None
    parts: bytes


class SearchPart:
    """The documents of one store, in the rounds of a search."""

    def __init__(self, store: Store, cache: MemoryCache, searching: Searching) -> None:
        self._store, self._cache, self._searching = store, cache, searching
        self._lock = threading.Lock()
        self._scored: OrderedDict[Any, tuple[list[_Opened | None], ScoredPhrases]] = OrderedDict()

    def query(self, text: str) -> SearchQuery:
        """A query's signature and words."""
        return self._searching.refresh().query(text)

    def corpus(self, query: SearchQuery) -> Corpus:
        """The number of documents and the frequencies of a query's words; missing signatures are made first."""
        index = self._searching.refresh()
        if index.signer.projection.digest != query.digest:
            remedy = "fit them together: attar store refit FOLDER, of all shards"
            raise OtherStatisticsError.expected(
                "shards", "the same statistics for search in all", "different ones", remedy
            )
        return index.corpus(query)

    def scan(self, asked: Sequence[tuple[SearchQuery, Common]]) -> None:
        """Compare several queries with the signatures together; `moments` of each follow."""
        self._searching.index.scan(asked)

    def moments(self, query: SearchQuery, common: Common) -> tuple[Moments, Moments]:
        """Moments of the scores by words and by signatures."""
        return self._searching.index.moments(query, common)

    def nearest(self, query: SearchQuery, common: Common) -> Floats:
        """The highest rounded scores."""
        return self._searching.index.nearest(query, common)

    def exact(self, query: SearchQuery, common: Common) -> Moments:
        """Moments of the scores by signatures, the highest of which are exact."""
        return self._searching.index.exact(query, common)

    def best(self, query: SearchQuery, common: Common, count: int) -> list[Ranked]:
        """The best documents."""
        with self._store.snapshot() as now:
            return self._searching.index.best(now, query, common, count)

    def match(self, text: str, names: Sequence[str]) -> list[float | None]:
        """How well the phrases of documents fit a query."""
        opened = self._opened(names)
        found = [each for each in opened if each is not None]
        fits = iter(self._searching.phrase_reader().match([each.memory for each in found], text))
        return [None if each is None else next(fits) for each in opened]

    def sentences(self, text: str, names: Sequence[str]) -> list[Sentences | None]:
        """The sentences of documents that fit a query best; none of a text that is not kept."""
        return [None if each is None else self._sentences(text, each) for each in self._opened(names)]

    def _sentences(self, query: str, document: _Opened) -> Sentences:
        name, title, memory, text, parts = document
        if text is None:
            return Sentences(title, [])
        places = self._searching.phrase_reader().best_sentences(memory, query, _SENTENCES)
        labels = unpack_parts(parts, name)
        return Sentences(
            title, [Sentence(text[start:end], start, end, place_in(labels, start)) for start, end in places]
        )

    def score(self, text: str, names: Sequence[str], biases: Sequence[float]) -> Scored:
        """The sums over the phrases of documents, each phrase with its document's bias."""
        opened, scored = self._phrases(text, names, biases)
        sums = iter(scored.log_sums())
        log_sums = [None if each is None else next(sums) for each in opened]
        return Scored(log_sums, scored.query.null, scored.calibration)

    def shares(
        self, text: str, names: Sequence[str], biases: Sequence[float], total: float, top: int | None
    ) -> "list[Shares | None]":
        """The likeliest phrases of documents; `total` is the logarithm of the sum over all that are asked."""
        opened, scored = self._phrases(text, names, biases)
        found = [each for each in opened if each is not None]
        shares = [
            own._replace(answers=with_places(own.answers, each.parts, each.name))
            for own, each in zip(scored.shares(total, top, [each.text for each in found]), found, strict=True)
        ]
        replies = iter(shares)
        return [None if each is None else next(replies) for each in opened]

    def _phrases(
        self, text: str, names: Sequence[str], biases: Sequence[float]
    ) -> "tuple[list[_Opened | None], ScoredPhrases]":
        """Documents and the scores of their phrases; those of the last questions are kept for their next round."""
        opened = self._opened(names)
        # Memories are those of the cache: the same object is the same version of a document.
        key = text, tuple(biases), tuple(None if each is None else id(each.memory) for each in opened)
        with self._lock:
            if key in self._scored:
                return self._scored[key]
        pairs = [(each, bias) for each, bias in zip(opened, biases, strict=True) if each is not None]
        reader = self._searching.phrase_reader()
        scored = reader.scored([each.memory for each, _ in pairs], text, [bias for _, bias in pairs])
        with self._lock:
            # Holds the memories, so that no others get their ids.
            self._scored[key] = opened, scored
            while len(self._scored) > _KEPT:
                self._scored.popitem(last=False)
        return opened, scored

    def _opened(self, names: Sequence[str]) -> list[_Opened | None]:
        """Documents as of one state of the store; None for one that is damaged or gone."""
        opened: list[_Opened | None] = []
        with self._store.snapshot() as now:
            for name in names:
                try:
                    memory, text = self._cache.get(now, name)
                except (RecordError, UnknownDocumentError):  # `attar store check` reports what is damaged
                    opened.append(None)
                    continue
                entry = now.entry(name)
                opened.append(_Opened(name, entry.title, memory, text, entry.parts))
        return opened
