"""Names in English text, found by capitals, and their ids: a lone surname means the one longer name that has it."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from attar.paper.options import ENTITIES
from attar.paper.vocabulary import OPENERS, Vocabulary
from attar.text.english import (
    ALONE,
    COMMON_ENDINGS,
    FUNCTION_WORDS,
    MISTERS,
    NOT_PEOPLE,
    PARTICLES,
    PLACE_PREFIXES,
    PLACES,
    PLACES_FIRST,
    TITLES,
    word_set,
)

# Henry VIII, World War II; not Jet Li.
_NUMERAL = re.compile("(?=[XVI])(XL|X{0,3})(IX|IV|V?I{0,3})")
_SUFFIXES = word_set("jr jr. sr sr. esq esq.")
# The first word of a name, but not a name by itself: La Scala, but not the La of La traviata.
_ARTICLES = word_set("la le les il el los las")
# Words that never stand for a whole name. Al and Van are first names as well.
_NEVER_ALONE = FUNCTION_WORDS | _ARTICLES | (PARTICLES - {"al", "van"})
# Generic words that begin a name even at the start of a sentence.
_NAME_STARTS = PLACE_PREFIXES | _ARTICLES
# Words whose kind is remembered.
_REMEMBERED = 300_000

# What a word can be to a name. Plain integers: an Enum's comparisons would cost more than the rest of the search.
_PLAIN = 0  # a lower-case word, a number, a comma
_OPENER = 1  # a mark after which a capital may mean nothing
_PARTICLE = 2  # van, de, &: inside a name only
_OF = 3  # inside a name after University, Battle and the like
_THE = 4  # inside a name after that "of"
_ALONE = 5  # capitalised and never a name: I, The, May, Monday
_MISTER = 6  # Mr., Dr.: before a name, never in it
_TITLE = 7  # King, Dame: before a name, or inside it (Stephen King)
_TAIL = 8  # Jr., VIII: never a name's first word
_INITIAL = 9  # J.: never a name by itself
_GENERIC = 10  # University, North: neither
_COMMON = 11  # capitalised here, usually lower-case
_UPPER = 12  # US: a name, unless everything is in capitals
_UNSEEN = 13  # capitalised, and never counted
_PROPER = 14  # usually capitalised


class NameTable:
    """The names of a document by id, each in the longest spelling read, at most `limit` of them.

    A lone first name or surname is the one longer name that has it; of two such names it is neither.

    >>> table = NameTable()
    >>> [table.learn(name.split()) for name in ("Jane Austen", "Bath", "Austen", "Fanny", "Fanny Price")]
    [0, 1, 0, 2, 2]
    >>> table.names
    ['Jane Austen', 'Bath', 'Fanny Price']
    """

    def __init__(self, limit: int = ENTITIES) -> None:
        self.limit = limit
        self.names: list[str] = []
        self.ids: dict[str, int] = {}  # by name in lower case
        self._with_part: dict[str, set[int]] = {}  # the longer names that have a first name or surname

    def __len__(self) -> int:
        return len(self.names)

    def find(self, key: str) -> int | None:
        """The id of a name in lower case, its words joined by single spaces, if it is known."""
        longer = self._with_part.get(key, ())
        return self.ids.get(key, next(iter(longer)) if len(longer) == 1 else None)

    def learn(self, words: Sequence[str]) -> int | None:
        """A name's id, a new one if the name is new; None if it is new and the table is full."""
        name = " ".join(words)
        key = name.lower()
        entity = self.find(key)
        if entity is not None:
            return entity
        parts = _parts_of_person(key)
        # A person known only by a first name or surname so far.
        known = [self.ids[part] for part in parts if part in self.ids]
        entity = next((known_id for known_id in known if " " not in self.names[known_id]), None)
        if entity is not None:
            self.names[entity] = name
        elif len(self.names) < self.limit:
            entity = len(self.names)
            self.names.append(name)
        else:
            return None
        self.ids[key] = entity
        for part in parts:
            self._with_part.setdefault(part, set()).add(entity)
        return entity


def _parts_of_person(key: str) -> list[str]:
    """The first name and surname in a person's name, in lower case; none if this is not a person's.

    >>> _parts_of_person("paul abraham dukas jr."), _parts_of_person("london bridge"), _parts_of_person("paul")
    (['paul', 'dukas'], [], [])
    """
    words = key.split(" ")
    while words and (words[-1] in _SUFFIXES or _NUMERAL.fullmatch(words[-1].upper())):
        words.pop()
    if len(words) < 2 or words[0] in PLACES_FIRST:
        return []
    if not (NOT_PEOPLE.isdisjoint(words) and PLACES.isdisjoint(words)):
        return []
    return [
        word for word in (words[0], words[-1]) if word not in _NEVER_ALONE and word[-1] != "." and word[1:]
    ]


class NameFinder(Protocol):
    """Finds the names in one sentence, given the names known so far."""

    def find(self, sentence: Sequence[str], known: NameTable) -> list[tuple[int, int]]:
        """The names' places (start, stop), in order."""
        ...


