"""One shard's part in questions to all documents: what its own documents say at each step (`asking`)."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from attar.errors import RecordError, UnknownDocumentError
from attar.library.documents import (
    MemoryCache,
    OpenDocument,
    SubsetCache,
    place_in,
    whole_sentence,
    with_places,
)
from attar.library.spelling import LOOKED_AT, Spelling
from attar.progress import check_stopped
from attar.results import Answer, Excerpt, QuotedPlace, Sentence, Subset
from attar.search.index import SearchIndex
from attar.search.ranking import CorpusQuery, Nearest, RankedDocument, Standards
from attar.search.spelling import doubtful_words
from attar.search.table import Corpus
from attar.store.transactions import Snapshot
from attar.text.quotes import Word, find_quote, words_of
from attar.text.sentences import passages_around

if TYPE_CHECKING:
    from attar.reader.answers import ScoredPhrases, Shares
    from attar.reader.confidence import Calibration
    from attar.reader.reader import Reader
    from attar.reader.second_look import FoundSentence, Look


# Sentences shown per document.
_SENTENCES = 2
# Sentences that are read again in addition where all documents are asked: these compete.
_MORE_OF_ALL = 2
# The most that are.
_MOST = 5
# Questions whose phrases' scores are kept for the next step.
_QUESTIONS = 32

Result = TypeVar("Result")


@dataclass(frozen=True)
class ShardCorpus:
    """The frequencies of a text's words, and the digest of the statistics that its signature is made with.

    `known` are those of its `doubtful_words` that documents have.
    """

    corpus: Corpus
    statistics: bytes
    known: set[str]


@dataclass(frozen=True)
class AskedDocuments:
    """A question, and the documents that answer it: each name with what is added to the scores of its phrases."""

    question: str
    biases: dict[str, float]


@dataclass(frozen=True)
class PhraseScores:
    """The logarithm of the sum over the phrases of each document, the score of "no answer", and the calibration.

    Of no documents, the question is not looked at.
    """

    log_sums: dict[str, float]
    null: float
    calibration: "Calibration | None"


@dataclass(frozen=True)
class FoundSentences:
    """Sentences that may be read again with a question, and how many of those of all documents should be."""

    count: int
    sentences: "list[FoundSentence]"


@dataclass(frozen=True)
class ReadAgain:
    """What a second look found, and the calibration of its answers."""

    look: "Look"
    calibration: "Calibration | None"


@dataclass(frozen=True)
class BestSentences:
    """A document's title, its sentences that fit a query best, and the passages around them."""

    title: str
    sentences: list[Sentence]
    passages: list[Excerpt]


@dataclass(frozen=True, eq=False)
class _ScoredDocuments:
    documents: list[OpenDocument]
    phrases: "ScoredPhrases"


