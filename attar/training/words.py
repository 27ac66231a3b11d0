"""The one vocabulary of the sets that a reader is trained on: their own, or counted once and kept."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from attar.cloze import VOCABULARY_FILE, ClozeDocument, ClozeSet, OnMalformed
from attar.errors import FormatError
from attar.progress import Progress, tell_nobody
from attar.text import ENTITIES, Vocabulary

KEPT, NOTE = "encoded", "tokenizer.note"


def vocabulary_of(
    data: Sequence[str | Path], *, skip: OnMalformed | None = None, progress: Progress = tell_nobody
) -> Vocabulary:
    """The one vocabulary of sets, which they must share; of sets without one the words are counted."""
    found = [ClozeSet.open(path) for path in data]
    known = {vocabulary.fingerprint: vocabulary for each in found if (vocabulary := each.vocabulary)}
    if len(known) > 1:
        raise FormatError(
            ", ".join(map(str, data)),
            "sets of one vocabulary",
            f"{len(known)} vocabularies",
            "build the later ones with attar cloze build --vocabulary FIRST/tokenizer.json",
        )
    return next(iter(known.values())) if known else counted_vocabulary(found, skip, progress)


def counted_vocabulary(found: Sequence[ClozeSet], skip: OnMalformed | None, progress: Progress) -> Vocabulary:
    """The words of the first splits' texts and questions, kept in the first set until one of them changes.

    Malformed files are left out without a word if `skip` is there: whoever opens the splits is told.
    """
    folder = found[0].path / KEPT
    # A file that was left out is refused again by a run that leaves none out.
    counted = " ".join([*(each.fingerprint(each.splits[0]) for each in found), "skip" if skip else "refuse"])
    kept = _load(folder, counted)
    if kept is not None:
        return kept
    highest = ENTITIES - 1

    def texts() -> Iterator[str]:
        nonlocal highest
        for each in found:
            quiet = None if skip is None else _pass_over
            for document in each.documents(each.splits[0], on_malformed=quiet, progress=progress):
                highest = max(highest, max(document.names, default=0))
                yield text_of(document)

    words = Vocabulary.build(texts(), marked=True)
    vocabulary = Vocabulary(words.words, words.capitals, highest + 1)
    _save(vocabulary, folder, counted)
    return vocabulary


def _pass_over(fault: FormatError) -> None:
    """Say nothing of a file that is left out."""


def text_of(document: ClozeDocument) -> str:
    r"""A document's text and its questions, one sentence a line.

    >>> from attar.cloze import Question
    >>> text_of(ClozeDocument("", "", [["it", "rained"]], {}, [Question(("@placeholder", "left"), 0)]))
    'it rained\n@placeholder left'
    """
    asked = (question.tokens for question in document.questions)
    return "\n".join(" ".join(sentence) for sentence in [*document.sentences, *asked])


def _load(folder: Path, counted: str) -> Vocabulary | None:
    """What was kept, if it is whole and of the same texts."""
    try:
        vocabulary = Vocabulary.load(folder / VOCABULARY_FILE)
        note = (folder / NOTE).read_text(encoding="utf-8")
    except (FormatError, OSError, UnicodeDecodeError):
        return None
    return vocabulary if note == _note(vocabulary, counted) else None


def _save(vocabulary: Vocabulary, folder: Path, counted: str) -> None:
    written = {VOCABULARY_FILE: vocabulary.to_bytes(), NOTE: _note(vocabulary, counted).encode()}
    try:
        folder.mkdir(exist_ok=True)
        for name, data in written.items():
            partial = folder / f".{name}.{os.getpid()}.partial"
            partial.write_bytes(data)
            os.replace(partial, folder / name)
    except OSError:
        return  # a set in a folder that cannot be written to is counted every time


def _note(vocabulary: Vocabulary, counted: str) -> str:
    """The note names both, so that neither can be taken for another's after a run was killed in between."""
    return f"{counted} {vocabulary.fingerprint}\n"
