"""Cloze sets from plain text: windows of documents, held-out sentences as questions, splits by document."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from attar.errors import FormatError, OptionError
from attar.text.cloze.document import SPLITS, ClozeDocument, count_names
from attar.text.cloze.draw import draw_questions
from attar.text.cloze.parquet import DocumentWriter
from attar.text.cloze.sets import ABOUT, VOCABULARY
from attar.text.cloze.splits import split_documents
from attar.text.cloze.windows import read_windows
from attar.text.corpora import read_sources
from attar.text.entities import CapitalFinder, NameFinder
from attar.text.progress import Progress, tell_nobody
from attar.text.vocabulary import ENTITIES, SIZE, Vocabulary


@dataclass(frozen=True)
class BuildOptions:
    """How a set is built; the same options and sources give the same set."""

    window: int = 900
    questions: int = 5
    validation: str = "0.08"
    test: str = "0.08"
    only: str = ""
    seed: int = 0
    size: int = SIZE
    entities: int = ENTITIES

    def __post_init__(self) -> None:
        if self.only and self.only not in SPLITS:
            raise OptionError("only", " or ".join(SPLITS), repr(self.only))
        if self.window < 20 or self.questions < 1:
            came = f"{self.window} and {self.questions}"
            raise OptionError("window and questions", "20 tokens and 1 question or more", came)


@dataclass
class _Tally:
    """What went into a split."""

    sources: int
    documents: int = 0
    questions: int = 0
    tokens: int = 0
    names: int = 0

    def add(self, document: ClozeDocument) -> None:
        self.documents += 1
        self.questions += len(document.questions)
        self.tokens += sum(map(len, document.sentences))
        self.names += len(count_names(document.sentences))

    def summary(self) -> dict[str, Any]:
        each = max(self.documents, 1)
        return {
            "sources": self.sources,
            "documents": self.documents,
            "questions": self.questions,
            "tokens_a_document": round(self.tokens / each, 1),
            "names_a_document": round(self.names / each, 2),
        }


def build_set(
    sources: Sequence[str | Path],
    out: Path,
    options: BuildOptions | None = None,
    *,
    vocabulary: Vocabulary | None = None,
    finder: NameFinder | None = None,
    progress: Progress = tell_nobody,
) -> dict[str, Any]:
    """Build a set from text files; training keeps all sentences, the other splits get their questions here.

    Without a vocabulary, one is built from the training documents, or from all if there are none.
    """
    options = options or BuildOptions()
    names = [document.name for document in read_sources(sources)]
    splits = [options.only] * len(names)
    if not options.only:
        splits = split_documents(names, options.validation, options.test, options.seed)
    if vocabulary is None:
        vocabulary = Vocabulary.build(_texts(sources, splits, progress), options.size, options.entities)
    finder = finder or CapitalFinder(vocabulary)
    tallies = {split: _Tally(splits.count(split)) for split in SPLITS if split in splits}
    out.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        writers = {split: stack.enter_context(DocumentWriter(out / f"{split}.parquet")) for split in tallies}
        for split, document in _documents(sources, splits, finder, options, progress):
            writers[split].write(document)
            tallies[split].add(document)
        if not any(tally.documents for tally in tallies.values()):
            raise FormatError(", ".join(map(str, sources)), "text with names to ask for", "none")
    for split in SPLITS:  # what an earlier build left
        if split not in tallies:
            (out / f"{split}.parquet").unlink(missing_ok=True)
    return _describe(out, sources, options, vocabulary, tallies)


def _texts(sources: Sequence[str | Path], splits: Sequence[str], progress: Progress) -> Iterator[str]:
    """Yield the texts to count words in."""
    every = SPLITS[0] not in splits
    for at, document in enumerate(read_sources(sources)):
        progress("counting words", at, len(splits))
        if every or splits[at] == SPLITS[0]:
            yield document.text


def _documents(
    sources: Sequence[str | Path],
    splits: Sequence[str],
    finder: NameFinder,
    options: BuildOptions,
    progress: Progress,
) -> Iterator[tuple[str, ClozeDocument]]:
    """Yield all windows with their splits; those of which nothing can be asked are left out."""
    for at, source in enumerate(read_sources(sources)):
        progress("building", at, len(splits))
        for whole, rng in read_windows(source, finder, options.window, options.entities, options.seed):
            drawn = draw_questions(whole, rng, options.questions)
            if drawn.questions and len(count_names(drawn.sentences)) > 1:
                yield splits[at], whole if splits[at] == SPLITS[0] else drawn


def _describe(
    out: Path,
    sources: Sequence[str | Path],
    options: BuildOptions,
    vocabulary: Vocabulary,
    tallies: Mapping[str, _Tally],
) -> dict[str, Any]:
    """Write the vocabulary and how the set was built beside it."""
    vocabulary.save(out / VOCABULARY)
    about = {
        "sources": [Path(source).name for source in sources],
        "options": asdict(options),
        "vocabulary": vocabulary.fingerprint,
        "splits": {split: tally.summary() for split, tally in tallies.items()},
    }
    (out / ABOUT).write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
    return about
