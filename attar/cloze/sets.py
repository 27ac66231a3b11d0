"""A cloze set on disk, whichever of the two formats it is in."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from attar.cloze.document import ClozeDocument
from attar.cloze.folder_cnn import Skip, list_questions, read_folder, tell_left_out
from attar.cloze.options import SPLITS
from attar.cloze.parquet import read_documents
from attar.errors import FormatError
from attar.progress import Progress, tell_nobody
from attar.text import Vocabulary

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
        place = self._place(split)
        if place.is_dir():
            return read_folder(place, skip=skip, progress=progress, source=self.source or "")
        return read_documents(place)

    @property
    def source(self) -> str | None:
        """The name of a set in the CNN set's format, whose documents have no other source."""
        return None if self._questions is None else self.path.resolve().name

    def tell_left_out(self, split: str, skip: Skip) -> bool:
        """Hand the malformed files to `skip` that a split was read without; False if they are not known."""
        place = self._place(split)
        return tell_left_out(place, skip) if place.is_dir() else True

    def fingerprint(self, split: str) -> str:
        """Another one after a split's texts were changed; a copied set keeps its own, if it is Parquet."""
        place = self._place(split)
        if place.is_dir():
            return list_questions(place)[1]
        # Not its size, which a few other words leave as it was, nor its time, which a copy changes.
        with place.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def _place(self, split: str) -> Path:
        """A split's folder of `.question` files, or its Parquet file."""
        if split not in self.splits:
            raise FormatError(f"{self.path}: split", " or ".join(self.splits), repr(split))
        above = self._questions
        return self.path / f"{split}.parquet" if above is None else above / split

    @cached_property
    def about(self) -> dict[str, Any]:
        """How a built set was built; empty for others."""
        file = self.path / ABOUT
        try:
            return dict(json.loads(file.read_bytes())) if file.is_file() else {}
        except (ValueError, TypeError, RecursionError) as fault:
            raise FormatError(
                str(file), "a JSON object", f"something else ({fault})", "build the set again"
            ) from fault

    @cached_property
    def vocabulary(self) -> Vocabulary | None:
        """The vocabulary that a built set's names were found with."""
        file = self.path / VOCABULARY
        return Vocabulary.load(file) if file.is_file() else None
