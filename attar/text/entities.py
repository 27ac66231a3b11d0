"""Names in English text: runs of capitalised words, settled by counts and by what has been read so far."""

from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from typing import Protocol

from attar.text.aliases import NUMERAL
from attar.text.english import (
    ALONE,
    ARTICLES,
    COMMON_ENDINGS,
    FUNCTION_WORDS,
    MISTERS,
    NOT_PEOPLE,
    PARTICLES,
    PLACE_PREFIXES,
    SUFFIXES,
    TITLES,
)
from attar.text.names import NameTable
from attar.text.vocabulary import OPENERS, Vocabulary


class NameFinder(Protocol):
    """What finds the names of one sentence, given those that are known already."""

    def find(self, sentence: Sequence[str], known: NameTable) -> list[tuple[int, int]]:
        """Give the names' places as (start, stop), in order."""
        ...


class Kind(IntEnum):
    """What a word can be to a name."""

    PLAIN = 0  # a lower-cased word, a number, a comma
    OPENER = 1  # a mark after which a capital may mean nothing
    PARTICLE = 2  # van, de, &: inside a name only
    OF = 3  # inside a name after University, Battle and their like
    THE = 4  # inside a name after that "of"
    ALONE = 5  # capitalised and never a name: I, The, May, Monday
    MISTER = 6  # Mr., Dr.: before a name, never in it
    TITLE = 7  # King, Dame: before a name, or inside it (Stephen King)
    TAIL = 8  # Jr., VIII: never a name's first word
    INITIAL = 9  # J.: never a name by itself
    GENERIC = 10  # University, North: neither
    COMMON = 11  # capitalised here, lower-cased as a rule
    SHOUTED = 12  # US: a name, unless all is in capitals
    UNSEEN = 13  # capitalised, and counted nowhere
    PROPER = 14  # capitalised as a rule


# Generic words that begin a name even at a sentence's start.
_OPENING = PLACE_PREFIXES | ARTICLES
# Plain numbers in the search itself: an Enum's hash and comparisons cost more than all the rest of it.
_PARTS = frozenset(int(kind) for kind in Kind if kind >= Kind.TITLE)
_LONE = frozenset(int(kind) for kind in Kind if kind >= Kind.COMMON)
_PLAIN, _OPENER, _PARTICLE, _OF, _THE, _MISTER = map(
    int, (Kind.PLAIN, Kind.OPENER, Kind.PARTICLE, Kind.OF, Kind.THE, Kind.MISTER)
)
_TITLE, _TAIL, _INITIAL, _GENERIC, _COMMON, _SHOUTED, _UNSEEN = map(
    int, (Kind.TITLE, Kind.TAIL, Kind.INITIAL, Kind.GENERIC, Kind.COMMON, Kind.SHOUTED, Kind.UNSEEN)
)


class _Kinds(dict[str, int]):
    """The kind of every word, settled once by the vocabulary's counts."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.words = frozenset(vocabulary.words)

    def __missing__(self, word: str) -> int:
        if len(self) > 300_000:
            self.clear()
        self[word] = found = int(self.settle(word))
        return found

    def settle(self, word: str) -> Kind:
        """Tell a word's kind from its letters, the lists and its counts, the surest first."""
        lower = word.lower()
        if word in OPENERS:
            return Kind.OPENER
        if word in PARTICLES:
            return Kind.PARTICLE
        if word in ("of", "the"):
            return Kind.OF if word == "of" else Kind.THE
        numeral = word[0] in "XVI" and word != "I" and NUMERAL.fullmatch(word)
        if numeral or (word != lower and lower in SUFFIXES):
            return Kind.TAIL
        if not (word[0].isupper() or (word[1:2] == "'" and word[2:3].isupper())):
            return Kind.PLAIN
        return self._settle_capitalised(word, lower)

    def _settle_capitalised(self, word: str, lower: str) -> Kind:
        if word == "US":
            return Kind.SHOUTED
        share = self.vocabulary.capital_share(lower)
        shouted = len(word) > 1 and word.isupper() and share is not None and share < 0.5
        if shouted or lower in FUNCTION_WORDS or lower in ALONE:
            return Kind.ALONE
        if len(word.rstrip(".")) == 1:
            return Kind.INITIAL
        if lower.rstrip(".") in MISTERS:
            return Kind.MISTER
        if lower.rstrip(".") in TITLES:
            return Kind.TITLE
        if lower in NOT_PEOPLE or lower in ARTICLES:
            return Kind.GENERIC
        # A word of the vocabulary that was counted nowhere inside a sentence begins sentences: Nobody.
        if share is None:
            return Kind.COMMON if lower in self.words else Kind.UNSEEN
        return Kind.PROPER if share >= 0.5 else Kind.COMMON


