"""Text as numbers: what stands between two spaces is cut once and has a code ever after, and so has a word."""

import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from threading import Lock
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attar.text.chunks import LONGEST_PACKED, Chunks, ChunkTable, find_chunks, pack_chunks
from attar.text.tokens import LONGEST, Chunk, breaks_between, cut_chunk

# Read at a time, in characters: enough that numpy's calls cost little, few enough to lie in the cache.
BLOCK = 100_000

# A block ends with a whole chunk, the next one's first: what follows settles whether a sentence ends.
_NEXT_CHUNK = re.compile(r"\s\S+(?=\s)")
# A chunk's traits: how it ends in the lowest bits, then how it begins.
_ENDING, _SMALL, _STARTER, _DIGIT = 3, 4, 8, 16
_TRAITS = 32


def _break_table() -> NDArray[np.bool_]:
    """Tell by the traits of any two neighbours whether a sentence ends between them."""
    table = np.zeros((_TRAITS, _TRAITS), np.bool_)
    chunks: list[Chunk] = []
    for traits in range(_TRAITS):
        words = ("1",) if traits & _DIGIT else ("x",)
        chunks.append((words, traits & _ENDING, bool(traits & _SMALL), bool(traits & _STARTER)))
    for left, chunk in enumerate(chunks):
        if chunk[1]:
            table[left] = [breaks_between(chunk, right) for right in chunks]
    return table.ravel()


_BREAKS = _break_table()


class CodeBook(dict[str, int]):
    """Codes of chunks; behind them their words' codes, and behind those the words, their ids and kinds.

    >>> book = CodeBook({"ann": 7, "'s": 8, "left": 9, ".": 4, "then": 5}, lambda word: 12 * word.istitle())
    >>> words, stops = book.code_chunks(find_chunks("Ann's left. Then"), last=False)
    >>> [book.words[n] for n in words], stops.tolist()
    (['Ann', "'s", 'left', '.'], [4])
    >>> book.ids_of(words).tolist(), book.kinds_of(words).tolist()
    ([7, 8, 9, 4], [12, 16, 16, 0])
    """

    def __init__(self, ids: Mapping[str, int], kind_of: Callable[[str], int]) -> None:
        self._id_of, self._kind_of = ids, kind_of
        self.characters = 0
        # By a word's code: itself, in small letters, its id, and its kind with 16 added for small letters.
        self.words, self.lowers = [""], [""]
        self._ids, self._kinds = array("i", [0]), array("B", [0])
        self._codes: dict[str, int] = {}
        # By a chunk's code: its traits, how many words it has, and where their codes begin in `_spelled`.
        self._traits, self._counts, self._firsts = array("B", [0]), array("q", [0]), array("q", [0])
        self._spelled = array("q", [0])
        self._table = ChunkTable()
        self._lock = Lock()  # an array that numpy looks at cannot grow, nor may two threads give one code

    def __missing__(self, chunk: str) -> int:
        words, ending, small, starter = cut_chunk(chunk)
        self.characters += len(chunk)
        digit = bool(words) and words[0][0].isdigit()
        self[chunk] = found = self._note(words, ending + _SMALL * small + _STARTER * starter + _DIGIT * digit)
        return found

    def _note(self, words: Sequence[str], traits: int) -> int:
        self._firsts.append(len(self._spelled))
        self._counts.append(len(words))
        self._traits.append(traits)
        known = self._codes
        self._spelled.extend([known[word] if word in known else self._add(word) for word in words])
        return len(self._traits) - 1

    def _add(self, word: str) -> int:
        code = self._codes[word] = len(self.words)
        lower = word.lower()
        self.words.append(word)
        self.lowers.append(lower)
        self._ids.append(self._id_of[lower])
        self._kinds.append(self._kind_of(word) + 16 * word.islower())
        return code

    def code_words(self, words: Iterable[str]) -> NDArray[np.intp]:
        """Give the codes of words."""
        known = self._codes
        with self._lock:
            return np.array([known[word] if word in known else self._add(word) for word in words], np.intp)

    def code_chunks(self, chunks: Chunks, last: bool) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Give the words' codes, and after how many of them sentences end.

        Unless a text ends with them, the last of the chunks only settles whether one ends before it.
        """
        with self._lock:
            codes = self._codes_of(chunks)
            before = codes if last else codes[:-1]
            counts = np.frombuffer(self._counts, np.intp)[before]
            # The words of a chunk lie at `first`, `first + 1`, … among those that are spelled, and follow in
            # the text those of the chunks before it: one shift holds for all of them.
            stops = counts.cumsum()
            shifts = np.frombuffer(self._firsts, np.intp)[before]
            shifts += counts
            shifts -= stops
            places = np.repeat(shifts, counts)
            places += np.arange(len(places))
            words = np.frombuffer(self._spelled, np.intp)[places]
            traits = np.frombuffer(self._traits, np.uint8)[codes]
        pairs = traits[:-1] * np.intp(_TRAITS)
        pairs += traits[1:]
        breaks = _BREAKS[pairs]
        breaks |= chunks.after_blank_line[1:]
        ended = stops[:-1][breaks] if last else stops[breaks]
        return words, np.append(ended, stops[-1:]) if last else ended

    def _codes_of(self, chunks: Chunks) -> NDArray[np.intp]:
        first, second = pack_chunks(chunks)
        codes = self._table.find(first, second)
        unknown = (codes < 0).nonzero()[0]
        if len(unknown):
            known = len(self._traits)
            codes[unknown] = list(map(self.__getitem__, chunks.spelled(unknown)))
            if len(self._traits) > known:
                self._keep(chunks, unknown[codes[unknown] >= known], first, second, codes)
        return codes

    def _keep(
        self,
        chunks: Chunks,
        new: NDArray[np.intp],
        first: NDArray[np.uint64],
        second: NDArray[np.uint64],
        codes: NDArray[np.intp],
    ) -> None:
        """Move new chunks that are not too long from the dictionary to the table, where there is a place."""
        new = new[chunks.stops[new] - chunks.starts[new] <= LONGEST_PACKED]
        new = new[np.unique(codes[new], return_index=True)[1]]
        placed = self._table.add(first[new], second[new], codes[new])
        for chunk in chunks.spelled(new[placed]):
            del self[chunk]

    def kinds_of(self, words: NDArray[np.intp]) -> NDArray[np.uint8]:
        """Give the kinds of coded words, 16 added where a word is in small letters."""
        with self._lock:
            return np.frombuffer(self._kinds, np.uint8)[words]

    def ids_of(self, words: NDArray[np.intp]) -> NDArray[np.int32]:
        """Give the ids of coded words."""
        with self._lock:
            return np.frombuffer(self._ids, np.int32)[words]


class CodedText(NamedTuple):
    """Whole sentences: their words' codes `[n]`, after how many of these each ends, and the book of the codes."""

    words: NDArray[np.intp]
    stops: NDArray[np.intp]
    book: CodeBook

    def spelled(self) -> list[str]:
        """Give the words themselves."""
        return list(map(self.book.words.__getitem__, self.words.tolist()))

    def moved_to(self, book: CodeBook) -> "CodedText":
        """Give the same in another book's codes."""
        return self if book is self.book else CodedText(book.code_words(self.spelled()), self.stops, book)


