"""A cloze set on disk, in either of the two formats, and its splits as flat arrays of ids, cached in its folder."""

import contextlib
import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from attar.errors import FormatError
from attar.files import atomic_file
from attar.paper.cloze import ClozeDocument, entity_number, list_questions, read_documents, read_folder
from attar.paper.options import ENTITIES, SPLITS
from attar.paper.vocabulary import VOCABULARY_FILE, Vocabulary
from attar.progress import Progress, ignore_progress

Ids = NDArray[np.int32]
Offsets = NDArray[np.int64]
_NO_NAME = -1


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


# In the folder of a set: what is computed from it once.
_CACHE = "encoded"


@dataclass(frozen=True)
class ClozeSet:
    """A folder that Attar built (`training.parquet` …), or the CNN set's (`questions/training/*.question`).

    Malformed `.question` files are refused, or skipped with a warning when they are read.
    """

    path: Path
    skip_malformed: bool = False
    progress: Progress = ignore_progress

    @classmethod
    def open(
        cls, path: str | Path, *, skip_malformed: bool = False, progress: Progress = ignore_progress
    ) -> "ClozeSet":
        cloze_set = cls(Path(path), skip_malformed, progress)
        if not cloze_set.path.is_dir():
            raise FormatError(f"there is no folder {path}", "check the path")
        if not cloze_set.splits:
            message = (
                f"{path} has neither training.parquet nor questions/training/*.question, nor another split"
            )
            raise FormatError(message, "build a set with attar paper build")
        return cloze_set

    @property
    def _questions(self) -> Path | None:
        """The folder above the splits' folders of `.question` files."""
        folders = (self.path / "questions", self.path)
        return next(
            (folder for folder in folders if any((folder / split).is_dir() for split in SPLITS)), None
        )

    @property
    def splits(self) -> tuple[str, ...]:
        above = self._questions
        if above is not None:
            return tuple(split for split in SPLITS if (above / split).is_dir())
        return tuple(split for split in SPLITS if (self.path / f"{split}.parquet").is_file())

    def file_of(self, split: str) -> Path:
        """A split's folder of `.question` files, or its Parquet file; a missing split is refused."""
        if split not in self.splits:
            message = f"{self.path} has no {split} split, only {' and '.join(self.splits)}"
            raise FormatError(message, "build the set again, from more texts")
        above = self._questions
        return self.path / f"{split}.parquet" if above is None else above / split

    def check_splits(self, *splits: str) -> None:
        for split in splits:
            self.file_of(split)

    def documents(self, split: str) -> Iterator[ClozeDocument]:
        """Yield a split's documents; in a built set, those for training have no questions until some are drawn."""
        path = self.file_of(split)
        if path.is_file():
            return read_documents(path)
        source = self.path.resolve().name
        return read_folder(path, source, skip_malformed=self.skip_malformed, progress=self.progress)

    def vocabulary(self) -> Vocabulary:
        """The vocabulary of a built set; that of another is built from its first split once."""
        file = self.path / VOCABULARY_FILE
        if file.is_file():
            return Vocabulary.load(file)
        cache = self.path / _CACHE / f"vocabulary-{self._fingerprint(self.splits[0])[:16]}.json"
        with contextlib.suppress(FormatError):  # none yet, or a damaged one
            return Vocabulary.load(cache)
        vocabulary = self._build_vocabulary()
        with contextlib.suppress(OSError):  # in a read-only folder it is built every time
            cache.parent.mkdir(exist_ok=True)
            with atomic_file(cache) as partial:
                partial.write_bytes(vocabulary.to_bytes())
        return vocabulary

    def _build_vocabulary(self) -> Vocabulary:
        """The words of the first split's documents and questions, with an id for every number of a name."""
        highest = ENTITIES - 1

        def sentences() -> Iterator[Sequence[str]]:
            nonlocal highest
            for document in self.documents(self.splits[0]):
                highest = max(highest, max(document.names, default=0))
                yield from document.sentences
                yield from (question.tokens for question in document.questions)

        built = Vocabulary.build(sentences())
        return replace(built, entities=highest + 1)

    def encoded(self, split: str, vocabulary: Vocabulary) -> EncodedSplit:
        cache = self.path / _CACHE / f"{split}-{vocabulary.fingerprint[:16]}.safetensors"
        note = self._fingerprint(split)
        encoded = EncodedSplit.load(cache, note)
        if encoded is None:
            encoded = encode_split(self.documents(split), vocabulary)
            with contextlib.suppress(OSError):  # a set in a read-only folder is encoded every time
                encoded.save(cache, note)
        return encoded

    def _fingerprint(self, split: str) -> str:
        """A hash that changes with a split's texts; a copy of a Parquet set has the same one."""
        path = self.file_of(split)
        if path.is_dir():
            # What was read without its malformed files is not valid for those who refuse them.
            return hashlib.sha256(f"{list_questions(path)[1]} {self.skip_malformed}".encode()).hexdigest()
        # Not the file's size, which other words may leave unchanged, nor its time, which a copy changes.
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