class CapitalFinder:
    """Finds English names by capitals; at the start of a sentence, counts and known names decide.

    >>> vocabulary = Vocabulary((), {"when": (0, 9), "darcy": (9, 0)})
    >>> CapitalFinder(vocabulary).find("When Mr. Darcy met Jane Bennet in May".split(), NameTable())
    [(2, 3), (4, 6)]
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._kinds = _Kinds(vocabulary)

    def find(self, sentence: Sequence[str], known: NameTable) -> list[tuple[int, int]]:
        """The names' places (start, stop), in order."""
        kinds = list(map(self._kinds.__getitem__, sentence))
        if max(kinds, default=_PLAIN) < _INITIAL:
            return []
        heading = not any(map(str.islower, sentence))
        names = []
        stop = 0
        for at in [at for at, kind in enumerate(kinds) if kind >= _INITIAL]:
            if at >= stop:
                stop = _end_of_name(kinds, at, heading)
                start = _start_of_name(sentence, kinds, at, stop, heading, known)
                if start < stop:
                    names.append((start, stop))
        return names


class _Kinds(dict[str, int]):
    """The kind of every word, decided once by the vocabulary's counts."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._words = frozenset(vocabulary.words)

    def __missing__(self, word: str) -> int:
        if len(self) > _REMEMBERED:
            self.clear()
        self[word] = kind = self._decide(word)
        return kind

    def _decide(self, word: str) -> int:
        """Decide by the word's letters, the lists and its counts, the surest first."""
        lower = word.lower()
        if word in OPENERS:
            return _OPENER
        if word in PARTICLES:
            return _PARTICLE
        if word in ("of", "the"):
            return _OF if word == "of" else _THE
        numeral = word[0] in "XVI" and word != "I" and _NUMERAL.fullmatch(word)
        if numeral or (word != lower and lower in _SUFFIXES):
            return _TAIL
        if not (word[0].isupper() or (word[1:2] == "'" and word[2:3].isupper())):
            return _PLAIN
        return self._decide_capitalised(word, lower)

    def _decide_capitalised(self, word: str, lower: str) -> int:
        if word == "US":
            return _UPPER
        share = self._vocabulary.capital_share(lower)
        emphasis = len(word) > 1 and word.isupper() and share is not None and share < 0.5
        if emphasis or lower in FUNCTION_WORDS or lower in ALONE:
            return _ALONE
        if len(word.rstrip(".")) == 1:
            return _INITIAL
        if lower.rstrip(".") in MISTERS:
            return _MISTER
        if lower.rstrip(".") in TITLES:
            return _TITLE
        if lower in NOT_PEOPLE or lower in _ARTICLES:
            return _GENERIC
        # A word of the vocabulary that was never counted inside a sentence begins sentences: Nobody.
        if share is None:
            return _COMMON if lower in self._words else _UNSEEN
        return _PROPER if share >= 0.5 else _COMMON


def _end_of_name(kinds: list[int], start: int, heading: bool) -> int:
    """Follow capitalised words, across particles between two of them."""
    stop = start + 1
    while stop < len(kinds):
        after = stop
        if kinds[after] == _OF and kinds[after - 1] == _GENERIC:
            after += 1 + (kinds[after + 1 : after + 2] == [_THE])
        while after < len(kinds) and kinds[after] == _PARTICLE:
            after += 1
        if after == len(kinds) or kinds[after] < _TITLE or (heading and kinds[after] in (_COMMON, _UPPER)):
            break
        stop = after + 1
    return stop


def _start_of_name(
    sentence: Sequence[str], kinds: Sequence[int], start: int, stop: int, heading: bool, known: NameTable
) -> int:
    """Skip the first words whose capital has another reason; `stop` if no name is left."""
    before = kinds[start - 1] if start else _OPENER
    opening = before == _OPENER
    titled = before in (_TITLE, _MISTER)
    for at in range(start, stop):
        first, single = kinds[at], stop - at == 1
        if single and first < _COMMON:
            return stop
        key = " ".join(sentence[at:stop]).lower()
        # A common word that begins a sentence must have been a name by itself; part of a name is not enough.
        if key in known.ids or (not (opening and first == _COMMON) and known.find(key) is not None):
            return at
        if first == _COMMON:
            sure = (titled or not single) and not opening and not heading
        elif first == _UPPER:
            sure = not heading
        elif first == _UNSEEN:
            exclamation = single and stop < len(sentence) and sentence[stop] == "!"
            common = heading or exclamation or sentence[at].lower().endswith(COMMON_ENDINGS)
            sure = not opening or not common
        elif first == _GENERIC:
            sure = not opening or kinds[at + 1] in (_OF, _GENERIC) or sentence[at].lower() in _NAME_STARTS
        else:
            sure = first not in (_OF, _THE, _PARTICLE, _TITLE, _TAIL)
        if sure:
            return at
        opening = False  # the next word is inside the sentence
    return stop


def mark_names(
    sentences: Iterable[Sequence[str]], table: NameTable, finder: NameFinder
) -> Iterator[list[str]]:
    """Replace every name with `@entityN`; the table learns the names, N being a name's id in it.

    Names that a full table does not take stay words.

    >>> finder = CapitalFinder(Vocabulary(()))
    >>> list(mark_names([["Then", "Ann", "Lee", "met", "Bob"], ["Ann", "left"]], NameTable(), finder))
    [['Then', '@entity0', 'met', '@entity1'], ['@entity0', 'left']]
    """
    for sentence in sentences:
        marked: list[str] = []
        done = 0
        for start, stop in finder.find(sentence, table):
            entity = table.learn(sentence[start:stop])
            if entity is not None:
                marked += [*sentence[done:start], f"@entity{entity}"]
                done = stop
        yield [*marked, *sentence[done:]]
