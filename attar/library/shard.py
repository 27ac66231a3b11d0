"""One shard's part in questions to all documents: what its own documents say at each step (`asking`, `finding`)."""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np

from attar.errors import RecordError, UnknownDocumentError
from attar.library.documents import (
    MemoryCache,
    OpenDocument,
    SubsetCache,
    place_in,
    shown_answers,
    whole_sentence,
    with_places,
)
from attar.library.finding import SearchedText, doubtful_words, is_number, other_spellings, says_word
from attar.options import MOST_LOOK
from attar.progress import check_stopped
from attar.results import Answer, Excerpt, Hit, QuotedPlace, Sentence, Subset
from attar.search.index import SearchIndex
from attar.search.lexical import Corpus
from attar.search.ranking import CorpusQuery, Nearest, RankedDocument, Standards
from attar.store.transactions import Snapshot
from attar.text.quotes import Word, find_quote, words_of
from attar.text.sentences import passages_around

if TYPE_CHECKING:
    from attar.memory.memory import Floats
    from attar.reader.answers import ScoredPhrases
    from attar.reader.questions import Overlap, Query
    from attar.reader.reader import Reader
    from attar.reader.second_look import FoundSentence, Look


# Sentences shown per document.
_SENTENCES = 2
# Sentences that are read again in addition where all documents are asked: these compete.
_MORE_OF_ALL = 2
# Scores of a document for a question that are kept for the next step.
_SCORED = 256
# Documents whose sentences are looked at for one word,
_LOOKED_AT = 8
# and how many other spellings of a word are taken, if there are several.
_MOST_SPELLINGS = 3

Result = TypeVar("Result")


class EachShard(Protocol):
    """Calls every shard with a step, and returns the results in the order of shards."""

    def __call__(self, step: "Callable[[OpenedShard], Result]") -> list[Result]: ...


@dataclass(frozen=True)
class ShardCorpus:
    """The frequencies of a text's words, and the digest of the statistics that its signature is made with.

    `unknown` are its long words that no document has, and its numbers, which may be written in both ways.
    """

    corpus: Corpus
    statistics: bytes
    unknown: list[str]


@dataclass(frozen=True)
class PhraseScores:
    """The logarithm of the sum over the phrases of each document, and the score of "no answer".

    Of no documents, the question is not looked at.
    """

    log_sums: dict[str, float]
    null: float

    @cached_property
    def total(self) -> float:
        """The logarithm of the sum over the phrases of all documents, and "no answer"."""
        from attar.reader.answers import total_of

        return total_of(self.null, list(self.log_sums.values()))


@dataclass(frozen=True)
class LikeliestPhrases:
    """The likeliest phrases of documents, and their sentences that may be read again; `count` of all should be."""

    shares: dict[str, list[Answer]]
    sentences: "list[FoundSentence]"
    count: int


class RecentScores:
    """The scores of the last documents' phrases for questions: the next step of a shard may come with another call."""

    def __init__(self) -> None:
        # Without the documents, which the cache of memories may drop.
        self._scores: OrderedDict[tuple[str, bytes], tuple[Query, Floats, Overlap]] = OrderedDict()

    def scored(self, reader: "Reader", question: str, documents: Sequence[OpenDocument]) -> "ScoredPhrases":
        """The scores of a question's phrases in these versions of documents; there is at least one."""
        from attar.reader.answers import ScoredPhrases
        from attar.reader.questions import ScoredMemory

        keys = [(question, document.entry_data) for document in documents]
        found = {key: known for key in keys if (known := self._scores.get(key)) is not None}
        new = {
            key: document.memory for key, document in zip(keys, documents, strict=True) if key not in found
        }
        if new:
            scored = reader.scored(list(new.values()), question)
            parts = [(scored.query, document.scores, document.overlap) for document in scored.documents]
            found |= zip(new, parts, strict=True)
            self._scores |= found
            while len(self._scores) > _SCORED:
                self._scores.popitem(last=False)
        memories = [
            ScoredMemory(document.memory.phrases, *found[key][1:])
            for key, document in zip(keys, documents, strict=True)
        ]
        return ScoredPhrases(found[keys[0]][0], memories)


