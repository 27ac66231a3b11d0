"""A split of a cloze set as flat arrays of ids, and questions drawn from all of its documents at once."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from attar.errors import FormatError
from attar.files import atomic_file
from attar.paper.cloze import ClozeDocument, entity_number
from attar.paper.vocabulary import Vocabulary

Ids = NDArray[np.int32]
Offsets = NDArray[np.int64]
_NO_NAME = -1
# Shorter sentences say too little about the name ("said @placeholder ."), longer ones are rarely sentences.
_SHORTEST = 6
_LONGEST = 80
# At most one sentence in four is held out, so that a short document keeps its facts.
_ONE_IN = 4


@dataclass(frozen=True)
class EncodedSplit:
    """Documents as flat arrays: T tokens, S sentences, D documents, N names, Q questions.

    Within a document names are numbered from 0, in the order of their numbers in the set: name j of document
    d is `@entity{numbers[name_starts[d] + j]}`. Tokens that are names have id 0 in `ids`: which id a name gets is
    drawn again for every batch.
    """

    ids: Ids  # [T]
    names: Ids  # [T], -1 where a token is not a name
    document_starts: Offsets  # [D + 1], in tokens
    sentence_starts: Offsets  # [S + 1], in tokens
    document_sentences: Offsets  # [D + 1], in sentences
    name_starts: Offsets  # [D + 1], in names
    numbers: Ids  # [N]
    question_ids: Ids  # [q]
    question_names: Ids  # [q]
    question_starts: Offsets  # [Q + 1], in the questions' tokens
    document_questions: Offsets  # [D + 1], in questions
    answers: Ids  # [Q], numbers as in `names`
    source_of: Ids  # [D], in `sources`
    sources: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.document_starts) - 1

    @cached_property
    def lengths(self) -> Offsets:
        """Tokens per document [D]."""
        return np.diff(self.document_starts)

    @cached_property
    def sentence_ends(self) -> NDArray[np.bool_]:
        """True at the last token of every sentence [T]."""
        ends = np.zeros(len(self.ids), np.bool_)
        ends[self.sentence_starts[1:][np.diff(self.sentence_starts) > 0] - 1] = True
        return ends

    @cached_property
    def fingerprint(self) -> str:
        """A hash of documents and questions, independent of where and when the set was copied."""
        digest = hashlib.sha256()
        for name, array in self._arrays().items():
            digest.update(f"{name} {array.dtype} {array.shape}".encode())
            digest.update(array.data)
        return digest.hexdigest()

    def _arrays(self) -> dict[str, NDArray[Any]]:
        """All but the names of sources, which may change with a set's path."""
        return {field.name: np.ascontiguousarray(getattr(self, field.name)) for field in fields(self)[:-1]}

    def save(self, path: Path, note: str) -> None:
        """Write one file atomically."""
        from safetensors.numpy import save_file

        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(path) as partial:
            about = {"sources": json.dumps(self.sources), "note": note, "fingerprint": self.fingerprint}
            save_file(self._arrays(), partial, about)

    @classmethod
    def load(cls, path: Path, note: str) -> "EncodedSplit | None":
        """Load what `save` wrote; None if the file is missing, damaged, or has another note."""
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(path, "np") as file:
                about = file.metadata()
                if about["note"] != note:
                    return None
                arrays = {field.name: file.get_tensor(field.name) for field in fields(cls)[:-1]}
                sources = msgspec.json.decode(about["sources"], type=tuple[str, ...])
            loaded = cls(**arrays, sources=sources)
            return loaded if loaded.fingerprint == about["fingerprint"] else None
        except (OSError, SafetensorError, KeyError, ValueError, TypeError):
            return None


