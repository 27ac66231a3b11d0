"""Other spellings of a name: a part of it, without its middle names, its initials, its plural."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from attar.text.english import (
    ARTICLES,
    FUNCTION_WORDS,
    LEFT_OUT_OF_INITIALS,
    NAMES_OF_MEN,
    NAMES_OF_WOMEN,
    NOT_PEOPLE,
    PARTICLES,
    PLACE_INITIALS,
    PLACE_PREFIXES,
    PLACES,
    PLACES_BY_INITIALS,
    PLACES_FIRST,
    SUFFIXES,
    TITLES_OF_MEN,
    TITLES_OF_WOMEN,
)

# Henry VIII, World War II; not Jet Li.
NUMERAL = re.compile("(?=[XVI])(XL|X{0,3})(IX|IV|V?I{0,3})")

GENDERED_TITLES = TITLES_OF_MEN | TITLES_OF_WOMEN
# In place of an id: a short form that fits more than one name.
_SEVERAL = -1
# Words that never stand for a whole name. Al and Van are first names as well.
_NEVER_ALONE = FUNCTION_WORDS | ARTICLES | (PARTICLES - {"al", "van"})


def is_other_gender(first: str, title: str) -> bool:
    """Whether a first name is never that of a person with this title, both in lower case.

    >>> is_other_gender("anne", "mr."), is_other_gender("anne", "miss"), is_other_gender("okafor", "mr.")
    (True, False, False)
    """
    return first in (NAMES_OF_WOMEN if title in TITLES_OF_MEN else NAMES_OF_MEN)


def _words_of_person(key: str) -> list[str]:
    """Return a person's names without numerals and suffixes; [] if this is not a person's name."""
    words = key.split(" ")
    while words and (words[-1] in SUFFIXES or NUMERAL.fullmatch(words[-1].upper())):
        words.pop()
    if len(words) < 2 or words[0] in PLACES_FIRST:
        return []
    return words if NOT_PEOPLE.isdisjoint(words) and PLACES.isdisjoint(words) else []


class Spellings(NamedTuple):
    """The other spellings of a name of two words or more, in lower case; empty where there is none."""

    parts: tuple[str, ...]  # single words that can stand for it: a person's first name and surname
    without_middle: str
    initials: tuple[str, ...]  # all forms of them
    other_number: str  # the plural of a singular, or the reverse
    single_words: tuple[str, ...]  # the parts and the initials
    short: tuple[str, ...]  # without middle names, and the initials without dots
    all: tuple[str, ...]


@lru_cache(100_000)
def spellings_of(key: str) -> Spellings:
    """Return the other spellings of a lower-case name of two words or more.

    >>> spellings_of("paul abraham dukas")[:3]
    (('paul', 'dukas'), 'paul dukas', ('pad', 'p.a.d.'))
    >>> spellings_of("london bridge").all
    ('lb', 'l.b.', 'london bridges')
    """
    words = _words_of_person(key)
    ends = (words[0], words[-1]) if words else ()
    parts = tuple([word for word in ends if word not in _NEVER_ALONE and word[-1] != "." and word[1:]])
    without_middle = " ".join(parts) if len(words) > 2 and len(parts) == 2 else ""
    letters = _initials(key)
    initials = _forms_of_initials(letters) if letters else ()
    other_number = _in_other_number(key)
    short = tuple(filter(None, (without_middle, letters)))
    every = tuple(filter(None, (*parts, without_middle, *initials, other_number)))
    return Spellings(parts, without_middle, initials, other_number, (*parts, *initials), short, every)


def _initials(key: str) -> str:
    if key in PLACES_BY_INITIALS:
        return PLACES_BY_INITIALS[key]
    words = [word for word in key.split(" ") if word not in LEFT_OUT_OF_INITIALS]
    letters = "".join([word[0] for word in words])
    # Two letters are a person's by chance more often than not: an EP is not Elvis Presley.
    if len(letters) < 2 or (len(letters) == 2 and NOT_PEOPLE.isdisjoint(words)):
        return ""
    abbreviated = any("." in word and len(word) > 2 for word in words)
    return "" if abbreviated or not letters.isalpha() or _canonical(letters) in PLACE_INITIALS else letters


def _canonical(letters: str) -> str:
    return "us" if letters == "usa" else letters


def letters_of_initials(name: str) -> str:
    """Return the letters of a word of capitals in lower case, without dots, if two or more; else "".

    >>> letters_of_initials("U.S."), letters_of_initials("NBA"), letters_of_initials("Ada")
    ('us', 'nba', '')
    """
    if not name.isupper():
        return ""
    letters = name.replace(".", "").lower()
    return _canonical(letters) if len(letters) > 1 and letters.isalpha() else ""


def _forms_of_initials(initials: str) -> tuple[str, ...]:
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
    """Return the plural or singular of a name that is not a person's: Academy Awards, not Williams."""
    before, _, last = key.rpartition(" ")
    return f"{before} {_OTHER_NUMBER[last]}" if last in _OTHER_NUMBER else ""


