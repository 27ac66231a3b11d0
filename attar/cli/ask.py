"""`attar ask`: questions about one document or all, from the command line, a file, a pipe or a prompt."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from attar.cli import options
from attar.cli.output import error_line, note_reader, print_json, printable
from attar.cli.search import print_search_state
from attar.errors import AttarError, FormatError, OptionError, UnknownDocumentError, quoted

if TYPE_CHECKING:
    from attar.library.library import Library
    from attar.results import Answer

_STDIN = Path("-")
# Commands that end the prompt, and the questions of a pipe.
QUIT = (":quit", ":q", ":exit")


def ask(
    store: options.StorePath,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]",
            help="Name of the document, or its beginning; without it, all documents are asked.",
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
    """Answer questions from a document's memory, the most likely answer first, with its sentence.

    Without a question: a prompt, or in a pipe one question per line, where `:doc NAME`, `:all` and `:quit` work as
    at the prompt. A question that cannot be answered is named, the others are answered, and the exit code is 2.

    attar ask stories emma "Who married Elizabeth?" "The ball was at ___ ."
    """
    # The products of a question are too small for several threads, which would only wait for each other.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from attar.library.library import Library

    with Library(store, reader, read_only=True) as library:
        if not len(library):
            print("attar: this library has no documents yet: attar add", file=sys.stderr)
        document, given = _document_and_questions(library, name, questions or [])
        document = only_document(library) if document is None else document
        if not given and file is None and sys.stdin.isatty() and not as_json:
            from attar.cli.prompt import Prompt

            note_reader(library.store, store, reader)
            Prompt(library, document, top).run()
            return
        asked = [_Asked(f"question {at}", question, document) for at, question in enumerate(given, 1)]
        if file is not None or not asked:
            asked += _read_questions(library, file or _STDIN, document)
        if not asked:
            raise OptionError.expected("questions", "at least one, or --questions FILE", "none")
        for each in asked:
            if not each.question.strip():
                raise OptionError.expected(each.where, "a question", "nothing")
        # The second answer tells whether the first is unsure.
        answers = _answer(library, asked, top if as_json else max(top, 2))
        note_reader(library.store, store, reader)
        for each, found in zip(asked, answers, strict=True):
            if isinstance(found, AttarError):
                print(error_line(Exception(f"{each.where}: {found}")), file=sys.stderr)
        if as_json:
            rows = [_row(each, found, document) for each, found in zip(asked, answers, strict=True)]
            print_json({"document": document, "questions": rows})
        else:
            _print(library, asked, answers, top)
    if any(isinstance(found, AttarError) for found in answers):
        raise typer.Exit(2)


class _Asked(NamedTuple):
    """A question, where it came from, and the document that it is about; None: all.

    A line that cannot be asked has a `fault` instead: a command that does not exist, or a question after `:doc NAME`
    without such a document.
    """

    where: str
    question: str
    document: str | None
    fault: AttarError | None = None


class Asker:
    """Asks one document, or all if there is none."""

    def __init__(self, library: "Library", document: str | None, top: int) -> None:
        self.library, self.document, self.top = library, document, top

    def ask(self, questions: Sequence[str]) -> list["list[Answer] | AttarError"]:
        """The answers to each question, or the error of one that is no question."""
        try:
            return list(self._ask(questions))
        except FormatError as fault:
            if len(questions) == 1:
                return [fault]
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
    from attar.library.finding import find_document

    if first is None:
        return None, []
    if not first.strip():  # no document has such a name
        return None, [first, *rest]
    is_question = first.rstrip().endswith("?") or "___" in first or "@placeholder" in first
    if is_question and first not in library:
        return None, [first, *rest]
    try:
        return find_document(library.store, first), rest
    except UnknownDocumentError as unknown:
        # A sentence. Before other questions, two words are rather a mistyped name, and so is what resembles a name.
        words = len(first.split())
        if (not rest and words > 1) or (words > 2 and not unknown.similar):
            return None, [first, *rest]
        if rest or unknown.similar:
            raise
        remedy = "list the documents, or end a question with a question mark"
        raise OptionError.expected(
            f"document {quoted(first)}", "one in the library", "no such name", remedy
        ) from None


def _answer(library: "Library", asked: Sequence[_Asked], top: int) -> list["list[Answer] | AttarError"]:
    """The answers to each question, or its error; the error of an only question is raised."""
    answers: dict[_Asked, list[Answer] | AttarError] = {each: each.fault for each in asked if each.fault}
    sound = [each for each in asked if each.fault is None]
    for document in dict.fromkeys(each.document for each in sound):
        group = [each for each in sound if each.document == document]
        found = Asker(library, document, top).ask([each.question for each in group])
        answers |= zip(group, found, strict=True)
    only = answers[asked[0]]
    if len(asked) == 1 and isinstance(only, AttarError):
        raise only
    return [answers[each] for each in asked]


def _row(asked: _Asked, found: "list[Answer] | AttarError", document: str | None) -> dict[str, Any]:
    import msgspec

    # A line `:doc NAME` chose another document than the command.
    other = {} if asked.document == document else {"document": asked.document}
    if isinstance(found, AttarError):
        return {"question": asked.question, **other, "error": str(found)}
    return {"question": asked.question, **other, "answers": msgspec.to_builtins(found)}


def _print(
    library: "Library", asked: Sequence[_Asked], answers: Sequence["list[Answer] | AttarError"], top: int
) -> None:
    from attar.cli.quotes import Quotes

    quotes = {document: Quotes(library, document) for document in {each.document for each in asked}}
    first = True
    for each, found in zip(asked, answers, strict=True):
        if not isinstance(found, AttarError):
            if len(asked) > 1:
                print(("" if first else "\n") + printable(each.question))
            print(quotes[each.document].lines(found, top))
            first = False


def _read_questions(library: "Library", file: Path, document: str | None) -> list[_Asked]:
    """The questions of a file, each with the line it stands on; lines with commands choose the document, or end it."""
    from attar.documents.plain import decode_text
    from attar.library.finding import find_document

    try:
        data = sys.stdin.buffer.read() if file == _STDIN else file.read_bytes()
    except OSError as fault:
        raise FormatError.expected(str(file), "a file of questions", fault.strerror or str(fault)) from fault
    what = "stdin" if file == _STDIN else str(file)
    if file == _STDIN and not data.strip():
        return []
    asked: list[_Asked] = []
    unknown: AttarError | None = None
    for number, line in enumerate(map(str.strip, decode_text(data, what).splitlines()), 1):
        where = f"{what}, line {number}"
        command, _, rest = line.partition(" ")
        if line in QUIT:
            break
        if command == ":all" and not rest:
            document, unknown = only_document(library), None
        elif command == ":doc" and rest.strip():
            try:
                document, unknown = find_document(library.store, rest.strip()), None
            except AttarError as error:  # nor can the questions be asked that are about it
                unknown = error
                asked.append(_Asked(where, line, document, unknown))
        elif line.startswith(":"):
            expected, remedy = "a question, :doc NAME, :all or :quit", "other commands are for the prompt"
            wrong = FormatError.expected("command", expected, quoted(line), remedy)
            asked.append(_Asked(where, line, document, wrong))
        elif line:
            asked.append(_Asked(where, line, document, unknown))
    return asked
