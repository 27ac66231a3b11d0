"""A split of a cloze set as flat arrays of ids, cached in the set's folder."""

import contextlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from attar.cloze.cnn import OnMalformed, skip
from attar.cloze.documents import ClozeDocument, Question, entity_number
from attar.cloze.sets import ClozeSet
from attar.errors import FormatError
from attar.files import atomic_file
from attar.progress import Progress, ignore_progress
from attar.text.vocabulary import Vocabulary

Ids = NDArray[np.int32]
Offsets = NDArray[np.int64]
_NO_NAME = -1


@dataclass(frozen=True)
class EncodedSplit:
    """Documents as flat arrays: T tokens, S sentences, D documents, N names, Q questions.

    Within a document names are numbered from 0, in the order of their numbers in the set: name j of document
    d is `@entity{numbers[name_starts[d] + j]}`. A number beyond the vocabulary's is replaced with a free one.
    Tokens that are names have id 0 in `ids`: which id a name gets is drawn again for every batch.
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

    def save(self, path: Path, note: str = "") -> None:
        """Write one file atomically."""
        from safetensors.numpy import save_file

        arrays = {each.name: np.ascontiguousarray(getattr(self, each.name)) for each in fields(self)[:-1]}
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(path) as partial:
            save_file(arrays, partial, {"sources": json.dumps(self.sources), "note": note})

    @classmethod
    def load(cls, path: Path, note: str | None = None, words: int = 2**31) -> "EncodedSplit | None":
        """Load what `save` wrote; None if the file is missing, damaged, has another note, or ids from `words` up."""
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(path, "np") as file:
                about = file.metadata()
                if note is not None and about["note"] != note:
                    return None
                arrays: dict[str, Any] = {each.name: file.get_tensor(each.name) for each in fields(cls)[:-1]}
                sources = msgspec.json.decode(about["sources"], type=tuple[str, ...])
            loaded = cls(**arrays, sources=sources)
            return loaded if loaded._is_consistent(words) else None
        except (OSError, SafetensorError, KeyError, ValueError, TypeError, RecursionError):
            return None

    def _is_consistent(self, words: int) -> bool:
        """Whether types, lengths and ranges are such as `encode_split` makes: the cache is a file like any other."""
        offsets = [each.name for each in fields(self) if each.type == Offsets]
        for each in fields(self)[:-1]:
            array, kind = getattr(self, each.name), np.int64 if each.name in offsets else np.int32
            if array.dtype != kind or array.ndim != 1:
                return False
            if each.name in offsets and (len(array) == 0 or array[0] != 0 or (np.diff(array) < 0).any()):
                return False
        documents, tokens, asked = len(self), len(self.ids), len(self.question_ids)
        questions, names = len(self.answers), np.diff(self.name_starts).max(initial=0)
        return (
            [len(self.document_sentences), len(self.name_starts), len(self.document_questions)]
            == [documents + 1] * 3
            and [self.document_starts[-1], self.sentence_starts[-1], len(self.names)] == [tokens] * 3
            and self.document_sentences[-1] == len(self.sentence_starts) - 1
            and self.name_starts[-1] == len(self.numbers)
            and [self.question_starts[-1], len(self.question_names)] == [asked] * 2
            and [self.document_questions[-1], len(self.question_starts) - 1] == [questions] * 2
            and len(self.source_of) == documents
            and _within(self.ids, 0, words)
            and _within(self.question_ids, 0, words)
            and _within(self.names, _NO_NAME, names)
            and _within(self.question_names, _NO_NAME, names)
            and _within(self.answers, 0, names)
            and _within(self.numbers, 0, words)
            and _within(self.source_of, 0, len(self.sources))
        )


def _within(array: Ids, low: int, end: int) -> bool:
    return bool(array.min(initial=low) >= low and array.max(initial=low) < max(end, low + 1))


def encode_split(
    documents: Iterable[ClozeDocument], vocabulary: Vocabulary, on_malformed: OnMalformed | None = None
) -> EncodedSplit:
    """Turn documents and their questions into flat arrays of ids.

    A document with more names than the vocabulary has entities is refused, or passed to `on_malformed` and skipped.

    >>> vocabulary = Vocabulary(("met", "left"), entities=8)
    >>> document = ClozeDocument("a", "", [["@entity7", "met", "@entity2"], ["@entity7", "left"]], {})
    >>> split = encode_split([document], vocabulary)
    >>> split.ids.tolist(), split.names.tolist(), split.numbers.tolist()
    ([0, 11, 0, 0, 12], [1, -1, 0, 1, -1], [2, 7])
    """
    arrays: dict[str, list[Ids]] = {
        name: [np.zeros(0, np.int32)]
        for name in ("ids", "names", "numbers", "question_ids", "question_names", "answers")
    }
    lengths: dict[str, list[int]] = {each.name: [] for each in fields(EncodedSplit) if each.type == Offsets}
    sources: dict[str, int] = {}
    source_of = []
    for document in documents:
        entities = _entities_of(document)
        if len(entities) > vocabulary.entities:
            came = f"{len(entities)}"
            skip(
                FormatError.expected(document.name, f"at most {vocabulary.entities} names", came),
                on_malformed,
            )
            continue
        if entities and entities[-1] >= vocabulary.entities:
            document = _numbered_within(document, entities, vocabulary.entities)
            entities = _entities_of(document)
        place = np.full(vocabulary.entities, _NO_NAME, np.int32)
        place[entities] = np.arange(len(entities))
        questions = [question.tokens for question in document.questions]
        ids, names = _encode(document.sentences, vocabulary, place)
        question_ids, question_names = _encode(questions, vocabulary, place)
        answers = place[[question.answer for question in document.questions]]
        own = (ids, names, np.array(entities, np.int32), question_ids, question_names, answers)
        for kept, new in zip(arrays.values(), own, strict=True):
            kept.append(new)
        lengths["document_starts"].append(len(ids))
        lengths["sentence_starts"].extend(map(len, document.sentences))
        lengths["document_sentences"].append(len(document.sentences))
        lengths["name_starts"].append(len(entities))
        lengths["question_starts"].extend(map(len, questions))
        lengths["document_questions"].append(len(questions))
        source_of.append(sources.setdefault(document.source, len(sources)))
    whole: dict[str, Any] = {name: np.concatenate(parts) for name, parts in arrays.items()}
    whole |= {name: np.cumsum([0, *own], dtype=np.int64) for name, own in lengths.items()}
    return EncodedSplit(**whole, source_of=np.array(source_of, np.int32), sources=tuple(sources))


def _entities_of(document: ClozeDocument) -> list[int]:
    """Return the sorted numbers of all names in a document's text, questions and answers."""
    rows = [*document.sentences, *(question.tokens for question in document.questions)]
    return sorted(
        {entity for row in rows for token in row if (entity := entity_number(token)) is not None}
        | {question.answer for question in document.questions}
    )


