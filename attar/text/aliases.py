"""Other spellings of one name: a part of it, without its middle names, its initials, its plural."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from attar.text.english import (
    ARTICLES,
    FUNCTION_WORDS,
    LEFT_OUT_OF_INITIALS,
    NOT_PEOPLE,
    PARTICLES,
    PLACE_INITIALS,
    PLACE_PREFIXES,
    PLACES,
    PLACES_BY_INITIALS,
    PLACES_FIRST,
    SUFFIXES,
)

# Henry VIII, World War II; not Jet Li.
NUMERAL = re.compile("(?=[XVI])(XL|X{0,3})(IX|IV|V?I{0,3})")

# What more than one name is called for short.
_SEVERAL = -1
# Al and Van are first names as well.
_LENT_BY_NOBODY = FUNCTION_WORDS | ARTICLES | (PARTICLES - {"al", "van"})


def _words_of_person(key: str) -> list[str]:
    """Give a person's names without numerals and suffixes; none if this is no person's name."""
    words = key.split(" ")
    while words and (words[-1] in SUFFIXES or NUMERAL.fullmatch(words[-1].upper())):
        words.pop()
    if len(words) < 2 or words[0] in PLACES_FIRST:
        return []
    return words if NOT_PEOPLE.isdisjoint(words) and PLACES.isdisjoint(words) else []


class Spellings(NamedTuple):
    """What else a longer name may be called, all in small letters; nothing where there is no such thing."""

    lent: tuple[str, ...]  # the words by which alone it may be called: a person's first name and surname
    without_middle: str
    initials: str
    ways: tuple[str, ...]  # to write the initials
    in_other_number: str
    alone: tuple[str, ...]  # all of it that is one word
    short: tuple[str, ...]  # without middle names and by initials, where there are such
    all: tuple[str, ...]  # so that a table can be asked for all at once


@lru_cache(100_000)
def spellings_of(key: str) -> Spellings:
    """Give the other spellings of a name of two words or more.

    >>> spellings_of("paul abraham dukas")[:4]
    (('paul', 'dukas'), 'paul dukas', 'pad', ('pad', 'p.a.d.'))
    >>> spellings_of("london bridge").all
    ('lb', 'l.b.', 'london bridges')
    """
    words = _words_of_person(key)
    ends = (words[0], words[-1]) if words else ()
    lent = tuple([word for word in ends if word not in _LENT_BY_NOBODY and word[-1] != "." and word[1:]])
    without_middle = " ".join(lent) if len(words) > 2 and len(lent) == 2 else ""
    initials = _initials(key)
    ways = _ways_to_write(initials) if initials else ()
    other_number = _in_other_number(key)
    short = tuple(filter(None, (without_middle, initials)))
    every = tuple(filter(None, (*lent, without_middle, *ways, other_number)))
    return Spellings(lent, without_middle, initials, ways, other_number, (*lent, *ways), short, every)


def _initials(key: str) -> str:
    if key in PLACES_BY_INITIALS:
        return PLACES_BY_INITIALS[key]
    words = [word for word in key.split(" ") if word not in LEFT_OUT_OF_INITIALS]
    letters = "".join([word[0] for word in words])
    # Two letters are a person's by chance more often than not: an EP is not Elvis Presley.
    if len(letters) < 2 or (len(letters) == 2 and NOT_PEOPLE.isdisjoint(words)):
        return ""
    abbreviated = any("." in word and len(word) > 2 for word in words)
    return "" if abbreviated or not letters.isalpha() or _settled(letters) in PLACE_INITIALS else letters


def _settled(letters: str) -> str:
    return "us" if letters == "usa" else letters


def letters_of_initials(name: str) -> str:
    """Give the letters of a word in capitals, two or more, dots aside, in small letters; else nothing.

    >>> letters_of_initials("U.S."), letters_of_initials("NBA"), letters_of_initials("Ada")
    ('us', 'nba', '')
    """
    if not name.isupper():
        return ""
    letters = name.replace(".", "").lower()
    return _settled(letters) if len(letters) > 1 and letters.isalpha() else ""


def _ways_to_write(initials: str) -> tuple[str, ...]:
    return PLACE_INITIALS.get(initials) or (initials, ".".join(initials) + ".")


def _plural(word: str) -> str:
    if word.endswith("y") and word[-2] not in "aeiou":
        return word[:-1] + "ies"
    return word + ("es" if word.endswith(("s", "x", "ch", "sh")) else "s")


def _singular(word: str) -> str:
    if word.endswith("ies"):
        return word[:-3] + "y"
    return word[:-2] if word.endswith(("ches", "shes", "xes", "sses")) else word[:-1]


def _singulars_and_plurals() -> dict[str, str]:
    other = {}
    for word in NOT_PEOPLE - PLACE_PREFIXES:
        plural = word.endswith("s") and not word.endswith("ss")
        mate = _singular(word) if plural else _plural(word)
        other[word], other[mate] = mate, word
    return other


_OTHER_NUMBER = _singulars_and_plurals()


def _in_other_number(key: str) -> str:
    """Give the plural or singular of a name whose last word is no person's: Academy Awards, not Williams."""
    before, _, last = key.rpartition(" ")
    return f"{before} {_OTHER_NUMBER[last]}" if last in _OTHER_NUMBER else ""


