"""Texts into word pieces, and into windows of whole sentences; the phrases of windows into memories. Without torch."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.processors import TemplateProcessing

from attar.errors import FormatError, quoted
from attar.memory.memory import Floats, Memory
from attar.memory.phrases import JOINT, PhraseIndex
from attar.options import LONGEST
from attar.progress import check_stopped
from attar.text.english import NUMBER_FORMS
from attar.text.sentences import begins_anew, sentence_spans

# The most pieces of a window.
WINDOW = 318
# From this many pieces on a window ends at a blank line.
PARAGRAPH = 128
# Sentences tokenized at a time.
_SENTENCES = 2_000
# The longest phrase, in characters: a word that the tokenizer does not know may be as long as the text.
_LONGEST_PHRASE = 1_000
# Half of a surrogate pair is in no encoding; the replacement has as many characters.
_SURROGATE = re.compile("[\ud800-\udfff]")
# The longest word that may be cut into pieces, in characters: each of them takes as long as the word.
_LONGEST_WORD = 100
# Characters of a sentence that are read at once.
_TOGETHER = 20_000


def _is_bert(tokenizer: Tokenizer) -> bool:
    """Whether a tokenizer is BERT's, which takes linear time: others replace what a stranger's patterns find."""
    model = tokenizer.model
    return (
        isinstance(model, WordPiece)
        and model.max_input_chars_per_word <= _LONGEST_WORD
        and isinstance(tokenizer.normalizer, BertNormalizer)
        and isinstance(tokenizer.pre_tokenizer, BertPreTokenizer)
    )


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
        if not _is_bert(self._tokenizer):
            raise FormatError.expected(source, "WordPiece as BERT has it", "another tokenizer")
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
        short = iter(self._read_parts([sentence for sentence in sentences if len(sentence) <= _TOGETHER]))
        return [
            next(short) if len(sentence) <= _TOGETHER else self._read_long(sentence) for sentence in sentences
        ]

    def _read_long(self, sentence: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """A sentence part by part: all at once it would take two hundred bytes per character."""
        ids, places = [], []
        start = 0
        while start < len(sentence):
            end = start + _TOGETHER
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

    def read_questions(self, questions: Sequence[str]) -> list[NDArray[np.int32]]:
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


class FoundPhrases(NamedTuple):
    """Phrases of windows, in the order of the text: first and last piece of each, prior, and its vector in int8."""

    first: NDArray[np.int64]  # [P], counted from 0 in its window
    last: NDArray[np.int64]  # [P]
    priors: Floats  # [P]
    numbers: NDArray[np.int8]  # [P, k]
    scales: Floats  # [P]

    @classmethod
    def of(cls, blocks: NDArray[np.uint8]) -> "list[FoundPhrases]":
        """The phrases of windows in bytes `[B, K, 12 + k]`, as a device sends them.

        A phrase has its place among the spans of its window, counted by their first pieces from [CLS] on, in int32 (-1:
        the window has no more); its prior and scale in float32; and its vector in int8.
        """
        places = blocks[..., :4].copy().view(np.int32)[..., 0].astype(np.int64)
        floats = blocks[..., 4:12].copy().view(np.float32)
        first, numbers = places // LONGEST - 1, blocks[..., 12:].view(np.int8)
        last = first + places % LONGEST
        parts: tuple[NDArray[Any], ...] = (first, last, floats[..., 0], numbers, floats[..., 1])
        return [
            cls(*(part[row, :n] for part in parts)) for row, n in enumerate((places >= 0).sum(1).tolist())
        ]

    @classmethod
    def none(cls, size: int) -> "FoundPhrases":
        """No phrases."""
        places, floats = np.zeros(0, np.int64), np.zeros(0, np.float32)
        return cls(places, places, floats, np.zeros((0, size), np.int8), floats)

    def at(self, rows: "slice | NDArray[np.bool_]") -> "FoundPhrases":
        """Some of them."""
        parts: tuple[NDArray[Any], ...] = self
        return FoundPhrases(*(part[rows] for part in parts))


class Window(NamedTuple):
    """Whole sentences in word pieces: ids `[n]`, the place of each piece `[n, 2]`, its sentence's number `[n]`."""

    ids: NDArray[np.int64]
    places: NDArray[np.int64]
    sentences: NDArray[np.int64]