def _numbered_within(document: ClozeDocument, entities: Sequence[int], limit: int) -> ClozeDocument:
    """Give names beyond the limit free numbers: which number a name has means nothing."""
    free = iter(sorted(set(range(limit)) - set(entities)))
    renumbered = {old: next(free) for old in entities if old >= limit}
    renamed = {f"@entity{old}": f"@entity{new}" for old, new in renumbered.items()}
    return replace(
        document,
        sentences=[[renamed.get(token, token) for token in row] for row in document.sentences],
        names={renumbered.get(old, old): name for old, name in document.names.items()},
        questions=[
            Question(
                tuple(renamed.get(token, token) for token in question.tokens),
                renumbered.get(question.answer, question.answer),
            )
            for question in document.questions
        ],
    )


def _encode(rows: Iterable[Sequence[str]], vocabulary: Vocabulary, place: Ids) -> tuple[Ids, Ids]:
    """Return the ids of rows of tokens, 0 for names, and which of the document's names each token is."""
    flat = np.array([number for row in rows for number in vocabulary.encode(row)], np.int32)
    entity = flat - vocabulary.first_entity
    named = (entity >= 0) & (entity < vocabulary.entities)
    names = np.where(named, place[np.where(named, entity, 0)], _NO_NAME).astype(np.int32)
    # "@ENTITY7" in a document without @entity7 is not a name, and not a word either.
    words = np.where(named, vocabulary.unknown, flat)
    return np.where(names >= 0, 0, words).astype(np.int32), names


def open_split(
    path: str | Path,
    split: str,
    vocabulary: Vocabulary,
    progress: Progress = ignore_progress,
    on_malformed: OnMalformed | None = None,
) -> EncodedSplit:
    """Open a split in a vocabulary's ids; it is encoded once and cached in the set's folder, under `encoded`.

    A malformed file is refused, or passed to `on_malformed` and skipped.
    """
    cloze_set = ClozeSet.open(path)
    cache = cloze_set.path / "encoded" / f"{split}-{vocabulary.fingerprint[:16]}.safetensors"
    # A split cached without its malformed files is not valid for a call that refuses them.
    note = cloze_set.fingerprint(split) + ("" if on_malformed is None else " skip")
    encoded = EncodedSplit.load(cache, note, len(vocabulary))
    # Skipped files are reported every time; where they are not known, the split is read again.
    if encoded is None or not (on_malformed is None or cloze_set.report_malformed(split, on_malformed)):
        documents = cloze_set.documents(split, on_malformed=on_malformed, progress=progress)
        encoded = encode_split(documents, vocabulary, on_malformed)
        # A set in a read-only folder is encoded every time.
        with contextlib.suppress(OSError):
            encoded.save(cache, note)
    # A set in the CNN format is named after its folder, which may have been renamed since.
    return encoded if cloze_set.source is None else replace(encoded, sources=(cloze_set.source,))
