"""A cloze set on disk, in either of the two formats, and its splits as flat arrays of ids, cached in its folder."""

import contextlib
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attar.errors import FormatError
from attar.files import atomic_file
from attar.paper.cloze import ClozeDocument, count_names, read_documents, read_folder
from attar.paper.options import ENTITIES, SPLITS
from attar.paper.words import VOCABULARY_FILE, Vocabulary, WordCounts
from attar.progress import Progress, ignore_progress

Ids = NDArray[np.int32]
Offsets = NDArray[np.int64]
_NO_NAME = -1


@dataclass(frozen=True)
class EncodedSplit:
    """Documents as flat arrays: T tokens, S sentences, D documents, N names, Q questions.

    Within a document names are numbered from 0, in the order of their numbers in the set. Tokens that are names have
    id 0 in `ids`: which id a name gets is drawn again for every batch.
    """

    ids: Ids  # [T]
    names: Ids  # [T], -1 where a token is not a name
    document_starts: Offsets  # [D + 1], in tokens
    sentence_starts: Offsets  # [S + 1], in tokens
    document_sentences: Offsets  # [D + 1], in sentences
    name_starts: Offsets  # [D + 1], in names
    question_ids: Ids  # [q]
    question_names: Ids  # [q]
    question_starts: Offsets  # [Q + 1], in the questions' tokens
    document_questions: Offsets  # [D + 1], in questions
    answers: Ids  # [Q], numbers as in `names`
    source_of: Ids  # [D], in `sources`
    sources: NDArray[np.str_]

    def __len__(self) -> int:
        return len(self.document_starts) - 1

    @cached_property
    def lengths(self) -> Offsets:
        return np.diff(self.document_starts)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of documents and questions, independent of where and when the set was copied."""
        digest = hashlib.sha256()
        for field in fields(self)[:-1]:  # the names of sources may change with a set's path
            array = np.ascontiguousarray(getattr(self, field.name))
            digest.update(f"{field.name} {array.dtype} {array.shape}".encode())
            digest.update(array.data)
        return digest.hexdigest()


def encode_split(documents: Iterable[ClozeDocument], vocabulary: Vocabulary) -> EncodedSplit:
    """Turn documents and their questions into flat arrays of ids.

    >>> vocabulary = Vocabulary(("met", "left"), entities=8)
    >>> document = ClozeDocument("a", "", ["@entity7 met @entity2", "@entity7 left"], [], [])
    >>> split = encode_split([document], vocabulary)
    >>> split.ids.tolist(), split.names.tolist(), split.name_starts.tolist()
    ([0, 11, 0, 0, 12], [1, -1, 0, 1, -1], [0, 2])
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
        sentences, questions = (
            [row.split() for row in rows] for rows in (document.sentences, document.questions)
        )
        ids, names = _encode(sentences, vocabulary, place)
        question_ids, question_names = _encode(questions, vocabulary, place)
        answers = [place[f"@entity{answer}"] for answer in document.answers]
        values["ids"].append(ids)
        values["names"].append(names)
        values["question_ids"].append(question_ids)
        values["question_names"].append(question_names)
        values["answers"].append(np.array(answers, np.int32))
        values["source_of"].append(np.array([sources.setdefault(document.source, len(sources))], np.int32))
        lengths["document_starts"].append(len(ids))
        lengths["sentence_starts"].extend(map(len, sentences))
        lengths["document_sentences"].append(len(document.sentences))
        lengths["name_starts"].append(len(entities))
        lengths["question_starts"].extend(map(len, questions))
        lengths["document_questions"].append(len(questions))
    arrays: dict[str, Any] = {name: np.concatenate(parts) for name, parts in values.items()}
    arrays |= {name: np.cumsum(counts, dtype=np.int64) for name, counts in lengths.items()}
    return EncodedSplit(**arrays, sources=np.array(list(sources), np.str_))


def _entities_of(document: ClozeDocument) -> list[int]:
    """The sorted numbers of all names in a document's text, questions and answers."""
    return sorted(count_names([*document.sentences, *document.questions]).keys() | set(document.answers))


def _encode(rows: Iterable[Sequence[str]], vocabulary: Vocabulary, place: dict[str, int]) -> tuple[Ids, Ids]:
    """The ids of rows of tokens, 0 for names, and which of the document's names each token is."""
    tokens = [token for row in rows for token in row]
    names = np.array([place.get(token, _NO_NAME) for token in tokens], np.int32)
    return np.where(names >= 0, 0, np.array(vocabulary.encode(tokens), np.int32)), names


