"""Text into word pieces with their places in the text: what transformer encoders read. Kinds of phrases; English."""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from attar.errors import FormatError
from attar.text.english import (
    DAYS_AND_MONTHS,
    ENGLISH_ONLY,
    OTHER_LANGUAGES,
    SHARED_QUESTION_WORDS,
    SHARED_WORDS,
    word_set,
)
from attar.text.tokens import sentence_spans

Ints = NDArray[np.int32]
# Half of a surrogate pair is in no encoding; the replacement has as many characters.
_SURROGATE = re.compile("[\ud800-\udfff]")
_DAY_OR_MONTH = "|".join(
    sorted(re.escape(word) for word in DAYS_AND_MONTHS if word not in ("may", "march", "lent"))
)
_DATE = re.compile(
    rf"\b(?:{_DAY_OR_MONTH})(?!\w)|(?-i:\bMay\b|\bMarch\b)"
    r"|\b(?:1[0-9]|20)\d\ds?\b|\b\d{1,4}[/.-]\d{1,2}[/.-]\d{1,4}\b|\bcentur(?:y|ies)\b|\bdecades?\b"
    r"|\b(?:today|tomorrow|yesterday)\b|^(?:the )?(?:spring|summer|autumn|winter)$",
    re.IGNORECASE,
)
_TIME = re.compile(
    r"\b\d{1,2}(?::\d\d|\.\d\d)?\s*(?:[ap]\.?m\b|o'clock)|\b\d{1,2}:\d\d\b|\b(?:noon|midnight)\b",
    re.IGNORECASE,
)
_MONEY = re.compile(r"[$€£¥]|\b(?:dollars?|euros?|pounds?|cents?|usd|eur|gbp)\b", re.IGNORECASE)
_NUMBER = re.compile(
    r"\d|\b(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|(?:thir|four|fif|six|seven|eigh|nine)teen"
    r"|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|hundred|thousand|million|billion|half|twice|dozen|percent)\b",
    re.IGNORECASE,
)
_SMALL = word_set("a an and at by de for from in la le of on or the to van von with")
# Words that say nothing of what a sentence is about.
COMMON = word_set(
    "the a an of in on at to for and or is was were are by with from as it its that this his her"
)
_LETTERS = re.compile(r"[^\W\d_]+")
# Letters of other scripts than Latin.
_OTHER_SCRIPT = re.compile(r"[^\W\d_\u0000-\u024f\u1e00-\u1eff]")
# So many words that English or names have as well say that a question is in another language: two are in van der Meer.
_SHARED = 3


@dataclass(frozen=True)
class PieceText:
    """A text in `n` word pieces: their ids, the characters where each starts and ends, and its sentence's number."""

    ids: Ints
    starts: Ints
    ends: Ints
    sentences: Ints
    sentence_spans: tuple[tuple[int, int], ...]  # characters

    def __len__(self) -> int:
        return len(self.ids)