def spell_like(key: str, name: str) -> str:
    """Write a name that is known in small letters with the capitals of a longer spelling of it.

    >>> spell_like("paul dukas", "Paul Abraham Dukas"), spell_like("u.s.", "United States")
    ('Paul Dukas', 'U.S.')
    """
    words = {word.lower(): word for word in reversed(name.split())}
    if " " not in key:
        return words.get(key) or key.upper()
    return " ".join([words.get(word) or word.capitalize() for word in key.split(" ")])


class OtherSpellings:
    """Finds of which name in a table another is a spelling, by what was read before and nothing else.

    >>> spellings = OtherSpellings({"united states": 0, "nba": 1}, ["United States", "NBA"])
    >>> spellings.find_initials("U.S."), spellings.find("national basketball association")
    (0, 1)
    """

    def __init__(self, ids: Mapping[str, int], names: Sequence[str]) -> None:
        self._ids, self._names = ids, names
        # The names by what they are called for short: initials are one word, and a name without middle names two.
        # Numbers and no sets: there is one for every name that is read, and garbage collection walks over sets.
        self.by_short: dict[str, int] = {}
        for key, entity in ids.items():
            if " " in key:
                self.note(spellings_of(key), entity)

    def note(self, spellings: Spellings, entity: int) -> None:
        """Take note of a new name of two words or more."""
        for short in spellings.short:
            if self.by_short.setdefault(short, entity) != entity:
                self.by_short[short] = _SEVERAL

    def find_without_middle(self, key: str) -> int | None:
        """Find the one name that has these two words at its ends."""
        found = self.by_short.get(key, _SEVERAL)
        return None if found == _SEVERAL else found

    def find_initials(self, name: str) -> int | None:
        """Find the one name that a word in capitals is short for, or the same initials with dots or without."""
        letters = letters_of_initials(name)
        if not letters:
            return None
        fits = self._known_initials(_ways_to_write(letters))
        if letters in self.by_short:
            fits.add(self.by_short[letters])
        return None if _SEVERAL in fits else _only(fits)

    def find(self, key: str, by_part: bool = False) -> int | None:
        """Find the name that this one of two words or more is another spelling of.

        By part: also somebody known by a lone first name or surname so far.
        """
        ids, names = self._ids, self._names
        if (found := self.find_without_middle(key)) is not None:
            return found
        lent, ends, _, ways, other_number, *_ = spellings_of(key)
        if ends in ids and names[ids[ends]].lower() == ends:  # whose middle names were not read so far
            return ids[ends]
        if (found := _only(self._known_initials(ways))) is not None:
            return found
        if other_number in ids:
            return ids[other_number]
        for word in lent if by_part else ():
            if word in ids and " " not in names[ids[word]]:
                return ids[word]
        return None

    def _known_initials(self, ways: Iterable[str]) -> set[int]:
        """Find the names of which nothing but the initials was read."""
        fits = {self._ids[way] for way in ways if way in self._ids}
        return {entity for entity in fits if letters_of_initials(self._names[entity])}


def _only(fits: Collection[int]) -> int | None:
    return next(iter(fits)) if len(fits) == 1 else None
