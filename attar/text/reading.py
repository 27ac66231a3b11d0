"""Raw text to ids, names found and learnt on the way, as fast as a core can: what a reader feeds its encoder."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attar.errors import OptionError
from attar.text.coding import CodeBook, CodedText, code_text
from attar.text.entities import CapitalFinder, NameFinder
from attar.text.names import NameTable
from attar.text.questions import read_question
from attar.text.runs import Found, find_by_capitals
from attar.text.tokens import PLACEHOLDER
from attar.text.vocabulary import Vocabulary

# A book of codes with more characters in its chunks than this is put away for an empty one.
_FULL_BOOK = 4_000_000


@dataclass(frozen=True)
class ReadText:
    """Tokens' ids `[n]`, whether each ends a sentence `[n]`, and the table's number of each name `[n]`, else -1."""

    ids: NDArray[np.int32]
    sentence_ends: NDArray[np.bool_]
    names: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.ids)


class TextReader:
    """Reads text with a vocabulary and a finder of names, and remembers how words are read.

    >>> reader = TextReader(Vocabulary(("left", "met", "."), {}, entities=5))
    >>> table = NameTable()
    >>> read = reader.read("Then Ann Lee met Bob. Ann left.", table)
    >>> read.ids.tolist(), read.names.tolist(), read.sentence_ends.nonzero()[0].tolist()
    ([1, 3, 9, 4, 10, 3, 8, 10], [-1, 0, -1, 1, -1, 0, -1, -1], [4, 7])
    """

    def __init__(self, vocabulary: Vocabulary, finder: NameFinder | None = None) -> None:
        self.vocabulary = vocabulary
        self.finder = CapitalFinder(vocabulary) if finder is None else finder
        self._id_of = vocabulary.ids.__getitem__
        self._book = self._empty_book()

    def _empty_book(self) -> CodeBook:
        kind_of = self.finder.kind_of if isinstance(self.finder, CapitalFinder) else lambda word: 0
        return CodeBook(self.vocabulary.ids, kind_of)

    def _open_book(self) -> CodeBook:
        if self._book.characters > _FULL_BOOK:
            self._book = self._empty_book()
        return self._book

    def read(self, text: str, table: NameTable) -> ReadText:
        """Read a whole text; the table learns its names, and reading on equals reading at once."""
        read = [self._read_sentences(part, table) for part in code_text(text, self._open_book)]
        if len(read) == 1:
            return read[0]
        nothing = ReadText(np.zeros(0, np.int32), np.zeros(0, np.bool_), np.zeros(0, np.int32))
        parts = [nothing, *read]
        return ReadText(
            np.concatenate([part.ids for part in parts]),
            np.concatenate([part.sentence_ends for part in parts]),
            np.concatenate([part.names for part in parts]),
        )

    def iterate(self, text: str, table: NameTable, tokens: int) -> Iterator[ReadText]:
        """Yield a text in pieces of whole sentences, each as short as so many words allow."""
        if tokens < 1:
            raise OptionError("tokens", "a whole number from 1 up", repr(tokens))
        for piece in _regroup(code_text(text, self._open_book), tokens):
            yield self._read_sentences(piece, table)

    def question(self, text: str, table: NameTable) -> tuple[NDArray[np.int32], int]:
        """Turn a question into ids `[l]`, and tell where its blank is; the table learns nothing.

        >>> reader = TextReader(Vocabulary(("married", "."), {}, entities=1))
        >>> ids, blank = reader.question("Who married Ann?", NameTable())
        >>> ids.tolist(), blank
        ([2, 4, 1, 5], 0)
        """
        tokens = read_question(text, table, self.vocabulary)
        ids = np.fromiter(map(self._id_of, tokens), np.int32, len(tokens))
        return ids, tokens.index(PLACEHOLDER)

    def _read_sentences(self, text: CodedText, table: NameTable) -> ReadText:
        """Turn coded sentences into ids, with one token for each name."""
        # Another finder's subclass may find as it likes.
        by_capitals = type(self.finder) is CapitalFinder
        found = find_by_capitals(text, table) if by_capitals else _find_one_by_one(text, table, self.finder)
        ids = text.book.ids_of(text.words)
        ends = np.zeros(len(ids), np.bool_)
        ends[text.stops - 1] = True
        names = np.full(len(ids), -1, np.int32)
        if found.starts:
            starts, entities = np.array(found.starts), np.array(found.entities, np.int32)
            lasts = np.array(found.stops) - 1
            if entities.min() < 0:  # the table is full, and these stay words
                named = entities >= 0
                starts, lasts, entities = starts[named], lasts[named], entities[named]
            names[starts] = entities
            known = entities < self.vocabulary.entities
            ids[starts] = np.where(known, entities + self.vocabulary.first_entity, self.vocabulary.unknown)
            ends[starts] = ends[lasts]
            # One more where a name's second word is, one less behind its last: zero where words are kept.
            depth = np.zeros(len(ids) + 1, np.int8)
            depth[starts + 1] += 1
            depth[lasts + 1] -= 1
            kept = depth[:-1].cumsum(dtype=np.int8) == 0
            ids, ends, names = ids[kept], ends[kept], names[kept]
        return ReadText(ids, ends, names)


def _find_one_by_one(text: CodedText, table: NameTable, finder: NameFinder) -> Found:
    """Find and learn names as `mark` does, with any finder."""
    found = Found([], [], [])
    words = text.spelled()
    first = 0
    for last in text.stops.tolist():
        sentence = words[first:last]
        for start, stop in finder.find(sentence, table):
            entity = table.learn(sentence[start:stop])
            found.starts.append(first + start)
            found.stops.append(first + stop)
            found.entities.append(-1 if entity is None else entity)
        first = last
    return found


def _regroup(parts: Iterator[CodedText], tokens: int) -> Iterator[CodedText]:
    """Cut and join at sentences' ends, so that each part but the last just reaches so many words."""
    rest: CodedText | None = None
    for part in parts:
        if rest is not None:
            rest = rest.moved_to(part.book)
            part = CodedText(
                np.concatenate((rest.words, part.words)),
                np.concatenate((rest.stops, part.stops + len(rest.words))),
                part.book,
            )
        done = first = 0
        # The sentence that reaches so many words more is a piece's last.
        while (last := int(part.stops.searchsorted(done + tokens))) < len(part.stops):
            stop = int(part.stops[last])
            yield CodedText(part.words[done:stop], part.stops[first : last + 1] - done, part.book)
            done, first = stop, last + 1
        rest = CodedText(part.words[done:], part.stops[first:] - done, part.book)
    if rest is not None and len(rest.words):
        yield rest