def encode_split(documents: Iterable[ClozeDocument], vocabulary: Vocabulary) -> EncodedSplit:
    """Turn documents and their questions into flat arrays of ids.

    >>> vocabulary = Vocabulary(("met", "left"), entities=8)
    >>> document = ClozeDocument("a", "", [["@entity7", "met", "@entity2"], ["@entity7", "left"]], {})
    >>> split = encode_split([document], vocabulary)
    >>> split.ids.tolist(), split.names.tolist(), split.numbers.tolist()
    ([0, 11, 0, 0, 12], [1, -1, 0, 1, -1], [2, 7])
    """
    values: dict[str, list[Ids]] = {
        field.name: [np.zeros(0, np.int32)] for field in fields(EncodedSplit) if field.type == Ids
    }
    lengths: dict[str, list[int]] = {
        field.name: [0] for field in fields(EncodedSplit) if field.type == Offsets
    }
    sources: dict[str, int] = {}
    for document in documents:
        entities = _entities_of(document)
        if len(entities) > vocabulary.entities:
            limit = f"at most {vocabulary.entities} names"
            raise FormatError.expected(document.name, limit, str(len(entities)))
        place = {f"@entity{number}": at for at, number in enumerate(entities)}
        questions = [question.tokens for question in document.questions]
        ids, names = _encode(document.sentences, vocabulary, place)
        question_ids, question_names = _encode(questions, vocabulary, place)
        values["ids"].append(ids)
        values["names"].append(names)
        values["numbers"].append(np.array(_numbers_within(entities, vocabulary.entities), np.int32))
        values["question_ids"].append(question_ids)
        values["question_names"].append(question_names)
        answers = [place[f"@entity{question.answer}"] for question in document.questions]
        values["answers"].append(np.array(answers, np.int32))
        values["source_of"].append(np.array([sources.setdefault(document.source, len(sources))], np.int32))
        lengths["document_starts"].append(len(ids))
        lengths["sentence_starts"].extend(map(len, document.sentences))
        lengths["document_sentences"].append(len(document.sentences))
        lengths["name_starts"].append(len(entities))
        lengths["question_starts"].extend(map(len, questions))
        lengths["document_questions"].append(len(questions))
    arrays: dict[str, Any] = {name: np.concatenate(parts) for name, parts in values.items()}
    arrays |= {name: np.cumsum(counts, dtype=np.int64) for name, counts in lengths.items()}
    return EncodedSplit(**arrays, sources=tuple(sources))


def _entities_of(document: ClozeDocument) -> list[int]:
    """The sorted numbers of all names in a document's text, questions and answers."""
    rows = [*document.sentences, *(question.tokens for question in document.questions)]
    return sorted(
        {entity for row in rows for token in row if (entity := entity_number(token)) is not None}
        | {question.answer for question in document.questions}
    )


def _numbers_within(entities: Sequence[int], limit: int) -> list[int]:
    """The numbers, free ones in place of those from the limit on: which number a name has means nothing.

    >>> _numbers_within([1, 700, 900], 4)
    [1, 0, 2]
    """
    free = iter(sorted(set(range(limit)).difference(entities)))
    return [number if number < limit else next(free) for number in entities]


def _encode(rows: Iterable[Sequence[str]], vocabulary: Vocabulary, place: dict[str, int]) -> tuple[Ids, Ids]:
    """The ids of rows of tokens, 0 for names, and which of the document's names each token is."""
    tokens = [token for row in rows for token in row]
    names = np.array([place.get(token, _NO_NAME) for token in tokens], np.int32)
    return np.where(names >= 0, 0, np.array(vocabulary.encode(tokens), np.int32)), names


@dataclass(frozen=True)
class DrawnQuestions:
    """The held-out sentences of a split, in order, and the blanked token of each."""

    sentences: Offsets  # [Q]
    blanks: Offsets  # [Q], the token
    document_questions: Offsets  # [D + 1], in questions