class PieceTokenizer:
    """WordPiece, as BERT and its descendants use it, from a `tokenizer.json`."""

    def __init__(self, data: bytes, source: str = "tokenizer.json") -> None:
        self.data = data
        try:
            self._tokenizer = Tokenizer.from_buffer(data)
        except Exception as fault:  # tokenizers raises plain Exception
            raise FormatError(source, "a tokenizer of the tokenizers library", str(fault)) from fault
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self.cls, self.sep, self.pad = (self._id(token, source) for token in ("[CLS]", "[SEP]", "[PAD]"))

    def _id(self, token: str, source: str) -> int:
        found = self._tokenizer.token_to_id(token)
        if found is None:
            raise FormatError(source, f"a vocabulary with {token}", "one without")
        return int(found)

    @classmethod
    def load(cls, path: str | Path) -> "PieceTokenizer":
        """The tokenizer in a file."""
        return cls(Path(path).read_bytes(), str(path))

    def __len__(self) -> int:
        return int(self._tokenizer.get_vocab_size())

    def read(self, texts: Sequence[str]) -> list[PieceText]:
        """The texts in word pieces, without special tokens."""
        encoded = self._tokenizer.encode_batch(_encodable(texts), add_special_tokens=False)
        return [_piece_text(text, each.ids, each.offsets) for text, each in zip(texts, encoded, strict=True)]

    def read_sentences(self, sentences: Sequence[str]) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """The ids `[n]` and places `[n, 2]` of the pieces of sentences, one by one."""
        encoded = self._tokenizer.encode_batch(_encodable(sentences), add_special_tokens=False)
        return [
            (np.array(each.ids, np.int64), np.array(each.offsets, np.int64).reshape(-1, 2))
            for each in encoded
        ]

    def read_questions(self, questions: Sequence[str]) -> list[Ints]:
        """The ids of questions, with special tokens."""
        encoded = self._tokenizer.encode_batch_fast(_encodable(questions), add_special_tokens=True)
        return [np.array(each.ids, np.int32) for each in encoded]

    @cached_property
    def continuing(self) -> NDArray[np.bool_]:
        """Whether each piece continues a word, `[V]`."""
        pieces = (self._tokenizer.id_to_token(at) or "" for at in range(len(self)))
        return np.array([piece.startswith("##") for piece in pieces])

    @cached_property
    def numeric(self) -> NDArray[np.bool_]:
        """Whether each piece is digits, `[V]`."""
        pieces = (self._tokenizer.id_to_token(at) or "" for at in range(len(self)))
        return np.array([piece.removeprefix("##").isdecimal() for piece in pieces])

    @cached_property
    def articles(self) -> NDArray[np.bool_]:
        """Whether each piece is an article, `[V]`."""
        pieces = (self._tokenizer.id_to_token(at) or "" for at in range(len(self)))
        return np.array([piece in ("a", "an", "the") for piece in pieces])

    @cached_property
    def marks(self) -> NDArray[np.bool_]:
        """Whether each piece is punctuation that is no part of an answer at its ends, `[V]`."""
        pieces = (self._tokenizer.id_to_token(at) or "" for at in range(len(self)))
        return np.array([len(piece) == 1 and _is_mark(piece) for piece in pieces])


def _is_mark(character: str) -> bool:
    """Whether a character is punctuation, but for %, & and others that stand for a word.

    >>> [_is_mark(each) for each in ",.)“$%a"]
    [True, True, True, True, False, False, False]
    """
    return unicodedata.category(character).startswith("P") and character not in "%&#@*§‰"


def _encodable(texts: Sequence[str]) -> list[str]:
    return [_SURROGATE.sub("\ufffd", text) for text in texts]


def _piece_text(text: str, ids: list[int], offsets: list[tuple[int, int]]) -> PieceText:
    places = np.array(offsets, np.int32).reshape(-1, 2)
    spans = tuple(sentence_spans(text))
    first = np.array([start for start, _ in spans], np.int32)
    sentences = np.maximum(np.searchsorted(first, places[:, 0], side="right") - 1, 0).astype(np.int32)
    return PieceText(np.array(ids, np.int32), places[:, 0], places[:, 1], sentences, spans)


def kind_of(phrase: str) -> str:
    """The kind of a phrase.

    >>> [kind_of(text) for text in ("Ann Lee", "the 4th of May", "half past", "$3.50", "10:30", "12 apples")]
    ['name', 'date', 'number', 'money', 'time', 'number']
    >>> kind_of("University of Oslo"), kind_of("a red hat")
    ('name', 'phrase')
    """
    for kind, pattern in (("money", _MONEY), ("time", _TIME), ("date", _DATE), ("number", _NUMBER)):
        if pattern.search(phrase):
            return kind
    words = [word for word in re.findall(r"[^\W\d_]+", phrase) if word.lower() not in _SMALL]
    return "name" if words and all(word[0].isupper() for word in words) else "phrase"


def is_english(question: str) -> bool:
    """Whether a question is in English, as far as its words tell: names and keywords alone may be.

    One word that only English has is enough: questions name books, and ask what words mean.

    >>> [is_english(text) for text in ("Who led it?", "Wer leitete die Sitzung?", "Tesla birthplace", "Кто он?")]
    [True, False, True, False]
    """
    words = _LETTERS.findall(question.lower())
    if not ENGLISH_ONLY.isdisjoint(words):
        return True
    if not OTHER_LANGUAGES.isdisjoint(words) or "¿" in question:
        return False
    if len(_OTHER_SCRIPT.findall(question)) * 2 > max(2, sum(map(len, words))):
        return False
    foreign = sum(word in SHARED_WORDS for word in words) + (not SHARED_QUESTION_WORDS.isdisjoint(words[:1]))
    # Words with a capital are names: José, Zürich.
    foreign += sum(word.islower() and not word.isascii() for word in _LETTERS.findall(question))
    return foreign < _SHARED