def code_text(text: str, open_book: Callable[[], CodeBook]) -> Iterator[CodedText]:
    """Yield a text's sentences in blocks, holding no more than one block's words.

    >>> book = CodeBook({"ann": 7, "left": 9, ".": 4, "then": 5}, lambda word: 0)
    >>> [(block.spelled(), block.stops.tolist()) for block in code_text("Ann left. Then Ann", lambda: book)]
    [(['Ann', 'left', '.', 'Then', 'Ann'], [3, 5])]
    """
    start = 0
    rest = CodedText(np.zeros(0, np.intp), np.zeros(0, np.intp), open_book())
    while start < len(text):
        found = _NEXT_CHUNK.search(text, start + BLOCK)
        block = text[start : found.end() if found else len(text)]
        start = found.start() + 1 if found else len(text)
        rest = rest.moved_to(open_book())
        words, stops = rest.book.code_chunks(find_chunks(block), last=not found)
        if len(rest.words):
            words, stops = np.concatenate((rest.words, words)), stops + len(rest.words)
        stops = _bound(stops, len(words))
        done = int(stops[-1]) if len(stops) else 0
        if done:
            yield CodedText(words[:done], stops, rest.book)
        rest = CodedText(words[done:], stops[:0], rest.book)


def _bound(stops: NDArray[np.intp], count: int) -> NDArray[np.intp]:
    """Leave out empty sentences, and cut those that are too long, the open one at the end included."""
    starts = np.zeros_like(stops)
    starts[1:] = stops[:-1]
    lengths = stops - starts
    if len(stops) and lengths.min() == 0:
        stops = stops[lengths > 0]
    last = int(stops[-1]) if len(stops) else 0
    if count - last < LONGEST and (not len(stops) or lengths.max() <= LONGEST):
        return stops
    ends = [0, *stops.tolist(), count]
    cuts = [cut for a, b in pairwise(ends) for cut in range(a + LONGEST, b + (b == count), LONGEST)]
    return np.union1d(stops, np.array(cuts, np.intp))