class CapitalFinder:
    """Finds English names by capitals; a word that begins a sentence is settled by counts and known names.

    >>> vocabulary = Vocabulary((), {"when": (0, 9), "darcy": (9, 0)})
    >>> CapitalFinder(vocabulary).find("When Mr. Darcy met Jane Bennet in May".split(), NameTable())
    [(2, 3), (4, 6)]
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._kinds = _Kinds(vocabulary)

    def kind_of(self, word: str) -> int:
        """Tell what a word can be to a name."""
        return self._kinds[word]

    def find(self, sentence: Sequence[str], known: NameTable) -> list[tuple[int, int]]:
        """Give the names' places as (start, stop), in order."""
        kinds = list(map(self._kinds.__getitem__, sentence))
        if max(kinds, default=_PLAIN) < _INITIAL:
            return []
        heading = not any(map(str.islower, sentence))
        found = []
        stop = 0
        for at in [at for at, kind in enumerate(kinds) if kind >= _INITIAL]:
            if at >= stop:
                stop = _end_of_run(kinds, at, heading)
                before = kinds[at - 1] if at else _OPENER
                following = sentence[stop] if stop < len(sentence) else ""
                start = at + start_of_name(
                    sentence[at:stop], kinds[at:stop], before, following, heading, known
                )
                if start < stop:
                    found.append((start, stop))
        return found


def _end_of_run(kinds: list[int], start: int, heading: bool) -> int:
    """Follow capitalised words, over particles that stand between two of them."""
    stop = start + 1
    while stop < len(kinds):
        after = stop
        if kinds[after] == _OF and kinds[after - 1] == _GENERIC:
            after += 1 + (kinds[after + 1 : after + 2] == [_THE])
        while after < len(kinds) and kinds[after] == _PARTICLE:
            after += 1
        if (
            after == len(kinds)
            or kinds[after] not in _PARTS
            or (heading and kinds[after] in (_COMMON, _SHOUTED))
        ):
            break
        stop = after + 1
    return stop


def start_of_name(
    run: Sequence[str], kinds: Sequence[int], before: int, following: str, heading: bool, known: NameTable
) -> int:
    """Leave out the words at a run's start whose capital has another reason; all if no name is left.

    `before` is the kind of the word before the run, an opener's at a sentence's start.
    """
    opening = before == _OPENER
    titled = before in (_TITLE, _MISTER)
    stop = len(run)
    for start in range(stop):
        first, single = kinds[start], stop - start == 1
        if single and first not in _LONE:
            return stop
        key = " ".join(run[start:]).lower()
        # A common word that begins a sentence must have been a name by itself; a part of one is not enough.
        if key in known.ids or (not (opening and first == _COMMON) and known.meaning(key) is not None):
            return start
        if first == _COMMON:
            sure = (titled or not single) and not opening and not heading
        elif first == _SHOUTED:
            sure = not heading
        elif first == _UNSEEN:
            cry = single and following == "!"
            sure = not opening or not (heading or cry or run[start].lower().endswith(COMMON_ENDINGS))
        elif first == _GENERIC:
            sure = not opening or kinds[start + 1] in (_OF, _GENERIC) or run[start].lower() in _OPENING
        else:
            sure = first not in (_OF, _THE, _PARTICLE, _TITLE, _TAIL)
        if sure:
            return start
        opening = False  # what follows a word stands inside a sentence
    return stop


def mark(sentences: Iterable[Sequence[str]], table: NameTable, finder: NameFinder) -> Iterator[list[str]]:
    """Put `@entityN` in the place of every name, growing the table; marking on equals marking at once.

    >>> table = NameTable()
    >>> finder = CapitalFinder(Vocabulary(()))
    >>> list(mark([["Then", "Ann", "Lee", "met", "Bob"], ["Ann", "left"]], table, finder))
    [['Then', '@entity0', 'met', '@entity1'], ['@entity0', 'left']]
    """
    for sentence in sentences:
        marked: list[str] = []
        done = 0
        for start, stop in finder.find(sentence, table):
            entity = table.learn(sentence[start:stop])
            if entity is not None:
                marked += sentence[done:start]
                marked.append(f"@entity{entity}")
                done = stop
        marked += sentence[done:]
        yield marked
