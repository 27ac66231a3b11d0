"""`attar ask` and `attar search`: one document or all, from the command line, a file, a pipe or a prompt."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from attar.cli import options
from attar.cli.output import error_line, one_line, print_json, printable, progress_bar, shown
from attar.errors import AttarError, FormatError, OptionError, UnknownDocumentError, quoted

if TYPE_CHECKING:
    from attar.library.library import Library
    from attar.results import Answer, QuotedPlace, Subset


_STDIN = Path("-")
# Answers per question.
_TOP = 5


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
    top: Annotated[
        int | None,
        typer.Option(min=1, help="Number of answers per question.", show_default="5; all of them with --all"),
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="All places that answer, grouped by answer and counted.")
    ] = False,
    look: Annotated[
        int | None,
        typer.Option(min=0, max=5, help="Sentences that are read again with the question; 0 is fastest."),
    ] = None,
    names: options.OnlyNames = None,
    folder: options.Folder = None,
    tags: options.Tags = None,
    since: options.Since = None,
    reader: options.ReaderPath = None,
    as_json: options.AsJson = False,
) -> None:
    """Answer questions from a document's memory, the most likely answer first, with its sentence.

    Without a question: a prompt, or in a pipe one question per line. A question that cannot be answered is named, the
    others are answered, and the exit code is 2.

    attar ask stories emma "Who married Elizabeth?" "The ball was at ___ ."

    attar ask papers --in letters --tag paid --since 2026-01-01 "Who pays the rent?"

    attar ask papers --all "Who has signed a contract?"
    """
    within = options.subset_of(names, folder, tags, since)
    most = _TOP if top is None else top
    # The products of a question are too small for several threads, which would only wait for each other.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from attar.library.library import Library

    with Library(store, reader, read_only=True) as library:
        count = len(library)
        if not count:
            print("attar: this library has no documents yet: attar add", file=sys.stderr)
        document, typed = _document_and_questions(library, name, questions or [])
        if document is not None and within:
            raise OptionError(
                "a document and a choice of documents exclude each other", "leave one of them out"
            )
        if document is None and count == 1 and not within:
            document = next(library.documents()).name
        if not typed and file is None and sys.stdin.isatty() and not as_json:
            from attar.cli.prompt import Prompt

            Prompt(library, document, most, look, within).run()
            return
        asked = [_Asked(f"question {at}", question) for at, question in enumerate(typed, 1)]
        if file is not None or not asked:
            asked += _read_questions(file or _STDIN)
        if not asked:
            raise OptionError("no question", "type at least one, or give --questions FILE")
        if every:
            _list_answers(library, document, asked, top, look, within, as_json)
            return
        answers = _answers(library, document, asked, most, look, within)
        for question, result in zip(asked, answers, strict=True):
            if isinstance(result, AttarError):
                print(error_line(Exception(f"{question.where}: {result}")), file=sys.stderr)
        if as_json:
            rows = [_row(question, result) for question, result in zip(asked, answers, strict=True)]
            print_json({"document": document, "questions": rows})
        else:
            _print(library, document, asked, answers)
    if any(isinstance(result, AttarError) for result in answers):
        raise typer.Exit(2)


class _Asked(NamedTuple):
    """A question, and where it came from."""

    where: str
    question: str


def ask_document(
    library: "Library",
    document: str | None,
    questions: Sequence[str],
    top: int,
    look: int | None,
    within: "Subset | None",
) -> "list[list[Answer]]":
    """The answers to each question from one document, or if there is none, from all or those of a subset."""
    if document is not None:
        return library.ask_many(document, questions, top=top, look=look)
    answers = library.ask_all_many(questions, top=top, look=look, within=within)
    print_search_state(library.search_state.lines())
    return answers


def only_document(library: "Library") -> str | None:
    """The name of the document, if there is only one."""
    return next(library.documents()).name if len(library) == 1 else None


def _document_and_questions(
    library: "Library", first: str | None, rest: list[str]
) -> tuple[str | None, list[str]]:
    """The first argument is a document, or, where it can be none, a question about all of them."""
    from attar.library.documents import find_document

    if first is None:
        return None, []
    if not first.strip():  # no document has such a name
        return None, [first, *rest]
    is_question = first.rstrip().endswith("?") or "___" in first
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
        raise OptionError(f"there is no document {quoted(first)}", remedy) from None


def _answers(
    library: "Library",
    document: str | None,
    asked: Sequence[_Asked],
    top: int,
    look: int | None,
    within: "Subset | None",
) -> "list[list[Answer] | AttarError]":
    """The answers to each question, or its error; the error of an only question is raised."""
    try:
        return [*ask_document(library, document, [question for _, question in asked], top, look, within)]
    except FormatError:
        if len(asked) == 1:
            raise
        # One of them has no words: the others are answered.
        return [_alone(library, document, question, top, look, within) for _, question in asked]


def _alone(
    library: "Library",
    document: str | None,
    question: str,
    top: int,
    look: int | None,
    within: "Subset | None",
) -> "list[Answer] | AttarError":
    try:
        return ask_document(library, document, [question], top, look, within)[0]
    except FormatError as fault:
        return fault


def _row(asked: _Asked, result: "list[Answer] | AttarError") -> dict[str, Any]:
    import msgspec

    if isinstance(result, AttarError):
        return {"question": asked.question, "error": str(result)}
    return {"question": asked.question, "answers": msgspec.to_builtins(result)}


def _print(
    library: "Library",
    document: str | None,
    asked: Sequence[_Asked],
    answers: Sequence["list[Answer] | AttarError"],
) -> None:
    from attar.cli.output import Quotes

    quotes = Quotes(library, document)
    first = True
    for question, result in zip(asked, answers, strict=True):
        if not isinstance(result, AttarError):
            if len(asked) > 1:
                print(("" if first else "\n") + printable(question.question))
            print(quotes.lines(result))
            first = False


def _list_answers(
    library: "Library",
    document: str | None,
    asked: Sequence[_Asked],
    top: int | None,
    look: int | None,
    within: "Subset",
    as_json: bool,
) -> None:
    """Print all places that answer each question, of one document, of all, or of a subset."""
    from attar.cli.output import Quotes
    from attar.results import Subset

    chosen = within if document is None else Subset(names=(document,))
    found = [library.list_answers(question, top=top, look=look, within=chosen) for _, question in asked]
    print_search_state(library.search_state.lines())
    if as_json:
        rows = [
            {"question": question.question, "groups": groups}
            for question, groups in zip(asked, found, strict=True)
        ]
        print_json({"document": document, "questions": rows})
        return
    quotes = Quotes(library, document)
    for at, (question, groups) in enumerate(zip(asked, found, strict=True)):
        if len(asked) > 1:
            print(("\n" if at else "") + printable(question.question))
        for group in groups:
            print(quotes.group_lines(group))
        if not groups:
            print("not in this library" if document is None else "not in this text")


def _read_questions(file: Path) -> list[_Asked]:
    """The questions of a file, each with the line it stands on."""
    from attar.documents.plain import decode_text

    try:
        data = sys.stdin.buffer.read() if file == _STDIN else file.read_bytes()
    except OSError as fault:
        raise FormatError(f"cannot read questions from {file}: {fault.strerror or fault}") from fault
    what = "stdin" if file == _STDIN else str(file)
    if file == _STDIN and not data.strip():
        return []
    lines = enumerate(map(str.strip, decode_text(data, what).splitlines()), 1)
    return [_Asked(f"{what}, line {number}", line) for number, line in lines if line]


def search(
    store: options.StorePath,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="A question, or some words.")],
    top: Annotated[int, typer.Option(min=1, help="Number of documents.")] = 10,
    passages: Annotated[
        bool, typer.Option("--passages", help="Print the paragraphs around the best sentences.")
    ] = False,
    names: options.OnlyNames = None,
    folder: options.Folder = None,
    tags: options.Tags = None,
    since: options.Since = None,
    reader: options.ReaderPath = None,
    as_json: options.AsJson = False,
) -> None:
    """Find the documents that fit a query best, each with its best sentences.

    attar search stories "who married Elizabeth?"
    """
    from attar.library.library import Library

    with Library(store, reader, read_only=True) as library:
        with progress_bar() as progress:
            library.make_signatures(progress=progress)
        hits = library.search(
            query, top=top, within=options.subset_of(names, folder, tags, since), passages=passages
        )
        print_search_state(library.search_state.lines())
    if as_json:
        print_json({"query": query, "hits": hits})
        return
    for hit in hits:
        print(f"{shown(hit.document)}  {hit.score:.1f}")
        for sentence in hit.passages if passages else hit.sentences:
            place = f" ({shown(sentence.place)})" if sentence.place else ""
            print(f"  {printable(' '.join(sentence.text.split()))}{place}")
    if not hits:
        print("no documents")


def verify(
    store: options.StorePath,
    quote: Annotated[str, typer.Argument(metavar="QUOTE", help="A sentence, as somebody quotes it.")],
    names: options.OnlyNames = None,
    folder: options.Folder = None,
    tags: options.Tags = None,
    since: options.Since = None,
    reader: options.ReaderPath = None,
    as_json: options.AsJson = False,
) -> None:
    """Check whether a library says a sentence, word for word or with a few words changed, and where.

    Case, punctuation, spaces and the kind of quotation marks do not count. The exit code is 1 if no document says it.

    attar verify stories "Mr Knightley married Emma in October."
    """
    from attar.library.library import Library

    with Library(store, reader, read_only=True) as library:
        with progress_bar() as progress:
            library.make_signatures(progress=progress)
        verified = library.verify(quote, within=options.subset_of(names, folder, tags, since))
        print_search_state(library.search_state.lines())
    if as_json:
        print_json(verified)
    else:
        print(
            {"found": "found, word for word", "nearly": "nearly", "absent": "not in this library"}[
                verified.verdict
            ]
        )
        for passage in verified.passages:
            _print_passage(passage)
    if verified.unchecked:
        print(
            f"attar: not checked, as their texts are not kept: {verified.unchecked} documents",
            file=sys.stderr,
        )
    if verified.verdict == "absent":
        raise typer.Exit(1)


def _print_passage(passage: "QuotedPlace") -> None:
    place = shown(passage.place) if passage.place else f"characters {passage.start:,} to {passage.end:,}"
    print(f"{one_line(passage.document)}, {place}  {printable(' '.join(passage.text.split()))}")
    for difference in passage.differences:
        ours, theirs = (
            f'"{printable(text)}"' if text else "nothing" for text in (difference.quote, difference.text)
        )
        print(f"  the quote has {ours}, the document {theirs}")


def print_search_state(lines: list[str]) -> None:
    """Print what a person should know about a search, to stderr."""
    for line in lines:
        print(f"attar: {printable(line)}", file=sys.stderr)
