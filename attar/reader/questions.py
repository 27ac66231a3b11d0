"""Questions into queries, with numpy alone; a query gives every phrase of a memory a score."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attar.errors import DtypeError
from attar.memory.memory import Floats
from attar.memory.phrases import PhraseIndex
from attar.progress import check_stopped, one_thread
from attar.reader.fast_spans import Int8Encoder
from attar.reader.parts import QUICK_LAYERS, TEXT_LAYERS, ReaderParts
from attar.text.kinds import COMMON, without_preface

# How much a phrase loses that only repeats words of the question. EM on 455 questions of SQuAD dev: .532 without,
# .545 with 3, .549 with 6.
_REPEATED = 4.0
# Among how many of the best phrases such ones are looked for.
_REPEATED_AMONG = 64
# How much a word of the question counts in the sentences that have it itself, if only few do. EM on 700 questions of
# SQuAD 1.1 with 0, .8 and 2: whole articles .454, .480, .476; paragraphs .560, .566, .556.
_EXACT = 0.8
# How many numbers the overlap of words computes at a time: 16 MB.
_NUMBERS = 2**22
_WORD = re.compile(r"\w+")


def content_words(text: str) -> frozenset[str]:
    """The words of a text in lower case, but for the most common ones.

    >>> sorted(content_words("Who wrote to the Finches?"))
    ['finches', 'who', 'wrote']
    """
    return frozenset(_WORD.findall(text.lower())) - COMMON


@lru_cache(2**15)
def _first_word(text: str) -> str | None:
    """The first word of a phrase, in lower case; many questions have the same documents."""
    first = _WORD.search(text)
    return None if first is None else first[0].lower()


class BestSentence(NamedTuple):
    """The characters of a sentence, how well it fits a question, and the number of its likeliest phrase."""

    start: int
    end: int
    score: float
    phrase: int | None


class Overlap(NamedTuple):
    """How much each sentence shares words with a question: words that are alike, and the very words."""

    alone: Floats  # [S]
    exact: Floats  # [S]

    def with_neighbours(self, neighbours: Floats) -> Floats:
        """The overlap of each sentence, with a share of what is alike in those before and after it.

        >>> overlap = Overlap(np.float32([1, 2, 4]), np.float32([0, 0, 1]))
        >>> overlap.with_neighbours(np.float32([0.5, 0.25])).tolist()
        [1.5, 3.5, 6.0]
        """
        total: Floats = self.alone.copy()
        total[1:] += neighbours[0] * self.alone[:-1]
        total[:-1] += neighbours[1] * self.alone[1:]
        return total + self.exact


@dataclass(frozen=True, eq=False)
class ScoredMemory:
    """The phrases of a memory, the score of each for a question, and the overlap of its sentences."""

    index: PhraseIndex
    scores: Floats  # [P]
    overlap: Overlap

    def best_sentences(self, count: int) -> list[BestSentence]:
        """The sentences that fit best: by shared words, and by the score of their best phrase."""
        index, scores = self.index, self.scores
        overlap = self.overlap.alone + self.overlap.exact
        highest = np.full(len(overlap), scores.min(initial=0.0), np.float32)
        np.maximum.at(highest, index.sentences, scores)
        known = np.flatnonzero(index.known_sentences)
        order = known[np.argsort(-(overlap + highest)[known], kind="stable")][:count]
        best = []
        for at in order.tolist():
            phrases = np.flatnonzero(index.sentences == at)
            phrase = int(phrases[scores[phrases].argmax()]) if len(phrases) else None
            start = int(index.sentence_starts[at])
            end = start + int(index.sentence_lengths[at])
            best.append(BestSentence(start, end, float(overlap[at] + highest[at]), phrase))
        return best


@dataclass(frozen=True, kw_only=True)
class Query:
    """An encoded question."""

    question: str
    vector: Floats  # [k]
    null: float  # the score of "no answer"
    weights: Floats  # [l], of its pieces
    words: Floats  # [l, w], the vectors of its pieces
    table: Floats  # [V, w], the vectors of all pieces
    asked: frozenset[str]  # its content words
    exact: list[NDArray[np.int64]]  # [l], the ids of each piece, and of a number's other forms

    def scored(
        self, products: Floats, index: PhraseIndex, neighbours: Floats, alone: Floats | None = None
    ) -> ScoredMemory:
        """The score of each phrase: product with the query + prior + overlap of its sentence's words.

        `neighbours` `[2]` are how much the sentences before and after count; `alone` is that of `Overlap`, if known.
        """
        overlap = self.overlap(index, alone)
        scores = products + index.priors
        if len(scores):
            scores += overlap.with_neighbours(neighbours)[index.sentences]
            self._lower_repeated(scores, index)
        return ScoredMemory(index, scores, overlap)

    def overlap(self, index: PhraseIndex, alone: Floats | None = None) -> Overlap:
        """How much each sentence shares words with the question."""
        return Overlap(self._alike(index) if alone is None else alone, self.exact_matches(index))

    def _alike(self, index: PhraseIndex) -> Floats:
        """How much the words of each sentence are like those of the question, `[S]`."""
        starts = index.word_starts
        distinct, row = index.distinct_words
        alike = np.maximum(self.table[distinct] @ self.words.T, 0.0)
        alone = np.zeros(len(starts) - 1, np.float32)
        filled = np.flatnonzero(starts[1:] > starts[:-1])
        # Some sentences at a time: a novel has 100,000 words, each with a number for every word of the question.
        bounds = np.append(starts[:-1][filled], starts[-1])
        first = 0
        while first < len(filled):
            limit = bounds[first] + _NUMBERS // max(1, len(self.words))
            last = max(first + 1, int(np.searchsorted(bounds, limit, "right")) - 1)
            by_word = alike[row[bounds[first] : bounds[last]]]
            best = np.maximum.reduceat(by_word, bounds[first:last] - bounds[first], axis=0)
            alone[filled[first:last]] = best @ self.weights
            first = last
        return alone

    def exact_matches(self, index: PhraseIndex) -> Floats:
        """What the question's very words add to sentences, `[S]`: the more, the fewer of the sentences have them.

        A word adds at most its weight, however long the text, so that documents can be compared.
        """
        # Sentences that a budget or a subtraction left without words are none.
        count = int((index.word_starts[1:] > index.word_starts[:-1]).sum())
        distinct, row = index.distinct_words
        ids = np.concatenate((*self.exact, [-1]))
        places = np.searchsorted(distinct, ids)
        pieces = np.repeat(np.arange(len(self.exact)), [len(forms) for forms in self.exact])
        is_there = np.flatnonzero(np.append(distinct, -2)[places] == ids)
        piece_of = np.full(len(distinct), -1)
        piece_of[places[is_there]] = pieces[is_there]
        found = piece_of[row]
        places = np.flatnonzero(found >= 0)
        sentences = np.searchsorted(index.word_starts, places, side="right") - 1
        # A sentence may have several forms of one number.
        pairs = np.sort(sentences * len(self.exact) + found[places])
        pairs = pairs[np.diff(pairs, prepend=-1) > 0]  # np.unique would import numpy.ma, which takes 6 ms
        sentences, pieces = np.divmod(pairs, max(1, len(self.exact)))
        having = np.bincount(pieces, minlength=len(self.exact))
        rarity = np.log((1 + count) / np.maximum(having, 1)) / np.log(1 + max(count, 1))
        total = len(index.word_starts) - 1
        added = np.bincount(sentences, (_EXACT * self.weights * rarity)[pieces], total)
        return added.astype(np.float32)

    def _lower_repeated(self, scores: Floats, index: PhraseIndex) -> None:
        """Lower the scores of phrases that only repeat words of the question: few of them are answers."""
        most = min(_REPEATED_AMONG, len(scores))
        best = np.argpartition(-scores, most - 1)[:most]
        known = self.asked | COMMON
        for at, text in zip(best.tolist(), index.texts_of(best), strict=True):
            if _first_word(text) not in known:  # nearly all: the rest takes most of the time
                continue
            words = _WORD.findall(text.lower())
            if known.issuperset(words) and not COMMON.issuperset(words):
                scores[at] -= _REPEATED


# The longest question, in pieces; the rest of a longer one is not read.
_LONGEST = 256
# Word pieces whose vectors are computed at a time: 6 MB of embeddings.
_PIECES = 4_096

_PAIR = ("weight", "bias")


class QuestionEncoder:
    """`PhraseNetwork.encode_questions` in int8 and without torch: with the quick encoder, or with the one of texts."""

    # Questions that are encoded together: their states stay in the caches.
    together = 32

    def __init__(self, parts: ReaderParts, *, quick: bool = True) -> None:
        self._parts, config = parts, parts.config.network.quick if quick else None
        self._heads_of = "network" if config is None else "quick"
        depth = (parts.options.encoder.layers, 0) if config is None else (config.shared, config.layers)
        self._names = [f"{TEXT_LAYERS}.{at}" for at in range(depth[0])]
        self._names += [f"{QUICK_LAYERS}.{at}" for at in range(depth[1])]

    def encode(self, questions: Sequence[str]) -> list[Query]:
        """The encoded questions, in order; the same question is encoded once."""
        for question in questions:
            if not isinstance(question, str):
                raise DtypeError.expected("question", "a string", type(question).__name__)
        plain = [without_preface(question) for question in questions]
        distinct = list(dict.fromkeys(plain))
        pieces = self.pieces(distinct)
        order = sorted(range(len(pieces)), key=lambda at: len(pieces[at]))
        queries: dict[str, Query] = {}
        for first in range(0, len(order), self.together):
            check_stopped()
            chosen = order[first : first + self.together]
            with one_thread():
                encoded = self._encode([distinct[at] for at in chosen], [pieces[at] for at in chosen])
            queries |= {query.question: query for query in encoded}
        return [queries[question] for question in plain]

    def states(self, ids: NDArray[np.int64], layers: int) -> Floats:
        """The states `[n, d]` of one short text's pieces after some layers of the text encoder, without torch."""
        tokenizer = self._parts.tokenizer
        whole = np.concatenate(([tokenizer.cls], ids, [tokenizer.sep]))
        names = [f"{TEXT_LAYERS}.{at}" for at in range(layers)]
        return self._encoder.states(whole, np.arange(len(whole)), 0, np.array([0, len(whole)]), names)[1:-1]

    def pieces(self, questions: Sequence[str]) -> list[NDArray[Any]]:
        """The word pieces of each question, with [CLS] and [SEP]."""
        read = self._parts.tokenizer.read_questions(
            [question.replace("___", " what ") for question in questions]
        )
        return [ids if len(ids) <= _LONGEST else np.append(ids[: _LONGEST - 1], ids[-1]) for ids in read]

    def _encode(self, questions: Sequence[str], pieces: Sequence[NDArray[Any]]) -> list[Query]:
        encoded = zip(questions, pieces, *self.encode_pieces(pieces), strict=True)
        return [self.query(*question) for question in encoded]

    def encode_pieces(self, pieces: Sequence[NDArray[Any]]) -> tuple[Floats, Floats, list[Floats]]:
        """The queries `[Q, k]`, the scores of "no answer" `[Q]`, and the weights of each question's pieces."""
        lengths = [len(ids) for ids in pieces]
        places, bounds = np.concatenate([np.arange(length) for length in lengths]), np.cumsum([0, *lengths])
        x = self._encoder.states(np.concatenate(pieces), places, 1, bounds, self._names)
        firsts = x[bounds[:-1]]
        queries, nulls, logits = (
            states @ self._heads[name][0].T + self._heads[name][1]
            for name, states in (("query", firsts), ("null", firsts), ("weight", x))
        )
        weights = np.logaddexp(logits[:, 0], 0, dtype=np.float32)
        return queries, nulls[:, 0], np.split(weights, bounds[1:-1])

    @cached_property
    def _encoder(self) -> Int8Encoder:
        words = partial(self._parts.weight, "network.encoder.words.weight")
        heads = self._parts.options.encoder.heads
        return Int8Encoder(self._parts.weights, "network.encoder", words, heads=heads, quick=True)

    def query(self, question: str, ids: NDArray[Any], vector: Floats, null: float, weights: Floats) -> Query:
        """A question whose vector, score of "no answer" and weights of pieces are known."""
        forms = self._parts.tokenizer.number_forms
        return Query(
            question=question,
            vector=vector,
            null=float(null),
            weights=weights[1 : len(ids)],
            words=self.words[ids[1:]],
            table=self.words,
            asked=content_words(question),
            exact=[forms[piece] if piece in forms else np.array([piece]) for piece in ids[1:].tolist()],
        )

    @cached_property
    def words(self) -> Floats:
        """One unit vector per word piece, `[V, w]`."""
        count, size = self._parts.options.encoder.vocabulary, self._parts.options.word_size
        word, table = self._parts.weight("network.word.weight"), np.empty((count, size), np.float32)
        for first in range(0, count, _PIECES):
            rows = self._parts.weight("network.encoder.words.weight", slice(first, first + _PIECES)) @ word.T
            norms = np.sqrt((rows * rows).sum(1, keepdims=True))
            table[first : first + _PIECES] = rows / np.maximum(norms, np.float32(1e-12))
        return table

    @cached_property
    def neighbours(self) -> Floats:
        """How much the sentences before and after count, `[2]`."""
        return self._parts.weight("network.neighbours")

    @cached_property
    def _heads(self) -> dict[str, list[Floats]]:
        weight = self._parts.weight
        return {
            name: [weight(f"{self._heads_of}.{name}.{part}") for part in _PAIR]
            for name in ("query", "null", "weight")
        }
