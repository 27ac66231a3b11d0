"""A cloze set on disk, in either of the two formats, and its splits in a vocabulary's ids, cached in its folder."""

import contextlib
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from attar.errors import FormatError
from attar.files import atomic_file
from attar.paper.cloze import ClozeDocument, read_documents
from attar.paper.cnn import list_questions, read_folder
from attar.paper.encoded import EncodedSplit, encode_split
from attar.paper.options import ENTITIES, SPLITS
from attar.paper.vocabulary import VOCABULARY_FILE, Vocabulary
from attar.progress import Progress, ignore_progress

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
        """Open a folder with at least one split."""
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
        """The splits that the set has."""
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
        """Refuse a set that lacks one of the splits."""
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
        """A split in a vocabulary's ids; it is encoded once."""
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
