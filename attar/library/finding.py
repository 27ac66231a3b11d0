"""The documents that fit a text best, by words and by signatures; searching for them, and verifying quotes in them.

At each step, every shard says what its own documents do (`OpenedShard`); then the replies are merged.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, reduce
from operator import add, or_
from string import ascii_lowercase
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from attar.errors import FormatError, OptionError
from attar.library.documents import nothing_in
from attar.memory.phrases import PhraseIndex
from attar.results import Hit, QuotedPlace, Subset, Verdict, Verified, check_asked, check_top
from attar.search.ranking import (
    PHRASES_WEIGHT,
    RERANKED,
    CorpusQuery,
    RankedDocument,
    best_of,
    refined,
    rerank,
)
from attar.text.kinds import is_question
from attar.text.quotes import MOST_WORDS, words_of

if TYPE_CHECKING:
    from attar.library.shard import EachShard, ShardCorpus

# Documents whose texts are compared with a quote.
_VERIFIED = 20
# Unknown words of a text whose other spellings are looked up.
_MOST_UNKNOWN = 4
# A number of four digits or more.
_NUMBER = re.compile(r"(?<![\w.,])(?:\d{1,3}(?:,\d{3})+|\d{4,12})(?![\w]|,\d)")
# In short words, most neighbours are other words: "form", "from", "farm".
_WORD = re.compile(r"[^\W\d_]{5,24}")
_LETTERS = re.compile(r"[^\W\d_]+")
# Words of a text that are looked at: a query has few.
_MOST_WORDS = 24

Value = TypeVar("Value")


def search(
    each_shard: "EachShard", query: str, top: int, within: Subset | None = None, passages: bool = False
) -> list[Hit]:
    """The best documents with their best sentences: the first of them ranked again by how well their phrases fit."""
    check_top(top)
    check_asked("query", query)
    (candidates,) = find_candidates(each_shard, [query], max(top, RERANKED), within)
    first = [document.name for document in candidates[:RERANKED]]
    (matches,) = joined(each_shard(lambda shard: [shard.match(query, first)]))
    sound = [document for document in candidates[:RERANKED] if document.name in matches]
    candidates = sound + candidates[RERANKED:]
    order = rerank(
        [document.score for document in candidates],
        [matches[document.name] for document in sound],
        PHRASES_WEIGHT if is_question(query) else 0.0,
    )
    names = [candidates[at].name for at, _ in order[:top]]
    (shown,) = joined(each_shard(lambda shard: [shard.sentences(query, names, passages)]))
    scores = zip(names, order, strict=False)
    return [replace(shown[name], score=score) for name, (_, score) in scores if name in shown]


def verify(each_shard: "EachShard", quote: str, within: Subset | None = None) -> Verified:
    """Whether documents say a quote: of the best ones by words and by signatures, the texts are compared with it."""
    check_asked("quote", quote)
    count = len(words_of(quote))
    if not 0 < count <= MOST_WORDS:
        raise FormatError.expected("quote", f"1 to {MOST_WORDS:,} words", f"{count:,}", "verify a part of it")
    (candidates,) = find_candidates(each_shard, [quote], _VERIFIED, within)
    names = [document.name for document in candidates]
    (found,) = joined(each_shard(lambda shard: [shard.quotes(quote, names)]))
    in_order = [found[name] for name in names if name in found]
    passages = [passage for of_document in in_order for passage in of_document or ()]
    passages.sort(key=_changed_words)
    verdict: Verdict = "absent" if not passages else "nearly" if passages[0].differences else "found"
    nearest = [passage for passage in passages if verdict == "nearly" or not passage.differences]
    return Verified(verdict, nearest, sum(of_document is None for of_document in in_order))


def _changed_words(passage: QuotedPlace) -> int:
    return sum(
        max(len(difference.quote.split()), len(difference.text.split())) for difference in passage.differences
    )


def find_candidates(
    each_shard: "EachShard", texts: Sequence[str], count: int, within: Subset | None = None
) -> list[list[RankedDocument]]:
    """The best documents for each text, best first, by words and by signatures; all are of the subset."""
    if within and not any(each_shard(lambda shard: shard.has_any(within))):
        raise nothing_in(within)
    corpora = each_shard(lambda shard: shard.corpora(texts))
    also = _other_spellings(each_shard, texts, corpora)
    asked = _queries(texts, corpora)
    if any(also):
        others = [(text, words) for text, words in zip(texts, also, strict=True) if words]
        respelled, words = map(list, zip(*others, strict=True))
        changed = iter(_queries(respelled, each_shard(lambda shard: shard.corpora(respelled, words))))
        asked = [next(changed) if words else query for query, words in zip(asked, also, strict=True)]
    moments = each_shard(lambda shard: shard.moments(asked))
    standards = [reduce(add, shards) for shards in zip(*moments, strict=True)]
    rounded = [at for at, standard in enumerate(standards) if standard.rounded]
    if rounded:
        again, before = [asked[at] for at in rounded], [standards[at] for at in rounded]
        nearest = each_shard(lambda shard: shard.nearest(again, before))
        for at, shards in zip(rounded, zip(*nearest, strict=True), strict=True):
            standards[at] = refined(standards[at], shards)
    best = each_shard(lambda shard: shard.best(asked, standards, count, within))
    return [best_of(shards, count) for shards in zip(*best, strict=True)]


def _other_spellings(
    each_shard: "EachShard", texts: Sequence[str], corpora: "Sequence[Sequence[ShardCorpus]]"
) -> list[list[str]]:
    """How documents spell words of each text that none of them has: "1,610" for "1610", "Raman" for "Ramen"."""
    unknown = [
        [word for word in shards[0].unknown if all(word in shard.unknown for shard in shards)][:_MOST_UNKNOWN]
        for shards in zip(*corpora, strict=True)
    ]
    words = list(dict.fromkeys(word for of_text in unknown for word in of_text))
    if not words:
        return [[] for _ in texts]
    found = each_shard(lambda shard: shard.neighbours(words))
    return [
        sorted({near for word in of_text for shard in found for near in shard[word]}) for of_text in unknown
    ]


def _queries(texts: Sequence[str], corpora: "Sequence[Sequence[ShardCorpus]]") -> list[CorpusQuery]:
    """Texts with the frequencies of their words in all shards."""
    queries = []
    for text, shards in zip(texts, zip(*corpora, strict=True), strict=True):
        if len({shard.statistics for shard in shards}) > 1:
            remedy = "fit them together: attar store refit FOLDER, of all shards"
            raise OptionError("the shards of the library have different statistics for search", remedy)
        queries.append(CorpusQuery(text, reduce(add, (shard.corpus for shard in shards))))
    return queries


def doubtful_words(text: str) -> list[str]:
    """The long words and the numbers of a text, in lower case, each once.

    >>> doubtful_words("Did Priya Ramen pay 1610 pounds?")
    ['1610', 'priya', 'ramen', 'pounds']
    """
    found = [match[0] for pattern in (_NUMBER, _WORD) for match in pattern.finditer(text)]
    return list(dict.fromkeys(word.lower() for word in found))[:_MOST_WORDS]


def is_number(word: str) -> bool:
    return word[:1].isdigit()


def other_spellings(word: str) -> Iterator[str]:
    """Yield a number as others write it, or the words that differ by one letter, or two swapped, after the first.

    >>> list(other_spellings("1610")), list(other_spellings("1,610,000"))
    (['1,610'], ['1610000'])
    >>> near = list(other_spellings("ramen"))
    >>> len(near), "raman" in near, "rmaen" in near, "raen" in near, "hamen" in near
    (233, True, True, True, False)
    """
    if is_number(word):
        yield word.replace(",", "") if "," in word else f"{int(word):,}"
        return
    near: dict[str, None] = {}
    for at in range(1, len(word) + 1):
        before, after = word[:at], word[at:]
        if after:
            near[before + after[1:]] = None
            near.update((before + letter + after[1:], None) for letter in ascii_lowercase)
        if len(after) > 1:
            near[before + after[1] + after[0] + after[2:]] = None
        near.update((before + letter + after, None) for letter in ascii_lowercase)
    near.pop(word, None)
    yield from near


def says_word(index: PhraseIndex, text: "SearchedText", word: str, ids: NDArray[np.int64]) -> bool:
    """Whether a text has a word of these pieces; if it is not kept, whether one of its sentences has all of them."""
    places = np.flatnonzero(np.isin(index.words, ids))
    # Each piece once per sentence.
    sentences = np.searchsorted(index.word_starts, places, "right")
    in_one_sentence = len(places) and np.bincount(sentences).max() == len(ids)
    return bool(in_one_sentence) and text.has(word)


class SearchedText:
    """A text in which several words are looked up, in any case and with any accents; None if it is not kept.

    >>> [SearchedText(text).has("raman") for text in ("Priya Ramán left.", "Ramanujan left.", None)]
    [True, False, True]
    """

    def __init__(self, text: str | None) -> None:
        self._text = text

    @cached_property
    def _lower(self) -> str:
        return (self._text or "").lower()

    @cached_property
    def _plain(self) -> str:
        return _without_accents(self._text or "").lower()

    def has(self, word: str) -> bool:
        # Most texts say it as it is; to take accents off takes a hundred times as long.
        if self._text is None or _finds(self._lower, word):
            return True
        return not self._text.isascii() and _finds(self._plain, word)


def _finds(text: str, word: str) -> bool:
    """Whether a text has a word with no letter or digit beside it; a pattern would be compiled for each word."""
    at = text.find(word)
    while at >= 0:
        beside = text[max(at - 1, 0) : at] + text[at + len(word) : at + len(word) + 1]
        if not any(sign.isalnum() or sign == "_" for sign in beside):
            return True
        at = text.find(word, at + 1)
    return False


def _without_accents(text: str) -> str:
    if text.isascii():
        return text
    return "".join(sign for sign in unicodedata.normalize("NFKD", text) if not unicodedata.combining(sign))


def letter_words(text: str) -> set[str]:
    """All that `SearchedText` may find in a text, but for numbers: in lower case, without accents.

    >>> sorted(letter_words("Priya Ramán, Priya's 2nd aunt"))
    ['aunt', 'nd', 'priya', 'raman', 's']
    """
    return set(_LETTERS.findall(_without_accents(text).lower()))


def joined(shards: Iterable[Sequence[dict[str, Value]]]) -> list[dict[str, Value]]:
    """What shards say about their own documents by name, for each question, as one."""
    return [reduce(or_, replies) for replies in zip(*shards, strict=True)]
