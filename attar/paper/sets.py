"""A cloze set on disk, in either of the two formats, and its splits in a vocabulary's ids."""

import contextlib
import hashlib
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from attar.errors import FormatError
from attar.files import atomic_file
from attar.paper.cloze import ClozeDocument, read_documents
from attar.paper.cnn import OnMalformed, list_questions, read_folder
from attar.paper.encoded import EncodedSplit, encode_split, join_splits
from attar.paper.options import ENTITIES, SPLITS
from attar.paper.vocabulary import VOCABULARY_FILE, Vocabulary
from attar.progress import Progress, ignore_progress

# In the folder of a set: what is computed from it once.
_CACHE = "encoded"


@dataclass(frozen=True)
class ClozeSet:
    """A folder that Attar built (`training.parquet` …), or the CNN set's (`questions/training/*`)."""

    path: Path

    @classmethod
    def open(cls, path: str | Path) -> "ClozeSet":
        """Open a folder with at least one split."""
        cloze_set = cls(Path(path))
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

    def documents(
        self, split: str, *, on_malformed: OnMalformed | None = None, progress: Progress = ignore_progress
    ) -> Iterator[ClozeDocument]:
        """Yield a split's documents; in a built set, those for training have no questions until some are drawn."""
        path = self._split_path(split)
        if path.is_dir():
            return read_folder(path, self.source or "", on_malformed=on_malformed, progress=progress)
        return read_documents(path)

    @property
    def source(self) -> str | None:
        """The name of a set in the CNN format, whose documents have no other source."""
        return None if self._questions is None else self.path.resolve().name

    def fingerprint(self, split: str) -> str:
        """A hash that changes with a split's texts; a copy of a Parquet set has the same one."""
        path = self._split_path(split)
        if path.is_dir():
            return list_questions(path)[1]
        # Not the file's size, which other words may leave unchanged, nor its time, which a copy changes.
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def _split_path(self, split: str) -> Path:
        """A split's folder of `.question` files, or its Parquet file."""
        if split not in self.splits:
            message = f"{self.path} has no {split} split, only {' and '.join(self.splits)}"
            raise FormatError(message, "build the set from more texts and without --only")
        above = self._questions
        return self.path / f"{split}.parquet" if above is None else above / split

    @property
    def vocabulary(self) -> Vocabulary | None:
        """The vocabulary that a built set's names were found with."""
        file = self.path / VOCABULARY_FILE
        return Vocabulary.load(file) if file.is_file() else None


def warn_skipped(fault: FormatError) -> None:
    """Log a warning about a malformed file that is skipped."""
    logging.getLogger("attar").warning("attar: skipped %s", fault)


def check_splits(data: Sequence[str | Path], splits: Sequence[str]) -> None:
    """Refuse sets that lack a split."""
    for path in data:
        for split in splits:
            ClozeSet.open(path)._split_path(split)


def open_splits(
    data: Sequence[str | Path],
    split: str,
    vocabulary: Vocabulary,
    *,
    on_malformed: OnMalformed | None = None,
    progress: Progress = ignore_progress,
) -> EncodedSplit:
    """One split of several sets, joined, in a vocabulary's ids. Each is encoded once and cached in its set's folder.

    A malformed file is refused, or passed to `on_malformed` and skipped.
    """
    splits = [_open_split(ClozeSet.open(path), split, vocabulary, on_malformed, progress) for path in data]
    return splits[0] if len(splits) == 1 else join_splits(splits)


def _open_split(
    cloze_set: ClozeSet,
    split: str,
    vocabulary: Vocabulary,
    on_malformed: OnMalformed | None,
    progress: Progress,
) -> EncodedSplit:
    cache = cloze_set.path / _CACHE / f"{split}-{vocabulary.fingerprint[:16]}.safetensors"
    # What was encoded without its malformed files is not valid for a call that refuses them.
    note = cloze_set.fingerprint(split) + (" skip" if on_malformed else "")
    encoded = EncodedSplit.load(cache, note)
    if encoded is None:
        documents = cloze_set.documents(split, on_malformed=on_malformed, progress=progress)
        encoded = encode_split(documents, vocabulary, on_malformed)
        with contextlib.suppress(OSError):  # a set in a read-only folder is encoded every time
            encoded.save(cache, note)
    # A set in the CNN format is named after its folder, which may have been renamed since.
    return encoded if cloze_set.source is None else replace(encoded, sources=(cloze_set.source,))


def shared_vocabulary(
    data: Sequence[str | Path], *, skip_malformed: bool = False, progress: Progress = ignore_progress
) -> Vocabulary:
    """The vocabulary that sets share; if none of them has one, it is built from their first splits and cached.

    Malformed files are skipped silently, or refused: whoever opens the splits reports them.
    """
    sets = [ClozeSet.open(path) for path in data]
    known = {known.fingerprint: known for cloze_set in sets if (known := cloze_set.vocabulary)}
    if len(known) > 1:
        message = f"{', '.join(map(str, data))} have {len(known)} different vocabularies"
        remedy = f"build the later sets with attar paper build --vocabulary FIRST/{VOCABULARY_FILE}"
        raise FormatError(message, remedy)
    if known:
        return next(iter(known.values()))
    texts = [cloze_set.fingerprint(cloze_set.splits[0]) for cloze_set in sets]
    key = hashlib.sha256(f"{texts} {skip_malformed}".encode()).hexdigest()
    cache = sets[0].path / _CACHE / f"vocabulary-{key[:16]}.json"
    with contextlib.suppress(FormatError):  # none yet, or a damaged one
        return Vocabulary.load(cache)
    vocabulary = _build_vocabulary(sets, skip_malformed, progress)
    with contextlib.suppress(OSError):  # in a read-only folder it is built every time
        cache.parent.mkdir(exist_ok=True)
        with atomic_file(cache) as partial:
            partial.write_bytes(vocabulary.to_bytes())
    return vocabulary


def _build_vocabulary(sets: Sequence[ClozeSet], skip_malformed: bool, progress: Progress) -> Vocabulary:
    """The words of the first splits' documents and questions, with an id for every number of a name."""
    highest = ENTITIES - 1

    def ignore(fault: FormatError) -> None: ...

    def sentences() -> Iterator[Sequence[str]]:
        nonlocal highest
        for cloze_set in sets:
            split, skip = cloze_set.splits[0], ignore if skip_malformed else None
            for document in cloze_set.documents(split, on_malformed=skip, progress=progress):
                highest = max(highest, max(document.names, default=0))
                yield from document.sentences
                yield from (question.tokens for question in document.questions)

    built = Vocabulary.build(sentences())
    return replace(built, entities=highest + 1)
