"""`python -m benchmarks.folder`: questions about a firm's folder, and about forms, asked as a person would.

The folder (`folder_files.py`) is added as `attar add` does, and each question is asked of all documents. The forms are
asked one by one, as plain text, DOCX and PDF. Both were written before the work that they measure. The first results
have been looked at question by question, and rules mended (`LOG.md`). `--set 2` to `7` are other folders and other
forms, each written before it was measured.
"""

import re
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
import torch
import typer

from attar.documents.sources import find_files
from attar.documents.workers import FileReader
from attar.errors import AttarError
from attar.library.drafts import Draft, read_files
from attar.library.library import Library
from attar.results import Answer, Certainty
from attar.training.evaluation import CertaintyScore, by_certainty, certainty_line, normalized
from benchmarks.command import ReaderFolder, run_command
from benchmarks.folder_files import forms_of, made_up_novel, make_folder

QUESTIONS = Path(__file__).parent / "questions"
# Words without digits that a right answer may have around a correct one, such as "before" or "pounds per month".
_MORE_WORDS = 3
_DIGIT = re.compile(r"\d")


class Question(msgspec.Struct, frozen=True):
    """A question, correct answers (none: it has no answer), and words that the right quote has, all of them."""

    question: str
    answers: list[str]
    quote: list[str] = []
    document: str = ""


class Judged(NamedTuple):
    """What was answered: the first phrase, how likely, and whether it and its quote are right."""

    question: Question
    answer: Answer | None
    refused: bool
    right: bool
    right_quote: bool


def is_right(given: str, answers: Sequence[str]) -> bool:
    """Whether an answer is a correct one, or one with a few words around it.

    >>> is_right("before 8:15", ["8:15"]), is_right("18:15", ["8:15"]), is_right("8:15 or 9", ["8:15"])
    (True, False, False)
    """
    words = normalized(given).split()
    for answer in answers:
        wanted = normalized(answer).split()
        for at in range(len(words) - len(wanted) + 1):
            around = words[:at] + words[at + len(wanted) :]
            fits = len(around) <= _MORE_WORDS and not any(map(_DIGIT.search, around))
            if fits and words[at : at + len(wanted)] == wanted:
                return True
    return False


def judge(question: Question, answers: Sequence[Answer]) -> Judged:
    """Compare the answers to a question with the correct ones."""
    phrase = next((answer for answer in answers if not answer.absent), None)
    refused = not answers or answers[0].absent
    quote = _plain(phrase.quote or "") if phrase else ""
    right = phrase is not None and is_right(phrase.text, question.answers)
    found = bool(question.quote) and all(_plain(words) in quote for words in question.quote)
    return Judged(question, phrase, refused, right and not refused, found and not refused)


def _plain(text: str) -> str:
    return re.sub(r"\W+", " ", text.lower()).strip()


def area_under_curve(right: Sequence[float], wrong: Sequence[float]) -> float:
    """How often a right answer is said to be more likely than a wrong one.

    >>> area_under_curve([0.9, 0.5], [0.5, 0.1])
    0.875
    """
    pairs = [(a > b) + (a == b) / 2 for a in right for b in wrong]
    return sum(pairs) / len(pairs) if pairs else float("nan")