def cut_windows(tokenizer: PieceTokenizer, text: str, spans: Sequence[tuple[int, int]]) -> list[Window]:
    """A text, whose sentences have these spans, in windows of whole ones, each decided by what is before its end."""
    windows: list[Window] = []
    parts: list[Window] = []  # of one sentence each
    count = 0

    def close() -> None:
        nonlocal parts, count
        if parts:
            windows.append(Window(*map(np.concatenate, zip(*parts, strict=True))))
        parts, count = [], 0

    for first in range(0, len(spans), _SENTENCES):
        check_stopped()
        chunk = spans[first : first + _SENTENCES]
        read = tokenizer.read_sentences([text[start:end] for start, end in chunk])
        for at, ((start, _), (ids, places)) in enumerate(zip(chunk, read, strict=True), first):
            new_paragraph = at > 0 and "\n\n" in text[spans[at - 1][1] : start].replace(" ", "")
            if count + len(ids) > WINDOW or (new_paragraph and count >= PARAGRAPH):
                close()
            for cut in range(0, len(ids), WINDOW):
                if count and cut:
                    close()
                piece = slice(cut, cut + WINDOW)
                own = ids[piece]
                parts.append(Window(own, places[piece] + start, np.full(len(own), at)))
                count += len(own)
    close()
    return windows


@dataclass(frozen=True)
class WindowedText:
    """A text that is read, in windows: with the last window of the memory that it extends, which is read again."""

    text: str
    sentences: list[tuple[int, int]]
    windows: list[Window]

    @classmethod
    def of(cls, text: str, tokenizer: PieceTokenizer, before: PhraseIndex | None = None) -> "WindowedText":
        """What is read of a text; `before` is the index of the memory that it extends."""
        if before is not None and before.characters:
            text = before.tail + JOINT + text
        sentences = list(sentence_spans(text))
        return cls(text, sentences, cut_windows(tokenizer, text, sentences))

    @property
    def tokens(self) -> int:
        """The number of its word pieces."""
        return sum(len(window.ids) for window in self.windows)

    def memory(self, found: Sequence[FoundPhrases], size: int, reader: str) -> Memory:
        """The memory of the phrases `[P, size]` that were found in each window, by a reader of this fingerprint."""
        words: list[list[NDArray[np.int64]]] = [[] for _ in self.sentences]
        beginnings, sentence, count = [(0, 0, 0)], -1, 0
        kept = [FoundPhrases.none(size)]
        tables = [np.zeros((0, 4))]
        for window, phrases in zip(self.windows, found, strict=True):
            starts, ends = window.places[phrases.first, 0], window.places[phrases.last, 1]
            short = ends - starts <= _LONGEST_PHRASE
            if not short.all():
                phrases, starts, ends = phrases.at(short), starts[short], ends[short]
            kept.append(phrases)
            tables.append(np.column_stack((starts, ends, window.sentences[phrases.first], phrases.priors)))
            # The tail begins with a sentence, so that it is cut into the same sentences again.
            if window.sentences[0] > sentence:
                sentence = int(window.sentences[0])
                beginnings.append((self.sentences[sentence][0], count, sentence))
            sentence = int(window.sentences[-1])
            count += len(phrases.first)
            bounds = np.flatnonzero(np.diff(window.sentences, prepend=-1, append=-1)).tolist()
            for start, end in pairwise(bounds):
                words[window.sentences[start]].append(np.unique(window.ids[start:end]))
        index = PhraseIndex.of(
            self.text,
            np.concatenate(tables),
            self.sentences,
            [part[0] if len(part) == 1 else np.concatenate((np.zeros(0, np.int64), *part)) for part in words],
            tail=next(
                (place for place in reversed(beginnings) if begins_anew(self.text, place[0])), beginnings[0]
            ),
        )
        return Memory(
            form="phrases",
            numbers=np.concatenate([phrases.numbers for phrases in kept]),
            scales=np.concatenate([phrases.scales for phrases in kept]),
            phrases=index,
            tokens=self.tokens,
            reader=reader,
        )


def memories_of(
    texts: Sequence[WindowedText], found: Sequence[FoundPhrases], size: int, reader: str
) -> list[Memory]:
    """The memory of each text; `found` are the phrases of all their windows."""
    of_window = iter(found)
    return [text.memory([next(of_window) for _ in text.windows], size, reader) for text in texts]


def text_groups(texts: Sequence[str], characters: int) -> Iterator[tuple[int, list[str]]]:
    """Texts in order, in groups of about this many characters, each with the number of its first text."""
    first, size = 0, 0
    for at, text in enumerate(texts):
        size += len(text)
        if size >= characters or at == len(texts) - 1:
            yield first, list(texts[first : at + 1])
            first, size = at + 1, 0
