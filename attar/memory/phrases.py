"""The phrases of a document: where they are, how likely they are asked about, and the words of their sentences.

A memory of the form `phrases` has one vector per phrase in `Memory.numbers`; this is what belongs to the vectors.
Phrases are in the order of the text. Places are characters of the text. All of it adds up: the index of two texts
is the first's followed by the second's, moved by the first's length.
"""

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from attar.errors import RecordError

Places = NDArray[np.uint32]
# What is joined to a text is a new paragraph.
JOINT = "\n\n"
# Places have four bytes; half of what these hold, so that two such texts can be joined.
_MOST_CHARACTERS = 2**31 - 2
# More than any index needs: each character a sentence of its own, with a phrase.
_BYTES_PER_CHARACTER = 64


# The index as bytes is this in MessagePack, compressed: the arrays of `ARRAYS`, the texts, what is before the tail.
_Written = tuple[bytes, bytes, bytes, bytes, bytes, bytes, bytes, bytes, bytes, int, int]
# The characters of the text, and the length of the rest when it is decompressed.
_SIZES = struct.Struct("<QQ")


@dataclass(frozen=True, eq=False, kw_only=True)
class PhraseIndex:
    """The phrases, sentences and words of a text; the tail is what the next text may change: the last window.

    >>> phrases, sentences = [(0, 3, 0, 1.5), (10, 13, 1, 0.5)], [(0, 9), (10, 18)]
    >>> index = PhraseIndex.of("Ann left. Bob ran.", phrases, sentences, [[5, 7], [6]])
    >>> [index.text_of(at) for at in range(len(index))], index.sentence_of(1)
    (['Ann', 'Bob'], (10, 18))
    >>> both = index.add(index)
    >>> both.starts.tolist(), both.sentences.tolist(), both.characters, both.text_of(3)
    ([0, 10, 20, 30], [0, 1, 2, 3], 38, 'Bob')
    """

    characters: int  # of the whole text
    starts: Places  # [P]
    lengths: NDArray[np.uint16]  # [P]
    sentences: Places  # [P], the number of each phrase's sentence
    priors: NDArray[np.float32]  # [P], rounded to 16 bits
    sentence_starts: Places  # [S]
    sentence_lengths: Places  # [S]
    word_starts: NDArray[np.int64]  # [S + 1], where each sentence's words begin
    words: NDArray[np.uint16]  # [W], ids of word pieces, each once per sentence
    covered: str  # the text that phrases cover, each character once
    tail: str  # the text of the last window
    tail_phrases: int  # how many phrases and sentences are before it
    tail_sentences: int

    @classmethod
    def of(
        cls,
        text: str,
        phrases: ArrayLike,
        sentences: ArrayLike,
        words: Sequence[ArrayLike],
        *,
        tail: tuple[int, int, int] = (0, 0, 0),
    ) -> "PhraseIndex":
        """An index of phrases `[P, 4]` (start, end, sentence, prior), in the order of their starts and ends.

        `sentences` `[S, 2]` are starts and ends, `words` the word pieces of each. `tail` is the first character of the
        last window, and the number of phrases and sentences before it.
        """
        table = np.asarray(phrases, np.float64).reshape(-1, 4)
        starts, ends, numbers = table[:, :3].astype(np.int64).T
        places = np.asarray(sentences, np.int64).reshape(-1, 2)
        parts = [text[start:end] for start, end in _union(starts, ends)]
        tail_start, tail_phrases, tail_sentences = tail
        return cls(
            characters=len(text),
            starts=starts.astype(np.uint32),
            lengths=(ends - starts).astype(np.uint16),
            sentences=numbers.astype(np.uint32),
            priors=table[:, 3].astype(np.float16).astype(np.float32),
            sentence_starts=places[:, 0].astype(np.uint32),
            sentence_lengths=(places[:, 1] - places[:, 0]).astype(np.uint32),
            word_starts=np.cumsum([0, *(np.size(of_sentence) for of_sentence in words)]),
            words=np.concatenate([np.zeros(0, np.uint16), *words], casting="unsafe", dtype=np.uint16),
            covered="".join(parts),
            tail=text[tail_start:],
            tail_phrases=tail_phrases,
            tail_sentences=tail_sentences,
        )

    def __len__(self) -> int:
        return len(self.starts)

    @cached_property
    def _intervals(self) -> NDArray[np.int64]:
        """What phrases cover of the text, `[…, 2]`."""
        starts = self.starts.astype(np.int64)
        return np.array(_union(starts, starts + self.lengths), np.int64).reshape(-1, 2)

    @cached_property
    def _places_in_covered(self) -> NDArray[np.int64]:
        """Where each phrase begins in `covered`."""
        starts, intervals = self.starts.astype(np.int64), self._intervals
        before = np.cumsum(np.append(0, intervals[:, 1] - intervals[:, 0]))
        interval = np.searchsorted(intervals[:, 0], starts, side="right") - 1
        places: NDArray[np.int64] = before[interval] + starts - intervals[interval, 0]
        return places

    @cached_property
    def distinct_words(self) -> tuple[NDArray[np.intp], NDArray[np.uint16]]:
        """Each word of the text once, and for each of `words` its place among them."""
        # A table of all ids is faster than sorting them.
        present = np.zeros(int(self.words.max(initial=0)) + 1, np.bool_)
        present[self.words] = True
        distinct = np.flatnonzero(present)
        places = np.empty(len(present), np.uint16)
        places[distinct] = np.arange(len(distinct), dtype=np.uint16)
        return distinct, places[self.words]

    def text_of(self, phrase: int) -> str:
        return self.texts_of(np.array([phrase]))[0]

    def texts_of(self, phrases: NDArray[np.intp]) -> list[str]:
        starts = self._places_in_covered[phrases]
        ends = starts + self.lengths[phrases]
        return [self.covered[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]

    @cached_property
    def known_sentences(self) -> NDArray[np.bool_]:
        """Which sentences have words or phrases `[S]`: a budget, or a subtraction, leaves others without any."""
        known = np.diff(self.word_starts) > 0
        known[self.sentences] = True
        return known

    def sentence_of(self, phrase: int) -> tuple[int, int]:
        """Where the sentence of a phrase starts and ends."""
        sentence = self.sentences[phrase]
        start = int(self.sentence_starts[sentence])
        return start, start + int(self.sentence_lengths[sentence])

    @property
    def decoded_bytes(self) -> int:
        """The bytes of the index in memory: the arrays, the texts, and what is computed for the first question.

        These are eight per phrase for its place in the texts, and up to ten per word.
        """
        arrays = (int(getattr(self, name).nbytes) for name in (*ARRAYS, "sentences"))
        return sum(arrays) + len(self.covered) + len(self.tail) + 8 * len(self) + 10 * len(self.words)

    def take(self, chosen: NDArray[np.intp]) -> "PhraseIndex":
        """The index with only some of its phrases, in order."""
        covered = self.texts_of(chosen)
        starts, lengths = self.starts[chosen], self.lengths[chosen]
        pieces, end = [], 0
        for start, text in zip(starts.tolist(), covered, strict=True):
            pieces.append(text[max(0, end - start) :])
            end = max(end, start + len(text))
        return replace(
            self,
            starts=starts,
            lengths=lengths,
            sentences=self.sentences[chosen],
            priors=self.priors[chosen],
            covered="".join(pieces),
            tail_phrases=int(np.searchsorted(chosen, self.tail_phrases)),
        )

    def before_tail(self) -> "PhraseIndex":
        """The index of the text before the last window."""
        index = self.take(np.arange(self.tail_phrases))
        count = self.tail_sentences
        words = int(self.word_starts[count])
        return replace(
            index,
            characters=self.characters - len(self.tail),
            sentence_starts=self.sentence_starts[:count],
            sentence_lengths=self.sentence_lengths[:count],
            word_starts=self.word_starts[: count + 1],
            words=self.words[:words],
            tail="",
            tail_phrases=len(index),
            tail_sentences=count,
        )

    def add(self, other: "PhraseIndex", *, joint: int = len(JOINT)) -> "PhraseIndex":
        """The index of both texts, `joint` characters apart; the tail is the second's."""
        if not self.characters:
            joint = 0
        move, sentences = self.characters + joint, len(self.sentence_starts)
        return PhraseIndex(
            characters=move + other.characters,
            starts=np.concatenate((self.starts, other.starts + np.uint32(move))),
            lengths=np.concatenate((self.lengths, other.lengths)),
            sentences=np.concatenate((self.sentences, other.sentences + np.uint32(sentences))),
            priors=np.concatenate((self.priors, other.priors)),
            sentence_starts=np.concatenate((self.sentence_starts, other.sentence_starts + np.uint32(move))),
            sentence_lengths=np.concatenate((self.sentence_lengths, other.sentence_lengths)),
            word_starts=np.concatenate((self.word_starts, other.word_starts[1:] + self.word_starts[-1])),
            words=np.concatenate((self.words, other.words)),
            covered=self.covered + other.covered,
            tail=other.tail,
            tail_phrases=len(self) + other.tail_phrases,
            tail_sentences=sentences + other.tail_sentences,
        )

    def find(self, part: "PhraseIndex") -> int | None:
        """The number of sentences before the place where a part was added; None if it was not."""
        count, words = len(part.sentence_starts), part.words.tobytes()
        for first in range(len(self.sentence_starts) - count + 1):
            start, stop = self.word_starts[first], self.word_starts[first + count]
            same = self.words[start:stop].tobytes() == words
            if same and np.array_equal(self.sentence_lengths[first : first + count], part.sentence_lengths):
                return first
        return None

    def to_bytes(self) -> bytes:
        """The index as bytes."""
        arrays = []
        for name, dtype in ARRAYS.items():
            array = getattr(self, name)
            if name.endswith("starts"):
                array = np.diff(array, prepend=array.dtype.type(0))
            arrays.append(array.astype(dtype).tobytes())
        # Ascending arrays are written as differences. A text may have halves of surrogate pairs.
        texts = (text.encode("utf-8", "surrogatepass") for text in (self.covered, self.tail))
        data = msgspec.msgpack.encode([*arrays, *texts, self.tail_phrases, self.tail_sentences])
        return _SIZES.pack(self.characters, len(data)) + zlib.compress(data, 9)

    @classmethod
    def from_bytes(cls, data: bytes | memoryview) -> "PhraseIndex":
        """The index in bytes; everything that it claims is checked."""
        try:
            characters, size = _SIZES.unpack_from(data)
            whole = _decompress(data[_SIZES.size :], size, characters)
            *columns, tail_phrases, tail_sentences = msgspec.msgpack.decode(whole, type=_Written)
            covered, tail = (str(text, "utf-8", "surrogatepass") for text in columns[len(ARRAYS) :])
            arrays: dict[str, Any] = {}
            for (name, dtype), column in zip(ARRAYS.items(), columns, strict=False):
                array = np.frombuffer(column, dtype)
                arrays[name] = np.cumsum(array, dtype=dtype) if name.endswith("starts") else array
            arrays["priors"] = arrays["priors"].astype(np.float32)
            arrays["word_starts"] = arrays["word_starts"].astype(np.int64)
        except (msgspec.DecodeError, ValueError, OverflowError, struct.error, zlib.error) as fault:
            raise _damaged(str(fault)) from fault
        numbers = np.searchsorted(arrays["sentence_starts"], arrays["starts"], side="right") - 1
        index = cls(
            characters=characters,
            **arrays,
            sentences=np.maximum(numbers, 0).astype(np.uint32),
            covered=covered,
            tail=tail,
            tail_phrases=tail_phrases,
            tail_sentences=tail_sentences,
        )
        index._check()
        return index

    def _check(self) -> None:
        phrases, sentences = len(self.starts), len(self.sentence_starts)
        if (
            not len(self.lengths) == len(self.sentences) == len(self.priors) == phrases
            or not len(self.sentence_lengths) == len(self.word_starts) - 1 == sentences
        ):
            raise _damaged("its parts have other lengths")
        ends = self.starts.astype(np.int64) + self.lengths
        sentence_ends = self.sentence_starts.astype(np.int64) + self.sentence_lengths
        sound = (
            self.sentences.max(initial=0) < max(sentences, 1)
            and not (sentences == 0 and phrases)
            and max(ends.max(initial=0), sentence_ends.max(initial=0)) <= self.characters
            and bool((np.diff(self.starts.astype(np.int64)) >= 0).all())
            and int(self.word_starts[0]) == 0
            and int(self.word_starts[-1]) == len(self.words)
            and bool((np.diff(self.word_starts) >= 0).all())
            and self.characters <= _MOST_CHARACTERS
            and 0 <= self.tail_phrases <= phrases
            and 0 <= self.tail_sentences <= sentences
            and len(self.tail) <= self.characters
            and bool(np.isfinite(self.priors).all())
        )
        if not sound or int(np.diff(self._intervals).sum()) != len(self.covered):
            raise _damaged("its parts do not agree")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PhraseIndex):
            return NotImplemented
        names = [field.name for field in fields(self)]
        return all(np.array_equal(getattr(self, name), getattr(other, name)) for name in names)

    __hash__ = None  # type: ignore[assignment]  # compared by its arrays