class RecentScores:
    """The scores of the last questions' phrases: their next step may come with another call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._scores: OrderedDict[tuple[object, ...], _ScoredDocuments] = OrderedDict()

    def get(self, key: tuple[object, ...], documents: Sequence[OpenDocument]) -> _ScoredDocuments | None:
        """The scores under a key, if they are those of the same versions of documents."""
        with self._lock:
            scores = self._scores.get(key)
        versions = [document.entry_data for document in documents]
        if scores is None or [document.entry_data for document in scores.documents] != versions:
            return None
        return scores

    def put(self, key: tuple[object, ...], scores: _ScoredDocuments) -> None:
        with self._lock:
            self._scores[key] = scores
            while len(self._scores) > _QUESTIONS:
                self._scores.popitem(last=False)


class OpenedShard:
    """One state of a store, and the index as of it.

    A step is given the names of documents of all shards, and returns what it finds out about its own: documents of
    other shards, damaged ones and those that are gone are missing in the results.
    """

    def __init__(
        self,
        now: Snapshot,
        index: SearchIndex,
        reader: "Reader",
        cache: MemoryCache,
        recent: RecentScores,
        subsets: SubsetCache,
    ) -> None:
        self._now, self._index, self._reader = now, index, reader
        self._cache, self._recent, self._subsets = cache, recent, subsets
        self._documents: dict[str, OpenDocument | None] = {}
        self._spelling = Spelling(
            reader.tokenizer,
            lambda groups: index.holding(now, groups, LOOKED_AT + 1),
            self._opened,
        )

    def alone(self, step: "Callable[[OpenedShard], Result]") -> list[Result]:
        """Call a step as that of a library whose only shard this is (`asking.EachShard`)."""
        return [step(self)]

    def corpora(self, texts: Sequence[str], also: Sequence[Sequence[str]] | None = None) -> list[ShardCorpus]:
        """The frequencies of each text's words, and of other spellings `also` of some of them."""
        statistics = self._index.signer.projection.digest
        known = [self._spelling.known(doubtful_words(text)) if also is None else set() for text in texts]
        return [
            ShardCorpus(corpus, statistics, words)
            for corpus, words in zip(self._index.corpora(texts, also), known, strict=True)
        ]

    def neighbours(self, words: Iterable[str]) -> dict[str, list[str]]:
        """Other spellings of words that documents have."""
        return {word: self._spelling.neighbours(word) for word in words}

    def moments(self, asked: Sequence[CorpusQuery]) -> list[Standards]:
        """The moments of scores by words and by signatures."""
        return self._index.moments(asked)

    def nearest(self, asked: Sequence[CorpusQuery], standards: Sequence[Standards]) -> list[Nearest]:
        """The documents with the highest rounded scores, compared exactly."""
        return self._index.nearest(asked, standards)

    def best(
        self,
        asked: Sequence[CorpusQuery],
        standards: Sequence[Standards],
        count: int,
        within: Subset | None = None,
    ) -> list[list[RankedDocument]]:
        """The best documents, of all or of a subset."""
        keys = self._subsets.keys(self._now, within) if within else None
        return self._index.best(self._now, asked, standards, count, keys)

    def has_any(self, within: Subset) -> bool:
        """Whether a subset has a document here."""
        return bool(self._subsets.keys(self._now, within))

    def quotes(self, quote: str, names: Iterable[str]) -> dict[str, list[QuotedPlace] | None]:
        """The places of documents that say a quote; None of a document whose text is not kept."""
        words = words_of(quote)
        return {document.name: _passages(quote, words, document) for document in self._opened(names)}

    def match(self, query: str, names: Iterable[str]) -> dict[str, float]:
        """How well the phrases of documents fit a query."""
        documents = self._opened(names)
        matches = self._reader.match([document.memory for document in documents], query)
        return {document.name: match for document, match in zip(documents, matches, strict=True)}

    def sentences(self, query: str, names: Iterable[str], passages: bool) -> dict[str, BestSentences]:
        """The sentences of documents that fit a query best; none of a text that is not kept."""
        return {document.name: self._sentences(query, document, passages) for document in self._opened(names)}

    def whole_sentences(self, answers: Sequence[Answer]) -> dict[str, Answer]:
        """Those answers, by their number, whose documents are here, as the sentences that they stand in."""
        found = {}
        for at, answer in enumerate(answers):
            for document in self._opened([answer.document] if answer.document else []):
                found[str(at)] = whole_sentence(answer, document.text)
        return found

    def scores(self, asked: Sequence[AskedDocuments]) -> list[PhraseScores]:
        """The sums over the phrases of documents."""
        return [self._scores(question) for question in asked]

    def shares(
        self, asked: Sequence[AskedDocuments], totals: Sequence[float], top: int | None
    ) -> "list[dict[str, Shares]]":
        """The likeliest phrases of documents; a total is the logarithm of the sum over all that are asked."""
        return [self._shares(question, total, top) for question, total in zip(asked, totals, strict=True)]

    def found_sentences(
        self, asked: Sequence[AskedDocuments], totals: Sequence[float], look: int | None
    ) -> list[FoundSentences]:
        """The sentences of documents that may be read again, and how many of all should be."""
        return [self._found(question, total, look) for question, total in zip(asked, totals, strict=True)]

    def read_again(
        self, asked: Sequence[AskedDocuments], sentences: "Sequence[Sequence[FoundSentence]]"
    ) -> list[ReadAgain | None]:
        """What a second look finds in the sentences of each question.

        One shard looks, the one that has the document of the first sentence; the others return None.
        """
        own = [
            list(found) if found and self._opened([found[0].document or ""]) else [] for found in sentences
        ]
        network = self._reader.second_look if any(own) else None
        if network is None:
            return [None] * len(asked)
        looks = network.read([question.question for question in asked], own)
        calibration = self._reader.look_calibration
        return [None if look is None else ReadAgain(look, calibration) for look in looks]

    def _found(self, asked: AskedDocuments, total: float, look: int | None) -> FoundSentences:
        count = min(self._reader.look_of(look) + _MORE_OF_ALL, _MOST) if self._reader.look_of(look) else 0
        scored = self._scored(asked)
        if not count or scored is None:
            return FoundSentences(count, [])
        texts = [document.text for document in scored.documents]
        found = []
        for document, of_document in zip(
            scored.documents, scored.phrases.found_sentences(total, count, texts), strict=True
        ):
            for sentence in of_document:
                place = place_in(document.parts, sentence.phrase_start)
                found.append(sentence._replace(document=document.name, place=place))
        return FoundSentences(count, found)

    def _sentences(self, query: str, document: OpenDocument, passages: bool) -> BestSentences:
        title, text = document.entry.title, document.text
        if text is None:
            return BestSentences(title, [], [])
        places = self._reader.best_sentences(document.memory, query, _SENTENCES)
        sentences = [
            Sentence(text[start:end], start, end, place_in(document.parts, start)) for start, end in places
        ]
        around = passages_around(text, places) if passages else []
        return BestSentences(
            title,
            sentences,
            [Excerpt(text[start:end], start, end, place_in(document.parts, start)) for start, end in around],
        )

    def _scores(self, asked: AskedDocuments) -> PhraseScores:
        scored = self._scored(asked)
        if scored is None:
            return PhraseScores({}, 0.0, None)
        names = [document.name for document in scored.documents]
        log_sums = dict(zip(names, scored.phrases.log_sums(), strict=True))
        return PhraseScores(log_sums, scored.phrases.query.null, scored.phrases.calibration)

    def _shares(self, asked: AskedDocuments, total: float, top: int | None) -> "dict[str, Shares]":
        scored = self._scored(asked)
        if scored is None:
            return {}
        shares = scored.phrases.shares(total, top, [document.text for document in scored.documents])
        return {
            document.name: share._replace(answers=with_places(share.answers, document.parts))
            for document, share in zip(scored.documents, shares, strict=True)
        }

    def _scored(self, asked: AskedDocuments) -> _ScoredDocuments | None:
        documents = self._opened(asked.biases)
        if not documents:
            return None
        biases = [asked.biases[document.name] for document in documents]
        key = (asked.question, *biases)
        scored = self._recent.get(key, documents)
        if scored is None:
            memories = [document.memory for document in documents]
            scored = _ScoredDocuments(documents, self._reader.scored(memories, asked.question, biases))
            self._recent.put(key, scored)
        return scored

    def _opened(self, names: Iterable[str]) -> list[OpenDocument]:
        """Those documents that are here, and not damaged."""
        for name in names:
            if name not in self._documents:
                self._documents[name] = self._open(name)
        return [document for name in names if (document := self._documents[name]) is not None]

    def _open(self, name: str) -> OpenDocument | None:
        try:
            return self._cache.get(self._now, name)
        except (RecordError, UnknownDocumentError):  # `attar store check` reports what is damaged
            return None


def _passages(quote: str, words: Sequence[Word], document: OpenDocument) -> list[QuotedPlace] | None:
    """The places of a document that say a quote."""
    check_stopped()
    text = document.text
    if text is None:
        return None
    return [
        QuotedPlace(
            document.name,
            text[match.start : match.end],
            match.start,
            match.end,
            place_in(document.parts, match.start),
            match.differences,
        )
        for match in find_quote(words, quote, text)
    ]
