"""Text into token ids: sentences, then tokens, then names, then ids. What a reader feeds its encoder."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attar.errors import OptionError
from attar.text.name_table import NameTable
from attar.text.names import CapitalFinder, NameFinder, learn_names, start_of_titles
from attar.text.questions import read_question
from attar.text.tokens import PLACEHOLDER, iterate_sentences
from attar.text.vocabulary import Vocabulary


@dataclass(frozen=True)
class ReadText:
    """Token ids `[n]`, whether each token ends a sentence `[n]`, and the name's id in the table `[n]`, else -1."""

    ids: NDArray[np.int32]
    sentence_ends: NDArray[np.bool_]
    names: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.ids)


class TextReader:
    """Turns text into ids with a vocabulary and a finder of names.

    >>> reader = TextReader(Vocabulary(("left", "met", "."), {}, entities=5))
    >>> table = NameTable()
    >>> read = reader.read("Then Ann Lee met Bob. Ann left.", table)
    >>> read.ids.tolist(), read.names.tolist(), read.sentence_ends.nonzero()[0].tolist()
    ([1, 3, 9, 4, 10, 3, 8, 10], [-1, 0, -1, 1, -1, 0, -1, -1], [4, 7])
    """

    def __init__(self, vocabulary: Vocabulary, finder: NameFinder | None = None) -> None:
        self.vocabulary = vocabulary
        self.finder = CapitalFinder(vocabulary) if finder is None else finder

    def read(self, text: str, table: NameTable) -> ReadText:
        """Read a text; the table learns its names. Two texts read in turn give what their join gives."""
        return self._read_sentences(iterate_sentences(text), table)

    def read_in_parts(self, text: str, table: NameTable, tokens: int) -> Iterator[ReadText]:
        """Yield a text in parts of whole sentences: each part is the shortest with at least `tokens` words."""
        if tokens < 1:
            raise OptionError.expected("tokens", "a whole number from 1 up", repr(tokens))
        part: list[list[str]] = []
        length = 0
        for sentence in iterate_sentences(text):
            part.append(sentence)
            length += len(sentence)
            if length >= tokens:
                yield self._read_sentences(part, table)
                part, length = [], 0
        if part:
            yield self._read_sentences(part, table)

    def read_question(self, text: str, table: NameTable) -> tuple[NDArray[np.int32], int]:
        """Turn a question into ids `[l]` and the position of its blank; the table learns nothing.

        >>> reader = TextReader(Vocabulary(("married", "."), {}, entities=1))
        >>> ids, blank = reader.read_question("Who married Ann?", NameTable())
        >>> ids.tolist(), blank
        ([2, 4, 1, 5], 0)
        """
        tokens = read_question(text, table, self.vocabulary)
        return np.array(self.vocabulary.encode(tokens), np.int32), tokens.index(PLACEHOLDER)

    def _read_sentences(self, sentences: Iterable[list[str]], table: NameTable) -> ReadText:
        """Turn sentences into ids, one token per name."""
        vocabulary = self.vocabulary
        ids: list[int] = []
        positions: list[int] = []  # of the names
        entities: list[int] = []
        stops: list[int] = []  # one past each sentence's last token
        for sentence in sentences:
            done = 0
            for start, stop, entity in learn_names(sentence, table, self.finder):
                # A title would stand between a name and what is said of it, and "___ read" is asked without.
                ids += vocabulary.encode(sentence[done : start_of_titles(sentence, start, done)])
                positions.append(len(ids))
                entities.append(entity)
                known = entity < vocabulary.entities
                ids.append(vocabulary.first_entity + entity if known else vocabulary.unknown)
                done = stop
            ids += vocabulary.encode(sentence[done:])
            stops.append(len(ids))
        sentence_ends = np.zeros(len(ids), np.bool_)
        sentence_ends[np.array(stops, np.intp) - 1] = True
        names = np.full(len(ids), -1, np.int32)
        names[positions] = entities
        return ReadText(np.array(ids, np.int32), sentence_ends, names)
