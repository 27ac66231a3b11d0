"""The words that a reader knows, their ids, and how often each is capitalised inside a sentence."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from attar.errors import FormatError
from attar.text.english import ALONE, TITLES
from attar.text.tokens import PLACEHOLDER, iterate_sentences

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_PAD, _UNKNOWN = "<pad>", "<unk>"
# Three times the most names in a window of 900 tokens: 134 in 84 novels, 183 in 6,663 wiki texts.
ENTITIES = 600
VOCABULARY_SIZE = 20_000
# Counts of capitals are kept for this many times its size: names are not among its words, but are counted.
_COUNTED = 3
# After one of these a capital may only mean that a sentence or a quotation begins.
OPENERS = frozenset(('"', "'", "(", "[", "{", "--", "-", "–", ":", ".", "!", "?", "...", "*", "/", "•", "|"))


_Count = Annotated[int, msgspec.Meta(ge=0)]


class _Counts(msgspec.Struct):
    """What Attar adds to the Hugging Face format."""

    entities: _Count
    capitals: dict[str, tuple[_Count, _Count]]


class _Model(msgspec.Struct):
    vocab: dict[str, _Count]
    attar: _Counts


class _TokenizerFile(msgspec.Struct):
    """What is read of `tokenizer.json`; the other fields are for the tokenizers library."""

    model: _Model


class _Ids(dict[str, int]):
    """Ids by word; a capitalised word has its lower-cased id, an unknown one that of `<unk>`."""

    def __missing__(self, word: str) -> int:
        lower = word.lower()
        found = self[lower] if lower != word and lower in self else self[_UNKNOWN]
        if len(self) < 1_000_000:
            self[word] = found
        return found


@dataclass(frozen=True)
class Vocabulary:
    """Words by id after `<pad>`, `<unk>`, `@placeholder` and the names' tokens; counts of capitals by word.

    >>> vocabulary = Vocabulary.build(["The dog saw Rex . Then a dog saw the dog ."], size=4, entities=2)
    >>> vocabulary.tokens
    ('<pad>', '<unk>', '@placeholder', '@entity0', '@entity1', 'dog', '.', 'saw', 'the')
    >>> vocabulary.encode(["A", "Dog", "saw", "@entity1"]), vocabulary.capitals["rex"]
    ([1, 5, 7, 4], (1, 0))
    """

    words: tuple[str, ...]
    capitals: dict[str, tuple[int, int]] = field(default_factory=dict)
    entities: int = ENTITIES

    @classmethod
    def build(
        cls,
        texts: Iterable[str],
        size: int = VOCABULARY_SIZE,
        entities: int = ENTITIES,
        *,
        marked: bool = False,
    ) -> "Vocabulary":
        """Count the words of texts and keep the most frequent ones that are not names.

        In marked texts `@entityN` and `@placeholder` stand for names and blanks, and are not counted as words.
        """
        everywhere, inside = Counter[str](), Counter[str]()
        for text in texts:
            for sentence in iterate_sentences(text, marked=marked):
                everywhere.update(sentence)
                if any(map(str.islower, sentence)):  # in a heading capitals mean nothing
                    inside.update(word for before, word in pairwise(sentence) if before not in OPENERS)
        capitals = _count_capitals(inside)
        counts = Counter[str]()
        for word, count in everywhere.items():
            lower = word.lower()
            capital, small = capitals.get(lower, (0, 0))
            # A capitalised name becomes `@entityN`; only its other uses (a rose, the reading) need a word.
            counted = (
                count if capital <= small or lower in ALONE or lower in TITLES else small * (word == lower)
            )
            counts[lower] += counted
        ranked = sorted((word for word in counts if counts[word] > 0), key=lambda word: (-counts[word], word))
        words = tuple(word for word in ranked if not word.startswith(("@placeholder", "@entity")))[:size]
        kept = set(words) | set(
            sorted(capitals, key=lambda word: (-sum(capitals[word]), word))[: _COUNTED * size]
        )
        return cls(words, {word: capitals[word] for word in sorted(kept & capitals.keys())}, entities)

    @cached_property
    def tokens(self) -> tuple[str, ...]:
        """All tokens by id."""
        return (_PAD, _UNKNOWN, PLACEHOLDER, *(f"@entity{n}" for n in range(self.entities)), *self.words)

    @cached_property
    def ids(self) -> dict[str, int]:
        """Ids by token in any case; every string has one."""
        return _Ids({token: n for n, token in enumerate(self.tokens)})

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def pad(self) -> int:
        """The id of padding."""
        return 0

    @property
    def unknown(self) -> int:
        """The id of every unknown word."""
        return 1

    @property
    def placeholder(self) -> int:
        """The id of a question's blank."""
        return 2

    @property
    def first_entity(self) -> int:
        """The id of `@entity0`; the other entities follow."""
        return 3

    def encode(self, tokens: Iterable[str]) -> list[int]:
        """Turn tokens into ids."""
        return list(map(self.ids.__getitem__, tokens))

    def decode(self, ids: Sequence[int]) -> list[str]:
        """Turn ids back into tokens."""
        return [self.tokens[n] for n in ids]

    def capital_share(self, word: str) -> float | None:
        """Return the share of a lower-case word's uses inside sentences with a capital; None if never counted."""
        capital, small = self.capitals.get(word, (0, 0))
        return capital / (capital + small) if capital + small else None

    def tokenizer(self) -> "Tokenizer":
        """Return the Hugging Face tokenizer with the same ids, for text whose words are separated by spaces."""
        from tokenizers import Tokenizer

        return Tokenizer.from_str(self.to_bytes().decode())

    def to_bytes(self) -> bytes:
        """Return `tokenizer.json` in the Hugging Face format, with the counts of capitals in its `model`."""
        model = {
            "type": "WordLevel",
            "vocab": {token: n for n, token in enumerate(self.tokens)},
            "unk_token": _UNKNOWN,
            "attar": {"entities": self.entities, "capitals": {w: list(c) for w, c in self.capitals.items()}},
        }
        whole: dict[str, Any] = {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": [],
            "normalizer": {"type": "Lowercase"},
            "pre_tokenizer": {"type": "WhitespaceSplit"},
            "post_processor": None,
            "decoder": None,
            "model": model,
        }
        return json.dumps(whole, ensure_ascii=False, separators=(",", ":")).encode()

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the vocabulary, the same on every machine."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    def save(self, path: str | Path) -> None:
        """Write `tokenizer.json`."""
        Path(path).write_bytes(self.to_bytes())

    @classmethod
    def load(cls, path: str | Path) -> "Vocabulary":
        """Read what `save` wrote."""
        try:
            whole = Path(path).read_bytes()
        except OSError as fault:
            raise FormatError.expected(
                str(path), "a tokenizer.json", fault.strerror or "an unreadable file", "check the path"
            ) from fault
        return cls.from_bytes(whole, str(path))

    @classmethod
    def from_bytes(cls, whole: bytes, name: str = "tokenizer.json") -> "Vocabulary":
        """Read what `to_bytes` wrote."""
        try:
            model = msgspec.json.decode(whole, type=_TokenizerFile).model
            entities, tokens = model.attar.entities, sorted(model.vocab, key=model.vocab.__getitem__)
            # Compared before the names' tokens are made: a few bytes may claim any number of them.
            if entities > len(tokens) - 3:
                raise ValueError(f"{entities} names among {len(tokens)} tokens")
            read = cls(tuple(tokens[3 + entities :]), model.attar.capitals, entities)
            if read.tokens != tuple(tokens) or len(set(model.vocab.values())) != len(tokens):
                raise ValueError("its tokens are in another order")
        except (ValueError, RecursionError) as fault:  # msgspec's errors are ValueErrors
            raise FormatError.expected(
                name,
                "a vocabulary that Attar saved",
                f"another file ({fault})",
                "attar cloze build and attar train write one",
            ) from fault
        return read


def _count_capitals(inside: Counter[str]) -> dict[str, tuple[int, int]]:
    capitals: dict[str, tuple[int, int]] = {}
    for word, count in inside.items():
        if word[0].isalpha():
            capital, small = capitals.get(word.lower(), (0, 0))
            upper = not word.islower()
            capitals[word.lower()] = (capital + count * upper, small + count * (not upper))
    return capitals
