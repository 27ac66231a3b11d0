"""A cloze set on disk, in either of the two formats."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from attar.cloze.cnn import OnMalformed, list_questions, read_folder, report_malformed
from attar.cloze.documents import ClozeDocument, read_documents
from attar.cloze.options import SPLITS
from attar.errors import FormatError
from attar.progress import Progress, ignore_progress
from attar.text.vocabulary import Vocabulary

ABOUT_FILE, VOCABULARY_FILE = "set.json", "tokenizer.json"


@dataclass(frozen=True)
class ClozeSet:
    """A folder that Attar built (`training.parquet` …), or the CNN set's (`questions/training/*`)."""

    path: Path

    @classmethod
    def open(cls, path: str | Path) -> "ClozeSet":
        """Open a folder with at least one split."""
        cloze_set = cls(Path(path))
        if not cloze_set.path.is_dir():
            raise FormatError.expected(str(path), "a cloze set's folder", "no such folder", "check the path")
        if not cloze_set.splits:
            expected = "training.parquet or questions/training/*.question, or another split's"
            raise FormatError.expected(str(path), expected, "neither", "build one with attar cloze build")
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

    def documents(
        self, split: str, *, on_malformed: OnMalformed | None = None, progress: Progress = ignore_progress
    ) -> Iterator[ClozeDocument]:
        """Yield a split's documents; in a built set, those for training have no questions until some are drawn."""
        path = self._split_path(split)
        if path.is_dir():
            return read_folder(path, on_malformed=on_malformed, progress=progress, source=self.source or "")
        return read_documents(path)

    @property
    def source(self) -> str | None:
        """The name of a set in the CNN format, whose documents have no other source."""
        return None if self._questions is None else self.path.resolve().name

    def report_malformed(self, split: str, on_malformed: OnMalformed) -> bool:
        """Pass the files that a split was read without to `on_malformed`; False if they are not known."""
        path = self._split_path(split)
        return report_malformed(path, on_malformed) if path.is_dir() else True

    def fingerprint(self, split: str) -> str:
        """A hash that changes with a split's texts; a copy of a Parquet set has the same one."""
        path = self._split_path(split)
        if path.is_dir():
            return list_questions(path)[1]
        # Not the file's size, which other words may leave unchanged, nor its time, which a copy changes.
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def _split_path(self, split: str) -> Path:
        """Return a split's folder of `.question` files, or its Parquet file."""
        if split not in self.splits:
            raise FormatError.expected(f"{self.path}: split", " or ".join(self.splits), repr(split))
        above = self._questions
        return self.path / f"{split}.parquet" if above is None else above / split

    @cached_property
    def about(self) -> dict[str, Any]:
        """How a set was built; empty for a set in the CNN format."""
        file = self.path / ABOUT_FILE
        try:
            return dict(json.loads(file.read_bytes())) if file.is_file() else {}
        except (ValueError, TypeError, RecursionError) as fault:
            raise FormatError.expected(
                str(file), "a JSON object", f"something else ({fault})", "build the set again"
            ) from fault

    @cached_property
    def vocabulary(self) -> Vocabulary | None:
        """The vocabulary that a built set's names were found with."""
        file = self.path / VOCABULARY_FILE
        return Vocabulary.load(file) if file.is_file() else None
