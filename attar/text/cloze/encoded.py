"""Cloze documents as arrays of ids, and new questions drawn on them: what training reads every epoch."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from attar.errors import FormatError
from attar.text.cloze.document import ClozeDocument
from attar.text.cloze.draw import askable_sentences, choose_blanks
from attar.text.vocabulary import Vocabulary

Ids = NDArray[np.int32]
_NONE = np.zeros(0, np.int32)


@dataclass(frozen=True)
class EncodedDocument:
    """A document's ids with its sentences' starts (and the end), its questions likewise, and their answers.

    Answers are numbers N of `@entityN`; its id is `first_entity + N`.
    """

    ids: Ids  # [n]
    sentence_starts: Ids  # [s + 1]
    question_ids: Ids  # [q]
    question_starts: Ids  # [m + 1]
    answers: Ids  # [m]
    entities: int
    first_entity: int
    placeholder: int

    @cached_property
    def mention_places(self) -> NDArray[np.intp]:
        """Where the names stand in `ids`."""
        return _places(self.ids, self)

    @cached_property
    def _mentions(self) -> tuple[list[list[int]], list[int], list[int], list[int]]:
        """Names by sentence, where each sentence's first stands among all, totals by name, what to ask of."""
        names = self.ids[self.mention_places] - self.first_entity
        bounds = np.searchsorted(self.mention_places, self.sentence_starts).tolist()
        flat = names.tolist()
        mentions = [flat[start:stop] for start, stop in pairwise(bounds)]
        totals = np.bincount(names).tolist() if len(names) else []
        return (
            mentions,
            bounds,
            totals,
            askable_sentences(mentions, np.diff(self.sentence_starts).tolist(), totals),
        )

    def draw(self, rng: np.random.Generator, count: int) -> "EncodedDocument":
        """Hold sentences out and make them the questions, as `draw_questions` does on tokens."""
        mentions, bounds, totals, askable = self._mentions
        chosen = choose_blanks(mentions, totals, askable, rng, count)
        if not chosen:
            return self
        starts = self.sentence_starts
        kept = np.ones(len(self.ids), np.bool_)
        kept_sentences = np.ones(len(starts) - 1, np.bool_)
        pieces, answers, ends = [], [], [0]
        for sentence, place in chosen:
            start, stop = int(starts[sentence]), int(starts[sentence + 1])
            kept[start:stop] = False
            kept_sentences[sentence] = False
            piece = self.ids[start:stop].copy()
            piece[self.mention_places[bounds[sentence] + place] - start] = self.placeholder
            pieces.append(piece)
            answers.append(mentions[sentence][place])
            ends.append(ends[-1] + stop - start)
        lengths = np.diff(starts)[kept_sentences]
        return EncodedDocument(
            self.ids[kept],
            np.concatenate((_NONE[:0], [0], np.cumsum(lengths)), dtype=np.int32),
            np.concatenate(pieces),
            np.array(ends, np.int32),
            np.array(answers, np.int32),
            self.entities,
            self.first_entity,
            self.placeholder,
        )

    def shuffle_names(self, rng: np.random.Generator) -> "EncodedDocument":
        """Give every name another of all the ids there are: each is trained, and none means anything."""
        new = rng.permutation(self.entities).astype(np.int32)
        ids, question_ids = self.ids.copy(), self.question_ids.copy()
        ids[self.mention_places] = new[ids[self.mention_places] - self.first_entity] + self.first_entity
        asked = _places(question_ids, self)
        question_ids[asked] = new[question_ids[asked] - self.first_entity] + self.first_entity
        return EncodedDocument(
            ids,
            self.sentence_starts,
            question_ids,
            self.question_starts,
            new[self.answers],
            self.entities,
            self.first_entity,
            self.placeholder,
        )


def _places(ids: Ids, document: EncodedDocument) -> NDArray[np.intp]:
    # One comparison instead of two: a number below the first wraps around to a large one.
    return np.flatnonzero((ids - document.first_entity).view(np.uint32) < document.entities)


def encode_document(document: ClozeDocument, vocabulary: Vocabulary) -> EncodedDocument:
    """Turn a document and its questions into arrays of ids.

    >>> vocabulary = Vocabulary(("met", "left"), entities=2)
    >>> encoded = encode_document(
    ...     ClozeDocument("a", "", [["@entity1", "met", "@entity0"], ["@entity1", "left"]], {}), vocabulary
    ... )
    >>> encoded.ids.tolist(), encoded.sentence_starts.tolist()
    ([4, 5, 3, 4, 6], [0, 3, 5])
    """
    highest = max((*document.names, *(question.answer for question in document.questions)), default=-1)
    if highest >= vocabulary.entities:
        raise FormatError(
            document.name,
            f"names up to @entity{vocabulary.entities - 1}",
            f"@entity{highest}",
            f"build the vocabulary with entities={highest + 1} or more",
        )
    ids, starts = _flatten(document.sentences, vocabulary)
    question_ids, question_starts = _flatten([question.tokens for question in document.questions], vocabulary)
    return EncodedDocument(
        ids,
        starts,
        question_ids,
        question_starts,
        np.array([question.answer for question in document.questions], np.int32),
        vocabulary.entities,
        vocabulary.first_entity,
        vocabulary.placeholder,
    )


def _flatten(rows: Sequence[Sequence[str]], vocabulary: Vocabulary) -> tuple[Ids, Ids]:
    ids = [number for row in rows for number in vocabulary.encode(row)]
    ends = np.cumsum([0, *map(len, rows)], dtype=np.int32)
    return np.array(ids, np.int32), ends
