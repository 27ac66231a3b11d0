"""Text into word pieces with their places: what transformer encoders read."""

import re
import unicodedata
from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer
from tokenizers.processors import TemplateProcessing

from attar.errors import FormatError, quoted
from attar.text.english import NUMBER_FORMS

Ints = NDArray[np.int32]
# Half of a surrogate pair is in no encoding; the replacement has as many characters.
_SURROGATE = re.compile("[\ud800-\udfff]")
# Characters of a sentence that are read at once.
_LONGEST = 20_000


class PieceTokenizer:
    """WordPiece, as BERT and its descendants use it, from a `tokenizer.json`."""

    def __init__(self, data: bytes, source: str = "tokenizer.json") -> None:
        self.data = data
        try:
            self._tokenizer = Tokenizer.from_buffer(data)
        except Exception as fault:  # tokenizers raises plain Exception
            # Its message quotes the file as it is, newlines too.
            got = quoted(str(fault))
            raise FormatError.expected(source, "a tokenizer of the tokenizers library", got) from fault
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self.cls, self.sep, self.pad = (self._id(token, source) for token in ("[CLS]", "[SEP]", "[PAD]"))
        # Not the file's own: one that is damaged ends the process.
        marks = [("[CLS]", self.cls), ("[SEP]", self.sep)]
        self._tokenizer.post_processor = TemplateProcessing("[CLS] $0 [SEP]", special_tokens=marks)

    def _id(self, token: str, source: str) -> int:
        found = self._tokenizer.token_to_id(token)
        if found is None:
            raise FormatError.expected(source, f"a vocabulary with {token}", "one without")
        return int(found)

    def __len__(self) -> int:
        return int(self._tokenizer.get_vocab_size())

    def read_sentences(self, sentences: Sequence[str]) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """The ids `[n]` and places `[n, 2]` of the pieces of sentences, one by one."""
        short = iter(self._read_parts([sentence for sentence in sentences if len(sentence) <= _LONGEST]))
        return [
            next(short) if len(sentence) <= _LONGEST else self._read_long(sentence) for sentence in sentences
        ]

    def _read_long(self, sentence: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """A sentence part by part: all at once it would take two hundred bytes per character."""
        ids, places = [], []
        start = 0
        while start < len(sentence):
            end = start + _LONGEST
            # Between words, unless a word is longer than a page.
            end = sentence.rfind(" ", start, end) + 1 or end
            (part,) = self._read_parts([sentence[start:end]])
            ids.append(part[0])
            places.append(part[1] + start)
            start = end
        return np.concatenate(ids), np.concatenate(places)

    def _read_parts(self, parts: Sequence[str]) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        encoded = self._tokenizer.encode_batch(_encodable(parts), add_special_tokens=False)
        return [
            (np.array(part.ids, np.int64), np.array(part.offsets, np.int64).reshape(-1, 2))
            for part in encoded
        ]

    def read_questions(self, questions: Sequence[str]) -> list[Ints]:
        """The ids of questions, with special tokens."""
        encoded = self._tokenizer.encode_batch_fast(_encodable(questions), add_special_tokens=True)
        return [np.array(question.ids, np.int32) for question in encoded]

    @cached_property
    def _pieces(self) -> list[str]:
        return [self._tokenizer.id_to_token(at) or "" for at in range(len(self))]

    @cached_property
    def continuing(self) -> NDArray[np.bool_]:
        """Whether each piece continues a word, `[V]`."""
        return np.array([piece.startswith("##") for piece in self._pieces])

    @cached_property
    def whole_words(self) -> frozenset[str]:
        """Words that are one piece."""
        return frozenset(piece for piece in self._pieces if not piece.startswith("##"))

    @cached_property
    def articles(self) -> NDArray[np.bool_]:
        """Whether each piece is an article, `[V]`."""
        return np.array([piece in ("a", "an", "the") for piece in self._pieces])

    @cached_property
    def marks(self) -> NDArray[np.bool_]:
        """Whether each piece is punctuation that is no part of an answer at its ends, `[V]`."""
        return np.array([len(piece) == 1 and _is_mark(piece) for piece in self._pieces])

    @cached_property
    def number_forms(self) -> dict[int, NDArray[np.int64]]:
        """For each piece that is digits, those that stand for the same number: 2, two, second, 2nd, ii."""
        forms = {row[0]: row for row in NUMBER_FORMS}
        return {
            at: np.array(
                [at, *filter(None, (self._tokenizer.token_to_id(form) for form in forms.get(piece, ())))]
            )
            for at, piece in enumerate(self._pieces)
            if piece.removeprefix("##").isdecimal()
        }


def _is_mark(character: str) -> bool:
    """Whether a character is punctuation, but for %, & and others that stand for a word.

    >>> [_is_mark(character) for character in ",.)“$%a"]
    [True, True, True, True, False, False, False]
    """
    return unicodedata.category(character).startswith("P") and character not in "%&#@*§‰"


def _encodable(texts: Sequence[str]) -> list[str]:
    return [_SURROGATE.sub("\ufffd", text) for text in texts]
