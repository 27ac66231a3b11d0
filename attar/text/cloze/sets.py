"""A cloze set on disk, whichever of the two formats it is in."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from attar.errors import FormatError
from attar.text.cloze.document import SPLITS, ClozeDocument
from attar.text.cloze.folder_cnn import Skip, read_folder
from attar.text.cloze.parquet import read_documents
from attar.text.progress import Progress, tell_nobody
from attar.text.vocabulary import Vocabulary

ABOUT, VOCABULARY = "set.json", "tokenizer.json"


@dataclass(frozen=True)
class ClozeSet:
    """A folder that Attar built (`training.parquet` …), or the CNN set's (`questions/training/*`)."""

    path: Path

    @classmethod
    def open(cls, path: str | Path) -> "ClozeSet":
        """Take a folder that holds at least one split."""
        found = cls(Path(path))
        if not found.path.is_dir():
            raise FormatError(str(path), "a cloze set's folder", "no such folder", "check the path")
        if not found.splits:
            expected = "training.parquet or questions/training/*.question, or another split's"
            raise FormatError(str(path), expected, "neither", "build one with attar cloze build")
        return found

    @property
    def built(self) -> bool:
        """Whether Attar built it."""
        return any((self.path / f"{split}.parquet").is_file() for split in SPLITS) and not self._questions

    @property
    def _questions(self) -> Path | None:
        """The folder above the splits' folders of `.question` files."""
        places = (self.path / "questions", self.path)
        return next((place for place in places if any((place / split).is_dir() for split in SPLITS)), None)

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits that are there."""
        above = self._questions
        if above is not None:
            return tuple(split for split in SPLITS if (above / split).is_dir())
        return tuple(split for split in SPLITS if (self.path / f"{split}.parquet").is_file())

    def documents(
        self, split: str, *, skip: Skip | None = None, progress: Progress = tell_nobody
    ) -> Iterator[ClozeDocument]:
        """Yield a split's documents; training ones of a built set have no questions until some are drawn."""
        if split not in self.splits:
            raise FormatError(f"{self.path}: split", " or ".join(self.splits), repr(split))
        above = self._questions
        if above is not None:
            return read_folder(above / split, skip=skip, progress=progress, source=self.path.resolve().name)
        return read_documents(self.path / f"{split}.parquet")

    @cached_property
    def about(self) -> dict[str, Any]:
        """How a built set was built; empty for others."""
        file = self.path / ABOUT
        try:
            return dict(json.loads(file.read_bytes())) if file.is_file() else {}
        except (ValueError, TypeError) as fault:
            raise FormatError(
                str(file), "a JSON object", f"something else ({fault})", "build the set again"
            ) from fault

    @cached_property
    def vocabulary(self) -> Vocabulary | None:
        """The vocabulary that a built set's names were found with."""
        file = self.path / VOCABULARY
        return Vocabulary.load(file) if file.is_file() else None