@dataclass(frozen=True)
class ClozeSet:
    """A folder that Attar built (`training.parquet` …), or the CNN set's (`questions/training/*.question`).

    What is computed from it once is kept in its subfolder `encoded`, under names that change with the set.
    """

    path: Path
    files: dict[str, Path]  # by split: a Parquet file, or a folder of `.question` files
    progress: Progress = ignore_progress

    @classmethod
    def open(cls, path: str | Path, *, progress: Progress = ignore_progress) -> "ClozeSet":
        folder = Path(path)
        if not folder.is_dir():
            raise FormatError(f"there is no folder {path}", "check the path")
        for pattern in ("questions/{}", "{}", "{}.parquet"):
            files = {split: folder / pattern.format(split) for split in SPLITS}
            existing = {split: file for split, file in files.items() if file.exists()}
            if existing:
                return cls(folder, existing, progress)
        message = f"{path} has neither training.parquet nor questions/training/*.question, nor another split"
        raise FormatError(message, "build a set with attar paper build")

    @property
    def splits(self) -> tuple[str, ...]:
        return tuple(self.files)

    def check_splits(self, *splits: str) -> None:
        for split in splits:
            if split not in self.files:
                message = f"{self.path} has no {split} split, only {' and '.join(self.splits)}"
                raise FormatError(message, "build the set again, from more texts")

    def documents(self, split: str) -> Iterator[ClozeDocument]:
        """A split's documents; in a built set, those for training have no questions until some are drawn."""
        self.check_splits(split)
        path = self.files[split]
        if path.is_file():
            return read_documents(path)
        return read_folder(path, self.path.resolve().name, self.progress)

    def vocabulary(self) -> Vocabulary:
        """The vocabulary of a built set; that of another is built from its first split once."""
        file = self.path / VOCABULARY_FILE
        if file.is_file():
            return Vocabulary.load(file)
        first = next(iter(self.files))
        cache = self.path / "encoded" / f"vocabulary-{self._fingerprint(first)}.json"
        with contextlib.suppress(FormatError):  # none yet, or a damaged one
            return Vocabulary.load(cache)
        vocabulary = self._build_vocabulary(first)
        with contextlib.suppress(OSError), _cache_file(cache) as partial:
            partial.write_bytes(vocabulary.to_bytes())
        return vocabulary

    def _build_vocabulary(self, split: str) -> Vocabulary:
        """The words of a split's documents and questions, with enough ids for the names of each document."""
        most = ENTITIES

        def sentences() -> Iterator[Sequence[str]]:
            nonlocal most
            for document in self.documents(split):
                most = max(most, len(document.names))
                yield from map(str.split, [*document.sentences, *document.questions])

        counts = WordCounts(sentences())
        return Vocabulary.build(counts, entities=most)

    def encoded(self, split: str, vocabulary: Vocabulary) -> EncodedSplit:
        self.check_splits(split)
        name = f"{split}-{vocabulary.fingerprint[:16]}-{self._fingerprint(split)}.npz"
        cache = self.path / "encoded" / name
        # None yet, or a damaged one, for which zip and NumPy raise errors of many kinds.
        with contextlib.suppress(Exception), cache.open("rb") as file, np.load(file) as arrays:
            return EncodedSplit(**{field.name: arrays[field.name] for field in fields(EncodedSplit)})
        encoded = encode_split(self.documents(split), vocabulary)
        with contextlib.suppress(OSError), _cache_file(cache) as partial, partial.open("wb") as written:
            np.savez(written, **{field.name: getattr(encoded, field.name) for field in fields(encoded)})
        return encoded

    def _fingerprint(self, split: str) -> str:
        """A hash that changes with a split's texts; a copy of a Parquet set has the same one."""
        path = self.files[split]
        if path.is_dir():  # of hundreds of thousands of files
            stats = ((file.name, file.lstat()) for file in sorted(path.glob("*.question")))
            rows = [(name, stat.st_size, stat.st_mtime_ns) for name, stat in stats]
            return hashlib.sha256(repr(rows).encode()).hexdigest()[:16]
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()[:16]


@contextlib.contextmanager
def _cache_file(path: Path) -> Iterator[Path]:
    """Where to write a file of the cache; a read-only set raises OSError, and is computed every time."""
    path.parent.mkdir(exist_ok=True)
    with atomic_file(path) as partial:
        yield partial
