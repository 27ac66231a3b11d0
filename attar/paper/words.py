"""The words of English text: names, found by capitals, with their ids within a document; and a network's vocabulary."""

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Annotated

import msgspec

from attar.errors import FormatError
from attar.paper.options import ENTITIES
from attar.text.english import ALONE, FUNCTION_WORDS, NOT_PEOPLE, PARTICLES, PLACES, PLACES_FIRST, TITLES

# After one of these a capital may only mean that a sentence or a quotation begins.
OPENERS = frozenset(('"', "'", "(", "[", "{", "--", "-", "–", ":", ".", "!", "?", "...", "*", "/", "•", "|"))
# Capitalised, and never a name: I, The, Monday, May.
_NEVER = FUNCTION_WORDS | ALONE
# Words that never stand for a whole name. Al and Van are first names as well.
_NEVER_ALONE = FUNCTION_WORDS | (PARTICLES - {"al", "van"})


class WordCounts:
    """How often each word occurs, and how often inside sentences with a capital and without (`capitals`).

    >>> WordCounts(["Then Rex saw a rose and Rose .".split()]).capitals["rose"]
    (1, 1)
    """

    def __init__(self, sentences: Iterable[Sequence[str]]) -> None:
        self.everywhere, inside = Counter[str](), Counter[str]()
        for sentence in sentences:
            self.everywhere.update(sentence)
            if any(map(str.islower, sentence)):  # in a heading capitals mean nothing
                inside.update(word for before, word in pairwise(sentence) if before not in OPENERS)
        self.capitals: dict[str, tuple[int, int]] = {}
        for word, count in inside.items():
            if word[0].isalpha():
                capital, small = self.capitals.get(word.lower(), (0, 0))
                upper = not word.islower()
                self.capitals[word.lower()] = (capital + count * upper, small + count * (not upper))


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

    def learn(self, words: Sequence[str]) -> int | None:
        """A name's id, a new one if the name is new; None if it is new and the table is full."""
        name = " ".join(words)
        key = name.lower()
        longer = self._with_part.get(key, set())
        if key in self.ids or len(longer) == 1:
            return self.ids.get(key, next(iter(longer), None))
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

    >>> _parts_of_person("paul abraham dukas"), _parts_of_person("london bridge"), _parts_of_person("paul")
    (['paul', 'dukas'], [], [])
    """
    words = key.split(" ")
    if len(words) < 2 or words[0] in PLACES_FIRST or not NOT_PEOPLE.union(PLACES).isdisjoint(words):
        return []
    return [
        word for word in (words[0], words[-1]) if word not in _NEVER_ALONE and word[-1] != "." and word[1:]
    ]


# Finds the places (start, stop) of the names in one sentence, in order, given the names known so far.
FindNames = Callable[[Sequence[str], NameTable], list[tuple[int, int]]]


class CapitalFinder:
    """Finds English names: runs of words with a capital. Where a sentence begins, counts of capitals decide.

    `capitals` are those of `WordCounts`; a word that was never inside a sentence is a name unless it is among
    `words`.

    >>> finder = CapitalFinder({"when": (0, 9), "darcy": (9, 0)}, ["when"])
    >>> finder.find("When Mr. Darcy met Jane Bennet in May".split(), NameTable())
    [(2, 3), (4, 6)]
    """

    def __init__(self, capitals: Mapping[str, tuple[int, int]], words: Collection[str]) -> None:
        self._shares = {word: capital / (capital + small) for word, (capital, small) in capitals.items()}
        self._words = frozenset(words)

    def find(self, sentence: Sequence[str], known: NameTable) -> list[tuple[int, int]]:
        names: list[tuple[int, int]] = []
        heading = not any(map(str.islower, sentence))  # there, capitals mean nothing
        for at, word in enumerate(sentence):
            if word[0].isupper() or word[1:3].istitle():  # Artagnan, d'Artagnan
                start, stop = names[-1] if names else (0, 0)
                # Particles are inside a name only: Ludwig van Beethoven.
                follows = stop > start and PARTICLES.issuperset(sentence[stop:at])
                opening = heading or at == 0 or sentence[at - 1] in OPENERS
                if self._is_part(word.lower(), follows, opening, known):
                    names[-1:] = [(start, at + 1)] if follows else [*names[-1:], (at, at + 1)]
        return [(start, stop) for start, stop in names if self._is_name(sentence[start:stop], known)]

    def _is_part(self, lower: str, follows: bool, opening: bool, known: NameTable) -> bool:
        """Whether a word with a capital is part of a name, perhaps of the one that it follows."""
        if lower in _NEVER:
            return False
        if lower.rstrip(".") in TITLES:  # King Lear is Lear, Stephen King is both
            return follows and lower[-1] != "."
        if not opening:
            return True
        share = self._shares.get(lower)
        if share is None:  # a word that was never counted inside a sentence begins sentences: Nobody
            return lower not in self._words
        return share >= 0.5 or lower in known.ids

    def _is_name(self, words: Sequence[str], known: NameTable) -> bool:
        """Whether parts are a name: not an initial, a generic word, or a common word with a capital."""
        lower = words[0].lower()
        common = self._shares.get(lower, 1.0) < 0.5
        usual = len(lower.rstrip(".")) > 1 and lower not in NOT_PEOPLE and not common
        return len(words) > 1 or usual or lower in known.ids


def mark_names(sentences: Iterable[Sequence[str]], table: NameTable, find: FindNames) -> Iterator[list[str]]:
    """Replace every name with `@entityN`; the table learns the names, N being a name's id in it.

    Names that a full table does not take stay words.

    >>> finder = CapitalFinder({}, ["then", "left"])
    >>> list(mark_names([["Then", "Ann", "Lee", "met", "Bob"], ["Ann", "left"]], NameTable(), finder.find))
    [['Then', '@entity0', 'met', '@entity1'], ['@entity0', 'left']]
    """
    for sentence in sentences:
        marked: list[str] = []
        done = 0
        for start, stop in find(sentence, table):
            entity = table.learn(sentence[start:stop])
            if entity is not None:
                marked += [*sentence[done:start], f"@entity{entity}"]
                done = stop
        yield [*marked, *sentence[done:]]


VOCABULARY_FILE = "vocabulary.json"
PLACEHOLDER_TOKEN = "@placeholder"
# Ids before the names: padding, unknown words, and the blank of a question.
PAD = 0
UNKNOWN = 1
PLACEHOLDER = 2
FIRST_ENTITY = 3


class _File(msgspec.Struct):
    words: tuple[str, ...]
    entities: Annotated[int, msgspec.Meta(ge=1, le=10_000)]


@dataclass(frozen=True)
class Vocabulary:
    """Words by frequency; in front of them are ids for `entities` names.

    >>> sentences = ["The dog saw Rex .".split(), "Then a dog saw the dog .".split()]
    >>> vocabulary = Vocabulary.build(WordCounts(sentences), size=4, entities=2)
    >>> vocabulary.words, len(vocabulary)
    (('dog', '.', 'saw', 'the'), 9)
    >>> vocabulary.encode(["A", "Dog", "saw", "@placeholder"])
    [1, 5, 7, 2]
    """

    words: tuple[str, ...]
    entities: int = ENTITIES

    @classmethod
    def build(cls, counted: WordCounts, size: int = 20_000, entities: int = ENTITIES) -> "Vocabulary":
        """The most frequent words that are not names.

        `@entityN` and `@placeholder` stand for names and blanks, and are no words.
        """
        counts = Counter[str]()
        for word, count in counted.everywhere.items():
            lower = word.lower()
            capital, small = counted.capitals.get(lower, (0, 0))
            # A capitalised name becomes `@entityN`; only its other uses (a rose, the reading) need a word.
            named = capital > small and lower not in ALONE and lower not in TITLES
            counts[lower] += small * (word == lower) if named else count
        ranked = sorted((word for word in counts if counts[word] > 0), key=lambda word: (-counts[word], word))
        words = (word for word in ranked if not word.startswith((PLACEHOLDER_TOKEN, "@entity")))
        return cls(tuple(words)[:size], entities)

    @cached_property
    def ids(self) -> dict[str, int]:
        first = FIRST_ENTITY + self.entities
        return {PLACEHOLDER_TOKEN: PLACEHOLDER} | {word: first + n for n, word in enumerate(self.words)}

    def __len__(self) -> int:
        return FIRST_ENTITY + self.entities + len(self.words)

    def encode(self, tokens: Iterable[str]) -> list[int]:
        """The ids of words in any case; names are encoded elsewhere, since which id each has is drawn."""
        ids = self.ids
        return [ids.get(token.lower(), UNKNOWN) for token in tokens]

    def to_bytes(self) -> bytes:
        return msgspec.json.encode(_File(self.words, self.entities)) + b"\n"

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the vocabulary, the same on every machine."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    @classmethod
    def load(cls, path: str | Path) -> "Vocabulary":
        try:
            file = msgspec.json.decode(Path(path).read_bytes(), type=_File)
            if len(set(file.words)) < len(file.words):
                raise ValueError("a word occurs twice")
        except OSError as fault:
            raise FormatError(f"cannot read {path}: {fault.strerror or fault}", "check the path") from fault
        except (ValueError, RecursionError) as fault:  # msgspec's errors are ValueErrors
            remedy = "attar paper build and attar paper train write one"
            raise FormatError(f"{path} is not a vocabulary ({fault})", remedy) from fault
        return cls(file.words, file.entities)