class OpenedShard:
    """One state of a store, and the index as of it.

    A step is given the names of documents of all shards, and returns what it finds out about its own: documents of
    other shards, damaged ones and those that are gone are missing in the results.
    """

    def __init__(
        self,
        now: Snapshot,
        index: SearchIndex,
        cache: MemoryCache,
        recent: RecentScores,
        subsets: SubsetCache,
    ) -> None:
        self._now, self._index, self._reader = now, index, index.signer.reader
        self._cache, self._recent, self._subsets = cache, recent, subsets
        self._documents: dict[str, OpenDocument | None] = {}

    def alone(self, step: "Callable[[OpenedShard], Result]") -> list[Result]:
        """Call a step as that of a library whose only shard this is (`asking.EachShard`)."""
        return [step(self)]

    def corpora(self, texts: Sequence[str], also: Sequence[Sequence[str]] | None = None) -> list[ShardCorpus]:
        """The frequencies of each text's words, and of other spellings `also` of some of them."""
        statistics = self._index.signer.projection.digest
        doubtful = [doubtful_words(text) if also is None else [] for text in texts]
        words = {word for of_text in doubtful for word in of_text if not is_number(word)}
        known = self._known_words(sorted(words))
        return [
            ShardCorpus(corpus, statistics, [word for word in of_text if word not in known])
            for corpus, of_text in zip(self._index.corpora(texts, also), doubtful, strict=True)
        ]

    def neighbours(self, words: Iterable[str]) -> dict[str, list[str]]:
        """Other spellings of words that documents have."""
        near = {word: self._spellings(word) for word in words}
        known = self._known_words(sorted(set().union(*near.values())), if_many=False)
        return {word: sorted(known & spellings)[:_MOST_SPELLINGS] for word, spellings in near.items()}

    def _spellings(self, word: str) -> set[str]:
        """Other spellings of a word that documents may have."""
        return set(other_spellings(word))

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
        matches = self._recent.scored(self._reader, query, documents).matches() if documents else []
        return {document.name: match for document, match in zip(documents, matches, strict=True)}

    def sentences(self, query: str, names: Iterable[str], passages: bool) -> dict[str, Hit]:
        """Documents with their sentences that fit a query best; none of a text that is not kept."""
        documents = self._opened(names)
        kept = [document for document in documents if document.text is not None]
        scored = self._recent.scored(self._reader, query, kept).documents if kept else []
        places = {
            document.name: [(best.start, best.end) for best in scores.best_sentences(_SENTENCES)]
            for document, scores in zip(kept, scored, strict=True)
        }
        return {
            document.name: _shown_sentences(document, places.get(document.name, []), passages)
            for document in documents
        }

    def whole_sentences(self, answers: Sequence[Answer]) -> dict[str, Answer]:
        """Those answers, by their number, whose documents are here, as the sentences that they stand in."""
        found = {}
        for at, answer in enumerate(answers):
            for document in self._opened([answer.document] if answer.document else []):
                found[str(at)] = whole_sentence(answer, document.text)
        return found

    def answers(
        self, questions: Sequence[str], names: Sequence[Sequence[str]], top: int | None, look: int | None
    ) -> list[dict[str, list[Answer]]]:
        """The answers to each question of its documents, each asked alone."""
        return [
            self._answers(question, self._opened(of_question), top, look)
            for question, of_question in zip(questions, names, strict=True)
        ]

    def _answers(
        self, question: str, documents: Sequence[OpenDocument], top: int | None, look: int | None
    ) -> dict[str, list[Answer]]:
        # Not with other questions: rounding would depend on these.
        ranked = self._reader.answer_many(
            [document.memory for document in documents],
            [question] * len(documents),
            top=top,
            texts=[document.text for document in documents],
            names=[document.name for document in documents],
            look=look,
        )
        return {
            document.name: shown_answers(question, answers, document)
            for document, answers in zip(documents, ranked, strict=True)
        }

    def scores(self, question: str, biases: Mapping[str, float]) -> PhraseScores:
        """The sums over the phrases of documents, to whose scores something is added."""
        documents = self._opened(biases)
        if not documents:
            return PhraseScores({}, 0.0)
        scored = self._biased_scores(question, biases, documents)
        log_sums = zip((document.name for document in documents), scored.log_sums(), strict=True)
        return PhraseScores(dict(log_sums), scored.query.null)

    def read_again(self, question: str, sentences: "Sequence[FoundSentence]") -> "Look | None":
        """What a second look finds in sentences; the shard looks that has the document of the first one."""
        if not sentences or not self._opened([sentences[0].document or ""]):
            return None
        network = self._reader.second_look
        return None if network is None else network.read([question], [list(sentences)])[0]

    def phrases(
        self, question: str, biases: Mapping[str, float], total: float, top: int | None, look: int | None
    ) -> LikeliestPhrases:
        """The likeliest phrases and sentences; `total` is the logarithm of the sum over all documents asked."""
        look = self._reader.look_of(look)
        count = min(look + _MORE_OF_ALL, MOST_LOOK) if look else 0
        documents = self._opened(biases)
        if not documents:
            return LikeliestPhrases({}, [], count)
        scored = self._biased_scores(question, biases, documents)
        texts = [document.text for document in documents]
        shares = {
            document.name: with_places(share, document.parts)
            for document, share in zip(documents, scored.shares(total, top, texts), strict=True)
        }
        names = [document.name for document in documents]
        found = scored.found_sentences(total, count, texts, names) if count else [[] for _ in names]
        sentences = [
            sentence._replace(document=document.name, place=place_in(document.parts, sentence.phrase_start))
            for document, of_document in zip(documents, found, strict=True)
            for sentence in of_document
        ]
        return LikeliestPhrases(shares, sentences, count)

    def _biased_scores(
        self, question: str, biases: Mapping[str, float], documents: Sequence[OpenDocument]
    ) -> "ScoredPhrases":
        scored = self._recent.scored(self._reader, question, documents)
        biased = [
            replace(scores, scores=scores.scores + np.float32(biases[document.name]))
            for scores, document in zip(scored.documents, documents, strict=True)
        ]
        return replace(scored, documents=biased)

    def _known_words(self, words: Sequence[str], *, if_many: bool = True) -> set[str]:
        """Those words that a document has.

        A text says so; if it is not kept, one sentence has all pieces of the word. `if_many`: whether a document has it
        if so many documents hold the pieces that not all are looked at.
        """
        read = (ids for ids, _ in self._reader.tokenizer.read_sentences(words))
        pieces = [np.array(sorted({*ids.tolist()}), ids.dtype) for ids in read]
        holding = self._index.holding(pieces, _LOOKED_AT + 1)
        # Texts are the same for many words.
        searched = lru_cache(_LOOKED_AT)(SearchedText)
        found = set()
        for word, ids, keys in zip(words, pieces, holding, strict=True):
            if not keys:
                continue
            check_stopped()
            is_known = len(ids) == 1 or (if_many and len(keys) > _LOOKED_AT)
            if is_known or any(
                says_word(document.memory.phrases, searched(document.text), word, ids)
                for document in self._holding(keys)
            ):
                found.add(word)
        return found

    def _holding(self, keys: Sequence[bytes]) -> Iterator[OpenDocument]:
        """Yield documents that may have a word: opened one after the other, and only if it depends on them."""
        for key in keys[:_LOOKED_AT]:
            entry = self._now.find_key(key)
            yield from self._opened([entry.name] if entry is not None else [])

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


def _shown_sentences(document: OpenDocument, places: list[tuple[int, int]], passages: bool) -> Hit:
    """A document's sentences at some places, and with `passages` the paragraphs around them."""
    text, parts = document.text or "", document.parts
    around = passages_around(text, places) if passages else []
    return Hit(
        document.name,
        document.entry.title,
        0.0,
        [Sentence(text[start:end], start, end, place_in(parts, start)) for start, end in places],
        [Excerpt(text[start:end], start, end, place_in(parts, start)) for start, end in around],
    )


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