def spell_like(key: str, name: str) -> str:
    """Capitalise a lower-case name like a longer spelling of it.

    >>> spell_like("paul dukas", "Paul Abraham Dukas"), spell_like("u.s.", "United States")
    ('Paul Dukas', 'U.S.')
    """
    words = {word.lower(): word for word in reversed(name.split())}
    if " " not in key:
        return words.get(key) or key.upper()
    return " ".join([words.get(word) or word.capitalize() for word in key.split(" ")])


class AliasIndex:
    """Finds the name in a table that another name is a spelling of.

    >>> aliases = AliasIndex({"united states": 0, "nba": 1}, ["United States", "NBA"])
    >>> aliases.find_initials("U.S."), aliases.find("national basketball association")
    (0, 1)
    """

    def __init__(self, ids: Mapping[str, int], names: Sequence[str]) -> None:
        self._ids, self._names = ids, names
        # Ids by short form. Integers, not sets: there is one per name, and the garbage collector visits sets.
        self.by_short: dict[str, int] = {}
        for key, entity in ids.items():
            if " " in key:
                self.add(spellings_of(key), entity)

    def add(self, spellings: Spellings, entity: int) -> None:
        """Add a name of two words or more."""
        for short in spellings.short:
            if self.by_short.setdefault(short, entity) != entity:
                self.by_short[short] = _SEVERAL

    def find_without_middle(self, key: str) -> int | None:
        """Find the only name that begins and ends with these two words."""
        entity = self.by_short.get(key, _SEVERAL)
        return None if entity == _SEVERAL else entity

    def find_initials(self, name: str) -> int | None:
        """Find the only name with these initials, or the same initials with dots or without."""
        letters = letters_of_initials(name)
        if not letters:
            return None
        matches = self._known_by_initials(_forms_of_initials(letters))
        if letters in self.by_short:
            matches.add(self.by_short[letters])
        return None if _SEVERAL in matches else _only(matches)

    def find(self, key: str, by_part: bool = False) -> int | None:
        """Find the name that this one of two words or more is another spelling of.

        With `by_part`, also a person known only by a first name or surname so far.
        """
        ids, names = self._ids, self._names
        if (entity := self.find_without_middle(key)) is not None:
            return entity
        spellings = spellings_of(key)
        ends = spellings.without_middle
        if ends in ids and names[ids[ends]].lower() == ends:  # its middle names were not read so far
            return ids[ends]
        if (entity := _only(self._known_by_initials(spellings.initials))) is not None:
            return entity
        if spellings.other_number in ids:
            return ids[spellings.other_number]
        for word in spellings.parts if by_part else ():
            if (
                word in ids
                and " " not in names[ids[word]]
                and not self._has_other_title(word, spellings.parts)
            ):
                return ids[word]
        return None

    def _has_other_title(self, surname: str, parts: tuple[str, ...]) -> bool:
        """Whether a surname was read with a title that the person of this first name cannot have: Mr. Darcy, Anne."""
        first = parts[0]
        if surname == first or first not in NAMES_OF_MEN | NAMES_OF_WOMEN:
            return False
        titles = (title for title in GENDERED_TITLES if is_other_gender(first, title))
        return any(self._ids.get(f"{title} {surname}") == self._ids[surname] for title in titles)

    def _known_by_initials(self, initials: Iterable[str]) -> set[int]:
        """Find the names of which only the initials were read."""
        matches = {self._ids[form] for form in initials if form in self._ids}
        return {entity for entity in matches if letters_of_initials(self._names[entity])}


def _only(matches: Collection[int]) -> int | None:
    return next(iter(matches)) if len(matches) == 1 else None
