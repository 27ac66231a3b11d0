"""The words that a network knows, their ids, and how often each is capitalised inside a sentence."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Annotated

import msgspec

from attar.errors import FormatError
from attar.paper.options import ENTITIES
from attar.text.english import ALONE, TITLES

VOCABULARY_FILE = "vocabulary.json"
PLACEHOLDER_TOKEN = "@placeholder"
# Ids before the names: padding, unknown words, and the blank of a question.
PAD = 0
UNKNOWN = 1
PLACEHOLDER = 2
FIRST_ENTITY = 3
VOCABULARY_SIZE = 20_000
# Counts of capitals are kept for this many times its size: names are not among its words, but are counted.
_COUNTED = 3
# Words in other cases whose ids are remembered.
_REMEMBERED = 1_000_000
# After one of these a capital may only mean that a sentence or a quotation begins.
OPENERS = frozenset(('"', "'", "(", "[", "{", "--", "-", "–", ":", ".", "!", "?", "...", "*", "/", "•", "|"))

_Count = Annotated[int, msgspec.Meta(ge=0)]


class _File(msgspec.Struct):
    """`vocabulary.json`."""

    words: tuple[str, ...]
    capitals: dict[str, tuple[_Count, _Count]]
    entities: Annotated[int, msgspec.Meta(ge=1, le=10_000)]


class _Ids(dict[str, int]):
    """Ids by word; a capitalised word has its lower-cased id, an unknown one that of unknown words."""

    def __missing__(self, word: str) -> int:
        found = self.get(word.lower(), UNKNOWN)
        if len(self) < _REMEMBERED:
            self[word] = found
        return found


@dataclass(frozen=True)
class Vocabulary:
    """Words by frequency; `capitals` counts each word's uses with a capital and without. Names have ids of their own.

    >>> sentences = ["The dog saw Rex .".split(), "Then a dog saw the dog .".split()]
    >>> vocabulary = Vocabulary.build(sentences, size=4, entities=2)
    >>> vocabulary.words, vocabulary.capitals["rex"], len(vocabulary)
    (('dog', '.', 'saw', 'the'), (1, 0), 9)
    >>> vocabulary.encode(["A", "Dog", "saw", "@placeholder"])
    [1, 5, 7, 2]
    """

    words: tuple[str, ...]
    capitals: dict[str, tuple[int, int]] = field(default_factory=dict)
    entities: int = ENTITIES

    @classmethod
    def build(
        cls,
        sentences: Iterable[Sequence[str]],
        size: int = VOCABULARY_SIZE,
        entities: int = ENTITIES,
    ) -> "Vocabulary":
        """Count the words of sentences and keep the most frequent ones that are not names.

        `@entityN` and `@placeholder` stand for names and blanks, and are not counted as words.
        """
        everywhere, inside = Counter[str](), Counter[str]()
        for sentence in sentences:
            everywhere.update(sentence)
            if any(map(str.islower, sentence)):  # in a heading capitals mean nothing
                inside.update(word for before, word in pairwise(sentence) if before not in OPENERS)
        capitals = _count_capitals(inside)
        counts = Counter[str]()
        for word, count in everywhere.items():
            lower = word.lower()
            capital, small = capitals.get(lower, (0, 0))
            # A capitalised name becomes `@entityN`; only its other uses (a rose, the reading) need a word.
            named = capital > small and lower not in ALONE and lower not in TITLES
            counts[lower] += small * (word == lower) if named else count
        ranked = sorted((word for word in counts if counts[word] > 0), key=lambda word: (-counts[word], word))
        words = tuple(word for word in ranked if not word.startswith((PLACEHOLDER_TOKEN, "@entity")))[:size]
        by_count = sorted(capitals, key=lambda word: (-sum(capitals[word]), word))
        counted = capitals.keys() & {*words, *by_count[: _COUNTED * size]}
        return cls(words, {word: capitals[word] for word in sorted(counted)}, entities)

    @cached_property
    def ids(self) -> dict[str, int]:
        """Ids by word in any case; every string has one. Names are encoded elsewhere: which id each has is drawn."""
        first = FIRST_ENTITY + self.entities
        return _Ids({PLACEHOLDER_TOKEN: PLACEHOLDER} | {word: first + n for n, word in enumerate(self.words)})

    def __len__(self) -> int:
        return FIRST_ENTITY + self.entities + len(self.words)

    def encode(self, tokens: Iterable[str]) -> list[int]:
        """The ids of tokens that are no names."""
        return list(map(self.ids.__getitem__, tokens))

    def capital_share(self, word: str) -> float | None:
        """The share of a lower-case word's uses inside sentences with a capital; None if it was never counted."""
        capital, small = self.capitals.get(word, (0, 0))
        return capital / (capital + small) if capital + small else None

    def to_bytes(self) -> bytes:
        """The content of `vocabulary.json`."""
        return msgspec.json.encode(_File(self.words, self.capitals, self.entities)) + b"\n"

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the vocabulary, the same on every machine."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    @classmethod
    def load(cls, path: str | Path) -> "Vocabulary":
        """Read what `to_bytes` returned from a file."""
        try:
            file = msgspec.json.decode(Path(path).read_bytes(), type=_File)
            if len(set(file.words)) < len(file.words):
                raise ValueError("a word occurs twice")
        except OSError as fault:
            raise FormatError(f"cannot read {path}: {fault.strerror or fault}", "check the path") from fault
        except (ValueError, RecursionError) as fault:  # msgspec's errors are ValueErrors
            remedy = "attar paper build and attar paper train write one"
            raise FormatError(f"{path} is not a vocabulary ({fault})", remedy) from fault
        return cls(file.words, file.capitals, file.entities)


def _count_capitals(inside: Counter[str]) -> dict[str, tuple[int, int]]:
    capitals: dict[str, tuple[int, int]] = {}
    for word, count in inside.items():
        if word[0].isalpha():
            capital, small = capitals.get(word.lower(), (0, 0))
            upper = not word.islower()
            capitals[word.lower()] = (capital + count * upper, small + count * (not upper))
    return capitals
