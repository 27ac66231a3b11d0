"""Cloze sets from plain text: windows of documents, held-out sentences as questions, splits by document."""

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from attar.cloze.document import ClozeDocument, count_names
from attar.cloze.draw import draw_questions
from attar.cloze.options import SPLITS, BuildOptions
from attar.cloze.parquet import DocumentWriter
from attar.cloze.sets import ABOUT, VOCABULARY
from attar.cloze.splits import share_of, split_documents
from attar.cloze.together import FilesTogether
from attar.cloze.windows import read_windows
from attar.errors import FormatError
from attar.options import former_names, rename
from attar.progress import Progress, tell_nobody
from attar.text import CapitalFinder, NameFinder, Vocabulary, read_sources


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
    with FilesTogether(out) as files:
        names = [document.name for document in read_sources(sources)]
        splits = [options.only] * len(names)
        if not options.only:
            splits = split_documents(names, options.validation, options.test, options.seed)
        if vocabulary is None:
            vocabulary = Vocabulary.build(
                _texts(sources, splits, progress), options.vocabulary_size, options.entities
            )
        finder = finder or CapitalFinder(vocabulary)
        documents = _documents(sources, splits, finder, options, progress)
        tallies = _write(documents, {split: splits.count(split) for split in SPLITS}, files)
        if not any(tally.documents for tally in tallies.values()):
            raise FormatError(", ".join(map(str, sources)), "text with names to ask for", "none")
        about = _describe(files, sources, options, vocabulary, tallies)
    if not options.only:
        _warn_of_empty_splits(options, tallies)
    return about


def _write(
    documents: Iterator[tuple[str, ClozeDocument]], sources: Mapping[str, int], files: FilesTogether
) -> dict[str, _Tally]:
    """Write the splits that have sources; what an earlier build left of others goes."""
    tallies = {split: _Tally(count) for split, count in sources.items() if count}
    with ExitStack() as stack:
        writers = {}
        for split in SPLITS:
            if split in tallies:
                place = files.place(f"{split}.parquet")
                writers[split] = stack.enter_context(DocumentWriter(place))
            else:
                files.remove(f"{split}.parquet")
        for split, document in documents:
            writers[split].write(document)
            tallies[split].add(document)
    return tallies


def _warn_of_empty_splits(options: BuildOptions, tallies: Mapping[str, _Tally]) -> None:
    wanted = {"training": "", "validation": options.validation, "test": options.test}
    for split, rule in wanted.items():
        if share_of(rule) != 0 and not (split in tallies and tallies[split].documents):
            texts = sum(tally.sources for tally in tallies.values())
            logging.getLogger("attar").warning(
                "attar: nothing for %s in %d %s; give more texts",
                split,
                texts,
                "text" if texts == 1 else "texts",
            )


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
    files: FilesTogether,
    sources: Sequence[str | Path],
    options: BuildOptions,
    vocabulary: Vocabulary,
    tallies: Mapping[str, _Tally],
) -> dict[str, Any]:
    """Write the vocabulary and how the set was built beside it."""
    files.place(VOCABULARY).write_bytes(vocabulary.to_bytes())
    about = {
        "sources": [Path(source).name for source in sources],
        "options": rename(asdict(options), former_names(BuildOptions)),
        "vocabulary": vocabulary.fingerprint,
        "splits": {split: tally.summary() for split, tally in tallies.items()},
    }
    files.place(ABOUT).write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
    return about
