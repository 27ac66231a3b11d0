"""`attar ask`: questions of one document."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from attar.cli import arguments
from attar.cli.printing import columns, print_json, shown
from attar.errors import FormatError, OptionError


def ask(
    store: arguments.StorePath,
    name: arguments.Name,
    questions: Annotated[
        list[str] | None,
        typer.Argument(metavar="QUESTION…", help="With ___, @placeholder or a wh-word."),
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--questions", help="A file of questions, one a line; - for stdin.")
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="Answers a question.")] = 5,
    reader: arguments.ReaderPath = None,
    as_json: arguments.AsJson = False,
) -> None:
    """Answer questions from a document's memory: its names, the likeliest first.

    attar ask stories emma "___ married Elizabeth ." "Who left?"
    """
    import msgspec

    from attar.library import Library

    asked = [*(questions or []), *([] if file is None else questions_in(file))]
    if not asked:
        raise OptionError("questions", "at least one, or --questions FILE", "none")
    with Library(store, reader, read_only=True) as library:
        answers = library.ask_many(name, asked, top=top)
    if as_json:
        found = [
            {"question": question, "answers": msgspec.to_builtins(best)}
            for question, best in zip(asked, answers, strict=True)
        ]
        print_json({"document": name, "questions": found})
        return
    for number, (question, best) in enumerate(zip(asked, answers, strict=True)):
        if len(asked) > 1:
            print(("\n" if number else "") + question)
        rows = [(shown(answer.text), f"{answer.probability:.3f}") for answer in best]
        print(columns([("answer", "probability"), *rows]) if rows else "no names in this document")


def questions_in(file: Path) -> list[str]:
    """The questions of a file, one a line."""
    from attar.text import decode_text

    try:
        data = sys.stdin.buffer.read() if file == Path("-") else file.read_bytes()
    except OSError as fault:
        raise FormatError(str(file), "a file of questions", fault.strerror or str(fault)) from fault
    return [line.strip() for line in decode_text(data, str(file)).splitlines() if line.strip()]