class QuestionDrawer:
    """Draws questions from all documents of a split: sentences held out, with one name blanked.

    The name occurs in the sentence once, and in the rest of the document as well.
    """

    def __init__(self, split: EncodedSplit) -> None:
        self.split = split
        # The mentions of names: token, name, whether the only one of its name in its sentence.
        self._token = np.flatnonzero(split.names >= 0)
        sentence = np.searchsorted(split.sentence_starts, self._token, "right") - 1
        document = np.searchsorted(split.document_starts, self._token, "right") - 1
        self._name = split.name_starts[document] + split.names[self._token]
        key = sentence * (len(split.numbers) + 1) + self._name
        _, which, times = np.unique(key, return_inverse=True, return_counts=True)
        self._alone = times[which] == 1
        # Each sentence's first mention.
        self._starts = np.searchsorted(sentence, np.arange(len(split.sentence_starts)))
        # How often each name occurs in its document.
        self._totals = np.bincount(self._name, minlength=len(split.numbers))
        # The sentences with a name to blank.
        lengths = np.diff(split.sentence_starts)
        possible = np.concatenate(([0], np.cumsum(self._alone & (self._totals[self._name] > 1))))
        has_blank = possible[self._starts[1:]] > possible[self._starts[:-1]]
        self._askable = np.flatnonzero((lengths >= _SHORTEST) & (lengths <= _LONGEST) & has_blank)

    def draw(self, rng: np.random.Generator, count: int) -> DrawnQuestions:
        """Choose at most `count` sentences per document, and which mention of each to blank.

        Every document tries its sentences in a random order; in each round all documents try their next one.
        A held-out sentence removes its mentions, so each try is checked against those before it.
        """
        split, askable, name = self.split, self._askable, self._name
        document = np.searchsorted(split.document_sentences, askable, "right") - 1
        order = askable[np.lexsort((rng.random(len(askable)), document))]
        bounds = np.searchsorted(document, np.arange(len(split) + 1))
        at, last = bounds[:-1].copy(), bounds[1:]
        room = np.minimum(count, np.maximum(1, np.diff(split.document_sentences) // _ONE_IN))
        left, answers = self._totals.copy(), np.zeros(len(self._totals), np.bool_)
        chosen, blanked = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        trying = np.flatnonzero((at < last) & (room > 0))
        while len(trying):
            sentence = order[at[trying]]
            first, stop = self._starts[sentence], self._starts[sentence + 1]
            mention = concatenate_ranges(first, stop)
            row = np.repeat(np.arange(len(trying)), stop - first)
            np.subtract.at(left, name[mention], 1)
            remains = left[name[mention]] > 0
            # The blanked name must remain elsewhere, and so must the answers to questions drawn before.
            draws = np.where(remains & self._alone[mention], rng.random(len(mention)), -1.0)
            best = np.maximum.reduceat(draws, _offsets(stop - first))
            blocked = np.zeros(len(trying), np.bool_)
            blocked[row[answers[name[mention]] & ~remains]] = True
            taken = (best >= 0) & ~blocked
            blank = mention[(draws == best[row]) & taken[row]]
            np.add.at(left, name[mention[~taken[row]]], 1)
            answers[name[blank]] = True
            chosen.append(sentence[taken])
            blanked.append(self._token[blank])
            room[trying[taken]] -= 1
            at[trying] += 1
            trying = trying[(at[trying] < last[trying]) & (room[trying] > 0)]
        sentences, blanks = np.concatenate(chosen), np.concatenate(blanked)
        by_place = np.argsort(sentences)
        sentences, blanks = sentences[by_place], blanks[by_place]
        return DrawnQuestions(sentences, blanks, np.searchsorted(sentences, split.document_sentences))


def concatenate_ranges(starts: Offsets, stops: Offsets) -> Offsets:
    """Concatenate the ranges from each start to its stop.

    >>> concatenate_ranges(np.array([3, 9]), np.array([5, 12])).tolist()
    [3, 4, 9, 10, 11]
    """
    lengths = stops - starts
    return np.arange(int(lengths.sum())) + np.repeat(starts - _offsets(lengths), lengths)


def _offsets(lengths: Offsets) -> Offsets:
    """Where each of some concatenated ranges begins."""
    return np.cumsum(lengths) - lengths
