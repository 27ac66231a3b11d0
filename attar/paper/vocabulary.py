"""The words that a network knows, by frequency, and their ids. Names are not among them: they become `@entityN`."""

import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated

import msgspec

from attar.errors import FormatError
from attar.paper.names import WordCounts
from attar.paper.options import ENTITIES
from attar.text.english import ALONE, TITLES

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
