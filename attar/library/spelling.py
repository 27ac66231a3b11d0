"""Words of a query that documents may spell in another way: numbers with and without separators, names with a typo."""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from string import ascii_lowercase
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from attar.library.documents import OpenDocument
from attar.progress import check_stopped

if TYPE_CHECKING:
    from attar.text.pieces import PieceTokenizer

# A number of four digits or more.
_NUMBER = re.compile(r"(?<![\w.,])(?:\d{1,3}(?:,\d{3})+|\d{4,12})(?![\w]|,\d)")
# In short words, most neighbours are other words: "form", "from", "farm".
_WORD = re.compile(r"[^\W\d_]{5,24}")
# Words of a text that are looked at: a query has few.
_MOST_WORDS = 24
# Documents whose sentences are looked at for one word.
LOOKED_AT = 8
# Unknown words of a query whose neighbours are looked up,
MOST_UNKNOWN = 4
# and how many neighbours of each are taken, if there are several.
_MOST_NEIGHBOURS = 3

Ids = NDArray[np.int64]
# The names of documents that hold all pieces of each word, some of them.
Holding = Callable[[Sequence[Ids]], list[list[str]]]


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


class Spelling:
    """Which words documents have: as texts say, or if one is not kept, all pieces of a word in one sentence."""

    def __init__(
        self,
        tokenizer: "PieceTokenizer",
        holding: Holding,
        opened: Callable[[Iterable[str]], list[OpenDocument]],
    ) -> None:
        self._tokenizer, self._holding, self._opened = tokenizer, holding, opened

    def known(self, words: Sequence[str]) -> set[str]:
        """Those words that a document has; if so many documents hold the pieces that not all are looked at, it has."""
        return self._found(words, if_many=True)

    def neighbours(self, word: str) -> list[str]:
        """The other spellings of a word that a document has."""
        found = self._found([*other_spellings(word)], if_many=False)
        return sorted(found)[:_MOST_NEIGHBOURS]

    def _found(self, words: Sequence[str], *, if_many: bool) -> set[str]:
        pieces = [np.unique(ids) for ids, _ in self._tokenizer.read_sentences(words)]
        found = set()
        for word, ids, names in zip(words, pieces, self._holding(pieces), strict=True):
            if not names:
                continue
            is_one_piece, is_many = len(ids) == 1, len(names) > LOOKED_AT
            if is_one_piece or (is_many and if_many) or self._is_said(word, ids, names[:LOOKED_AT]):
                found.add(word)
        return found

    def _is_said(self, word: str, ids: Ids, names: Sequence[str]) -> bool:
        check_stopped()
        return any(
            _has_sentence_with(document, ids) and _has_word(document.text, word)
            for document in self._opened(names)
        )


def _has_word(text: str | None, word: str) -> bool:
    """Whether a text has a word, in any case and with any accents; not known without the text.

    >>> _has_word("Priya Ramán left.", "raman"), _has_word("Ramanujan left.", "raman"), _has_word(None, "raman")
    (True, False, True)
    """
    if text is None:
        return True
    if not text.isascii():
        text = "".join(
            sign for sign in unicodedata.normalize("NFKD", text) if not unicodedata.combining(sign)
        )
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text, re.IGNORECASE) is not None


def _has_sentence_with(document: OpenDocument, ids: Ids) -> bool:
    index = document.memory.phrases
    places = np.flatnonzero(np.isin(index.words, ids))
    # Each piece once per sentence.
    sentences = np.searchsorted(index.word_starts, places, "right")
    return bool(len(places)) and int(np.unique(sentences, return_counts=True)[1].max()) == len(ids)


def unknown_words(words: Sequence[str], known: Iterable[set[str]]) -> list[str]:
    """The words that no shard knows, and numbers, which may be written in both ways."""
    anywhere = set[str]().union(*known)
    return [word for word in words if is_number(word) or word not in anywhere][:MOST_UNKNOWN]
