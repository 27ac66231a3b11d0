"""`python -m benchmarks.written_folders OUT.jsonl`: the folders that the second look is trained with, as questions.

`questions/training/` has made-up folders of ordinary documents, one per file, each document with its questions:

    === letters/boiler.txt
    We shall service your boiler on Tuesday 24 March.
    --- questions
    Q: when is the heating engineer coming
    A: Tuesday 24 March | 24 March
    S: service your boiler          (words next to the answer, if it stands in several places)
    Q: What does the service cost?
    A: -                            (no document of the folder says so)

Documents are read as `attar add` reads files of their names, and answers are looked up in what was read.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from attar.documents.workers import FileReader
from benchmarks.command import run_command

FOLDERS = Path(__file__).parent / "questions" / "training"


@dataclass
class WrittenQuestion:
    """A question, its correct answers in the words of the document, and words next to them."""

    question: str
    answers: list[str] = field(default_factory=list)
    near: str = ""


@dataclass
class WrittenDocument:
    """A file's name and content, and its questions."""

    name: str
    content: str
    questions: list[WrittenQuestion]


def read_folder(text: str) -> Iterator[WrittenDocument]:
    """The documents of a file of `questions/training/`."""
    for block in re.split(r"^=== ", text, flags=re.MULTILINE)[1:]:
        name, _, rest = block.partition("\n")
        content, _, asked = rest.partition("\n--- questions\n")
        questions: list[WrittenQuestion] = []
        for line in asked.splitlines():
            mark, value = line[:2], line[2:].strip()
            if mark == "Q:":
                questions.append(WrittenQuestion(value))
            elif mark == "A:" and value != "-":
                questions[-1].answers = [answer.strip() for answer in value.split(" | ")]
            elif mark == "S:":
                questions[-1].near = value
        yield WrittenDocument(name.strip(), content.strip("\n") + "\n", questions)


def find_answers(text: str, question: WrittenQuestion) -> list[tuple[int, int]]:
    """Where the answers stand in a text: all places, or only those that are nearest to the words next to them.

    >>> find_answers("1 pear, 2 figs: 2 pounds", WrittenQuestion("?", ["2"], "pounds"))
    [(16, 17)]
    """
    near = [match.start() for match in _places(text, question.near)] if question.near else []
    found: list[tuple[int, int]] = []
    for answer in question.answers:
        spans = [match.span() for match in _places(text, answer)]
        if near and spans:
            spans = [min(spans, key=lambda span: min(abs(span[0] - place) for place in near))]
        found += spans
    return sorted(set(found))


def _places(text: str, words: str) -> Iterator[re.Match[str]]:
    """Where words stand, with any white space between them, as whole words."""
    pattern = r"\s+".join(map(re.escape, words.split()))
    return re.finditer(rf"(?<!\w){pattern}(?!\w)", text) if pattern else iter(())


def main(
    out: Annotated[Path, typer.Argument(help="The file to write, .jsonl.")],
    only: Annotated[
        str, typer.Option(help="Only folders whose file names match this regular expression.")
    ] = "",
) -> None:
    """Write the folders' documents and questions, a document per line."""
    lines, asked, absent, lost = [], 0, 0, 0
    with FileReader() as reader:
        for file in sorted(FOLDERS.glob("*.txt")):
            if not re.search(only, file.stem):
                continue
            for written in read_folder(file.read_text(encoding="utf-8")):
                data = written.content.encode()
                (document,) = reader.read_bytes(Path(written.name).name, data, name=written.name)
                questions = []
                for question in written.questions:
                    places = find_answers(document.text, question)
                    if question.answers and not places:
                        lost += 1
                        continue
                    answers = [{"text": document.text[start:end], "start": start} for start, end in places]
                    questions.append({"question": question.question, "answers": answers})
                    asked, absent = asked + 1, absent + (not answers)
                row = {"title": file.stem, "document": written.name, "context": document.text}
                lines.append(json.dumps(row | {"questions": questions}) + "\n")
    out.write_text("".join(lines), encoding="utf-8")
    print(
        f"{out}: {len(lines)} documents, {asked:,} questions, {absent:,} of them without an answer; {lost} lost"
    )


if __name__ == "__main__":
    run_command(main)