def ask_folder(reader: Path | None, make: Callable[[Path], int], questions: list[Question]) -> list[Judged]:
    """Add the folder to a library, and ask all questions of all documents."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place, "yard")
        count = make(folder)
        found = find_files([folder])
        bad: list[AttarError] = []
        with Library(Path(place, "library"), reader) as library, FileReader() as files:
            changes = library.add_many(read_files(found.files, bad.append, reader=files))
            answers = library.ask_all_many([question.question for question in questions])
    size = sum(change.bytes for change in changes)
    print(f"{count} files, {len(changes)} documents, {size:,} bytes of memories")
    for line in (
        *(f"{file.path.relative_to(folder)}: {file.reason}" for file in found.skipped),
        *map(str, bad),
    ):
        print("not read:", line.replace(f"{folder}/", ""))
    return [judge(question, ranked) for question, ranked in zip(questions, answers, strict=True)]


def ask_forms(
    reader: Path | None, forms: dict[str, dict[str, bytes]], questions: list[Question]
) -> dict[str, list[Judged]]:
    """Ask the questions of each document, as each kind of file."""
    rows: dict[str, list[Judged]] = {}
    with tempfile.TemporaryDirectory() as place, Library(Path(place, "library"), reader) as library:
        with FileReader() as files:
            for name, kinds in forms.items():
                for kind, data in kinds.items():
                    (document,) = files.read_bytes(f"{name}.{kind}", data, name=f"{kind} {name}")
                    library.add_many([Draft.of_source(document)])
        for kind in ("txt", "docx", "pdf"):
            rows[kind] = [
                judge(question, library.ask(f"{kind} {question.document}", question.question))
                for question in questions
            ]
    return rows


def summary(judged: Sequence[Judged]) -> dict[str, float]:
    """The figures of a list of questions."""
    answerable = [row for row in judged if row.question.answers]
    others = [row for row in judged if not row.question.answers]
    is_right = [(row, is_phrase_right(row)) for row in judged if row.answer]
    return {
        "questions": len(answerable),
        "right": sum(row.right for row in answerable),
        "right or right quote": sum(row.right or row.right_quote for row in answerable),
        "unanswerable": len(others),
        "refused": sum(row.refused for row in others),
        "auc": area_under_curve(
            [row.answer.probability for row, right in is_right if right and row.answer],
            [row.answer.probability for row, right in is_right if not right and row.answer],
        ),
    }


def words_of_certainty(judged: Sequence[Judged]) -> dict[Certainty, CertaintyScore]:
    """How often answers of each word are right, over everything that was answered."""
    answered = [row for row in judged if not row.refused]
    return by_certainty((row.answer.probability, row.right) for row in answered if row.answer)


def is_phrase_right(row: Judged) -> bool:
    """Whether the first phrase is right, also where "not in this library" comes before it."""
    return row.answer is not None and is_right(row.answer.text, row.question.answers)


def show_rows(judged: Sequence[Judged]) -> None:
    """Print what was answered to each question."""
    for row in judged:
        is_right = row.right or (row.refused and not row.question.answers)
        mark = "right" if is_right else "quote" if row.right_quote else "WRONG"
        said, refused = "-", " (refused)" if row.refused else ""
        if row.answer is not None:
            quote = " ".join((row.answer.quote or "").split())[:150]
            phrase = " ".join(row.answer.text.split())
            said = f"{phrase!r} {row.answer.probability:.0%}{refused} [{row.answer.document}: {quote}]"
        print(f"{mark:<6}{row.question.question} → {said}")


def main(
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Print each question and what was answered.")
    ] = False,
    which: Annotated[int, typer.Option("--set", min=1, max=7, help="Which folder and forms.")] = 1,
    reader: ReaderFolder = None,
) -> None:
    """Ask the questions about a folder and about forms, and print how many are answered right."""
    torch.set_num_threads(1)
    names = ("firm", "theatre", "landlord", "vets", "family", "parish", "driving school")
    name = names[which - 1]
    place = QUESTIONS / f"folder-{which}"
    story = made_up_novel() if which == 1 else None
    make = partial(make_folder, source=place / "files", novel=story)
    questions = msgspec.json.decode((place / "questions.json").read_bytes(), type=list[Question])
    asked = ask_folder(reader, make, questions)
    rows = {name: summary(asked)}
    if verbose:
        show_rows(asked)
    questions = msgspec.json.decode((place / "forms.json").read_bytes(), type=list[Question])
    for kind, judged in ask_forms(reader, forms_of(place / "forms"), questions).items():
        rows[f"forms, {kind}"] = summary(judged)
        asked = asked + judged
        if verbose:
            print(f"\n{kind}")
            show_rows(judged)
    for name, row in rows.items():
        refused = f", refused {row['refused']} of {row['unanswerable']}" if row["unanswerable"] else ""
        quote = (
            f", with the right quote {row['right or right quote']}" if not name.startswith("forms") else ""
        )
        print(f"{name}: right {row['right']} of {row['questions']}{quote}{refused}, AUC {row['auc']:.2f}")
    print(f"answers by certainty: {certainty_line(words_of_certainty(asked))}")


if __name__ == "__main__":
    run_command(main)
