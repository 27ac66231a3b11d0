"""Writes documents as `.question` files, and counts names: what tests of several rooms need of the CNN format."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

from attar.paper.cloze import ClozeDocument, QuestionFile, count_names, entity_number


def format_question(file: QuestionFile) -> bytes:
    """The bytes of a `.question` file."""
    names = "\n".join(f"@entity{number}:{name}" for number, name in file.names)
    return "\n\n".join((file.url, file.document, file.question, file.answer, names)).encode()


def ungroup_questions(document: ClozeDocument) -> list[QuestionFile]:
    """The files of a document, one per question."""
    text = " ".join(token for sentence in document.sentences for token in sentence)
    names = tuple(document.names.items())
    return [
        QuestionFile(document.name, text, " ".join(question.tokens), f"@entity{question.answer}", names)
        for question in document.questions
    ]


def write_folder(documents: Iterable[ClozeDocument], folder: Path) -> int:
    """Write documents as `.question` files, named by a hash of their content; return the number of files."""
    folder.mkdir(parents=True, exist_ok=True)
    files = [format_question(file) for document in documents for file in ungroup_questions(document)]
    for data in files:
        (folder / f"{hashlib.sha1(data, usedforsecurity=False).hexdigest()}.question").write_bytes(data)
    return len(files)


def most_frequent_name(document: ClozeDocument, excluded: Iterable[str] = ()) -> int | None:
    """The name that occurs most often (the first of equals), except those among `excluded` tokens.

    >>> document = ClozeDocument("a", "", [["@entity1", "met", "@entity0"], ["@entity1", "left"]], {})
    >>> most_frequent_name(document), most_frequent_name(document, ["did", "@entity1", "leave"])
    (1, 0)
    """
    counts = count_names(document.sentences)
    for token in excluded:
        counts.pop(entity_number(token), None)  # type: ignore[arg-type]
    return max(counts, key=counts.__getitem__, default=None)
