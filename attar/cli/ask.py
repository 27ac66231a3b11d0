"""`attar ask`: questions about one document or all, from the command line, a file, a pipe or a prompt."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attar.cli import options
from attar.cli.output import error_line, note_reader, print_json, printable
from attar.cli.search import print_search_state
from attar.errors import AttarError, FormatError, OptionError

if TYPE_CHECKING:
    from attar.library import Library
    from attar.results import Answer

_STDIN = Path("-")


def ask(
    store: options.StorePath,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]",
            help="Name of the document, or its beginning; left out: all documents.",
            autocompletion=options.complete_names,
        ),
    ] = None,
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

    Without a question: a prompt, or in a pipe one question per line. A question that cannot be answered is named,
    the others are answered, and the exit code is 2.

    attar ask stories emma "Who married Elizabeth?" "The ball was at ___ ."
    """
    # The products of a question are too small for several threads, which would only wait for each other.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from attar.library import Library

    with Library(store, reader, read_only=True) as library:
        document, given = _document_and_questions(library, name, questions or [])
        document = only_document(library) if document is None else document
        if not given and file is None and sys.stdin.isatty() and not as_json:
            from attar.cli.prompt import Prompt

            note_reader(library.store, store, reader)
            Prompt(library, document, top).run()
            return
        asked = [(f"question {at}", question) for at, question in enumerate(given, 1)]
        if file is not None or not asked:
            asked += _read_questions(file or _STDIN)
        if not asked:
            raise OptionError("questions", "at least one, or --questions FILE", "none")
        for where, question in asked:
            if not question.strip():
                raise OptionError(where, "a question", "nothing")
        answers = Asker(library, document, top).ask([question for _, question in asked])
        note_reader(library.store, store, reader)
        for (where, _), found in zip(asked, answers, strict=True):
            if isinstance(found, AttarError):
                print(error_line(Exception(f"{where}: {found}")), file=sys.stderr)
        if as_json:
            rows = [_row(question, found) for (_, question), found in zip(asked, answers, strict=True)]
            print_json({"document": document, "questions": rows})
        else:
            _print(library, document, [question for _, question in asked], answers)
    if any(isinstance(found, AttarError) for found in answers):
        raise typer.Exit(2)


class Asker:
    """Asks one document, or all if there is none."""

    def __init__(self, library: "Library", document: str | None, top: int) -> None:
        self.library, self.document, self.top = library, document, top

    def ask(self, questions: Sequence[str]) -> list["list[Answer] | AttarError"]:
        """The answers to each question, or the error of one that is no question; a single one raises it."""
        try:
            return list(self._ask(questions))
        except FormatError:
            if len(questions) == 1:
                raise
            return [self._answers_or_error(question) for question in questions]

    def _answers_or_error(self, question: str) -> "list[Answer] | AttarError":
        try:
            return self._ask([question])[0]
        except FormatError as fault:
            return fault

    def _ask(self, questions: Sequence[str]) -> list["list[Answer]"]:
        if self.document is not None:
            return self.library.ask_many(self.document, questions, top=self.top)
        answers = self.library.ask_all_many(questions, top=self.top)
        print_search_state(self.library.search_state.lines())
        return answers


def only_document(library: "Library") -> str | None:
    """The name of the document, if there is only one."""
    return next(library.documents()).name if len(library) == 1 else None


def _document_and_questions(
    library: "Library", first: str | None, rest: list[str]
) -> tuple[str | None, list[str]]:
    """The first argument is a document, or, where it can be none, a question about all of them."""
    from attar.library import find_document

    if first is None:
        return None, []
    is_question = first.rstrip().endswith("?") or "___" in first or "@placeholder" in first
    if is_question and first not in library:
        return None, [first, *rest]
    try:
        return find_document(library.store, first), rest
    except AttarError:
        # A sentence alone; before other questions it is a mistyped name.
        if not rest and len(first.split()) > 1:
            return None, [first]
        raise


def _row(question: str, found: "list[Answer] | AttarError") -> dict[str, Any]:
    import msgspec

    if isinstance(found, AttarError):
        return {"question": question, "error": str(found)}
    return {"question": question, "answers": msgspec.to_builtins(found)}


def _print(
    library: "Library",
    document: str | None,
    questions: Sequence[str],
    answers: Sequence["list[Answer] | AttarError"],
) -> None:
    from attar.cli.quotes import Quotes

    quotes = Quotes(library, document)
    first = True
    for question, found in zip(questions, answers, strict=True):
        if not isinstance(found, AttarError):
            if len(questions) > 1:
                print(("" if first else "\n") + printable(question))
            print(quotes.lines(found))
            first = False


def _read_questions(file: Path) -> list[tuple[str, str]]:
    """The questions of a file, each with the line it stands on."""
    from attar.documents import decode_text

    try:
        data = sys.stdin.buffer.read() if file == _STDIN else file.read_bytes()
    except OSError as fault:
        raise FormatError(str(file), "a file of questions", fault.strerror or str(fault)) from fault
    what = "stdin" if file == _STDIN else str(file)
    lines = enumerate(decode_text(data, what).splitlines(), 1)
    return [(f"{what}, line {number}", line.strip()) for number, line in lines if line.strip()]
