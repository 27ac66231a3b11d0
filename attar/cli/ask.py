"""`attar ask`: questions about one document, or about all."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attar.cli import options
from attar.cli.output import columns, print_json, printable, shown
from attar.cli.search import print_search_state
from attar.errors import FormatError, OptionError

if TYPE_CHECKING:
    from attar.results import Answer


def ask(
    store: options.StorePath,
    name: Annotated[
        str,
        typer.Argument(metavar="[NAME]", help="Name of the document; without it, all documents are asked."),
    ],
    questions: Annotated[
        list[str] | None,
        typer.Argument(metavar="QUESTION…", help="A question, or a sentence with ___ for the answer."),
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--questions", help="File with one question per line; - for stdin.")
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="Number of answers per question.")] = 5,
    reader: options.ReaderPath = None,
    as_json: options.AsJson = False,
) -> None:
    """Answer questions from a document's memory, the most likely answer first, with the sentence it stands in.

    attar ask stories emma "Who married Elizabeth?" "The ball was at ___ ."

    attar ask stories "Who married Elizabeth?"
    """
    import msgspec

    from attar.library import Library

    asked = [*(questions or []), *([] if file is None else _read_questions(file))]
    everywhere = not asked
    with Library(store, reader, read_only=True) as library:
        if everywhere and name in library:
            raise OptionError("questions", "at least one, or --questions FILE", "none")
        asked = asked or [name]
        answers = [library.ask_all(name, top=top)] if everywhere else library.ask_many(name, asked, top=top)
        print_search_state(library.search_state.lines() if everywhere else [])
    if as_json:
        rows = [
            {"question": question, "answers": msgspec.to_builtins(best)}
            for question, best in zip(asked, answers, strict=True)
        ]
        print_json({"document": None if everywhere else name, "questions": rows})
        return
    for number, (question, best) in enumerate(zip(asked, answers, strict=True)):
        if len(asked) > 1:
            print(("\n" if number else "") + printable(question))
        cells = [_cells(answer, everywhere) for answer in best]
        print(columns(cells) if best else "no names in this document")


def _cells(answer: "Answer", everywhere: bool) -> tuple[str, ...]:
    """An answer, its probability, its document if all were asked, and the sentence it stands in."""
    where = "library" if everywhere else "text"
    text = f"not in this {where}" if answer.absent else shown(answer.text)
    quote = shown(" ".join((answer.quote or "").split()))
    document = (shown(answer.document or ""),) if everywhere else ()
    return text, f"{answer.probability:.0%}", *document, quote


def _read_questions(file: Path) -> list[str]:
    from attar.text import decode_text

    try:
        data = sys.stdin.buffer.read() if file == Path("-") else file.read_bytes()
    except OSError as fault:
        raise FormatError(str(file), "a file of questions", fault.strerror or str(fault)) from fault
    return [line.strip() for line in decode_text(data, str(file)).splitlines() if line.strip()]
