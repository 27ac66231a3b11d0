"""`attar ask`: questions about one document."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from attar.cli import options
from attar.cli.output import columns, print_json, printable, shown
from attar.errors import FormatError, OptionError


def ask(
    store: options.StorePath,
    name: options.Name,
    questions: Annotated[
        list[str] | None,
        typer.Argument(metavar="QUESTION…", help="A question word, or ___ or @placeholder for the answer."),
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--questions", help="File with one question per line; - for stdin.")
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="Number of answers per question.")] = 5,
    reader: options.ReaderPath = None,
    as_json: options.AsJson = False,
) -> None:
    """Answer questions from a document's memory with names of the document, the most likely first.

    attar ask stories emma "___ married Elizabeth ." "Who left?"
    """
    import msgspec

    from attar.library import Library

    asked = [*(questions or []), *([] if file is None else _read_questions(file))]
    if not asked:
        raise OptionError("questions", "at least one, or --questions FILE", "none")
    with Library(store, reader, read_only=True) as library:
        answers = library.ask_many(name, asked, top=top)
    if as_json:
        rows = [
            {"question": question, "answers": msgspec.to_builtins(best)}
            for question, best in zip(asked, answers, strict=True)
        ]
        print_json({"document": name, "questions": rows})
        return
    for number, (question, best) in enumerate(zip(asked, answers, strict=True)):
        if len(asked) > 1:
            print(("\n" if number else "") + printable(question))
        lines = [(shown(answer.text), f"{answer.probability:.3f}") for answer in best]
        print(columns([("answer", "probability"), *lines]) if lines else "no names in this document")


def _read_questions(file: Path) -> list[str]:
    from attar.text import decode_text

    try:
        data = sys.stdin.buffer.read() if file == Path("-") else file.read_bytes()
    except OSError as fault:
        raise FormatError(str(file), "a file of questions", fault.strerror or str(fault)) from fault
    return [line.strip() for line in decode_text(data, str(file)).splitlines() if line.strip()]