# How arrays are written.
ARRAYS: dict[str, np.dtype[Any]] = {
    "starts": np.dtype("<u4"),
    "lengths": np.dtype("<u2"),
    "priors": np.dtype("<f2"),
    "sentence_starts": np.dtype("<u4"),
    "sentence_lengths": np.dtype("<u4"),
    "word_starts": np.dtype("<u4"),
    "words": np.dtype("<u2"),
}


def _union(starts: NDArray[np.int64], ends: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Intervals that cover the same as the given ones, which are in the order of their starts.

    >>> _union(np.array([0, 2, 9]), np.array([4, 3, 11]))
    [(0, 4), (9, 11)]
    """
    if not len(starts):
        return []
    reach = np.maximum.accumulate(ends)
    first = np.flatnonzero(np.append(True, starts[1:] > reach[:-1]))
    last = np.append(first[1:] - 1, len(starts) - 1)
    return list(zip(starts[first].tolist(), reach[last].tolist(), strict=True))


def _decompress(data: bytes | memoryview, size: int, characters: int) -> bytes:
    """The `size` bytes that were compressed; more than a text of that many characters can have are refused."""
    if size > _BYTES_PER_CHARACTER * characters + 1_024:
        raise ValueError(f"{size} bytes for a text of {characters} characters")
    decompressor = zlib.decompressobj()
    whole = decompressor.decompress(data, size + 1)
    if len(whole) != size or not decompressor.eof or decompressor.unused_data:
        raise ValueError(f"other than {size} bytes")
    return whole


def _damaged(reason: str) -> RecordError:
    return RecordError(f"the index of phrases is damaged: {reason}")
