"""`attar ask`, `search` and `verify`: one document or all, from the command line, a file, a pipe or a prompt."""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from attar.cli import options
from attar.cli.output import Quotes, one_line, print_json, print_note, printable, progress_bar, shown
from attar.errors import AttarError, FormatError, OptionError, UnknownDocumentError, quoted
from attar.options import MOST_LOOK

if TYPE_CHECKING:
    from attar.library.library import Library
    from attar.results import Answer, AnswerGroup, QuotedPlace, Subset

_STDIN = Path("-")
# Answers per question.
_TOP = 5

# The answers to a question, or with --all groups of them; or why there are none.
Result = list[Any] | AttarError


@options.choosing_documents
def ask(
    store: options.StorePath,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]",
            help="Name of the document, or its beginning; without it, all documents are asked.",
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
        typer.Option(
            min=0, max=MOST_LOOK, help="Sentences that are read again with the question; 0 is fastest."
        ),
    ] = None,
    reader: options.ReaderPath = None,
    as_json: options.AsJson = False,
    **chosen: Any,
) -> None:
    """Answer questions from documents, with quotes.

    The most likely answer comes first. Without a question: a prompt, or in a pipe one question per line. An invalid
    question is reported, the others are answered, and the exit code is 2.

    attar ask stories emma "Who married Elizabeth?" "The ball was at ___ ."

    attar ask papers --in letters --tag paid --since 2026-01-01 "Who pays the rent?"

    attar ask papers --all "Who has signed a contract?"
    """
    within = options.subset_of(**chosen) if any(chosen.values()) else None
    # The products of a question are too small for several threads, which would only wait for each other.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from attar.library.library import Library

    with Library(store, reader, read_only=True) as library:
        if not len(library):
            print_note("this library has no documents yet: attar add")
        if within is not None:
            options.check_names(library, within)
        document, typed = _document_and_questions(library, name, questions or [])
        if document is not None and within:
            raise OptionError(
                "a document and a choice of documents exclude each other", "leave one of them out"
            )
        if document is None and not within:
            document = only_document(library)
        asking = Asking(library, document, within, top, look)
        if not typed and file is None and sys.stdin.isatty() and not as_json:
            from attar.cli.prompt import run_prompt

            run_prompt(asking)
            return
        asked = [_Asked(f"question {at}", question) for at, question in enumerate(typed, 1)]
        if file is not None or not asked:
            asked += _read_questions(file or _STDIN)
        if not asked:
            raise OptionError("no question", "type at least one, or give --questions FILE")
        results = _results(asking.groups if every else asking.answers, asked)
        if document is None or every:
            print_left_out(library)
        for question, result in zip(asked, results, strict=True):
            if isinstance(result, AttarError):
                print_note(f"{question.where}: {result}")
        if every and not all(results):
            print_note(
                "--all lists nothing where the best answer is not likely; without --all, the nearest are shown"
            )
        if as_json:
            rows = [
                {"question": question.text, "error": str(result)}
                if isinstance(result, AttarError)
                else {"question": question.text, "groups" if every else "answers": result}
                for question, result in zip(asked, results, strict=True)
            ]
            print_json({"document": document, "questions": rows})
        else:
            quotes = Quotes(library, document)
            _print(asked, results, quotes.groups if every else quotes.answers)
    if any(isinstance(result, AttarError) for result in results):
        raise typer.Exit(2)


class _Asked(NamedTuple):
    where: str
    text: str


@dataclass(frozen=True)
class Asking:
    """What is asked, one document, all, or those of a subset, and how."""

    library: "Library"
    document: str | None
    within: "Subset | None" = None
    top: int | None = None
    look: int | None = None

    def answers(self, questions: Sequence[str]) -> "list[list[Answer]]":
        top = self.top or _TOP
        if self.document is not None:
            return self.library.ask_many(self.document, questions, top=top, look=self.look)
        return self.library.ask_all_many(questions, top=top, look=self.look, within=self.within)

    def groups(self, questions: Sequence[str]) -> "list[list[AnswerGroup]]":
        from attar.results import Subset

        within = self.within if self.document is None else Subset(names=(self.document,))
        return [
            self.library.list_answers(question, top=self.top, look=self.look, within=within)
            for question in questions
        ]


def only_document(library: "Library") -> str | None:
    names = [document.name for document in library.documents(limit=2)]
    return names[0] if len(names) == 1 else None


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
        document = find_document(library.store, first)
        if len(rest) > 1 and _is_unquoted(rest):
            raise _needs_quotes(rest)
        return document, rest
    except UnknownDocumentError as unknown:
        if rest and not unknown.similar and _is_unquoted([first, *rest]):
            raise _needs_quotes([first, *rest]) from None
        # A sentence. Before other questions, two words are rather a mistyped name, and so is what resembles a name.
        words = len(first.split())
        if (not rest and words > 1) or (words > 2 and not unknown.similar):
            return None, [first, *rest]
        if rest or unknown.similar:
            raise
        remedy = "list the documents, or end a question with a question mark"
        raise OptionError(f"there is no document {quoted(first)}", remedy) from None


def _is_unquoted(arguments: Sequence[str]) -> bool:
    """Whether these are rather the words of one question, which the shell took apart, than questions.

    >>> _is_unquoted(["Who", "left?"]), _is_unquoted(["Who?", "When?"]), _is_unquoted(["Who left", "When"])
    (True, False, False)
    """
    are_words = all(len(argument.split()) == 1 and "___" not in argument for argument in arguments)
    return are_words and not all(argument.endswith("?") for argument in arguments)


def _needs_quotes(words: Sequence[str]) -> OptionError:
    return OptionError("a question of several words needs quotes", f'type "{" ".join(words)}"')


def _results(answer: Callable[[list[str]], Sequence[Any]], asked: Sequence[_Asked]) -> list[Result]:
    """The answers to each question, or why it is none; the error of an only question is raised."""
    from attar.results import check_asked

    faults: dict[int, FormatError] = {}
    for at, question in enumerate(asked):
        try:
            check_asked("question", question.text)
        except FormatError as fault:
            if len(asked) == 1:
                raise
            faults[at] = fault
    answers = iter(answer([question.text for at, question in enumerate(asked) if at not in faults]))
    return [faults[at] if at in faults else next(answers) for at in range(len(asked))]


def _print(asked: Sequence[_Asked], results: Sequence[Result], lines_of: Callable[[Any], str]) -> None:
    answered = [
        (question, result)
        for question, result in zip(asked, results, strict=True)
        if not isinstance(result, AttarError)
    ]
    for at, (question, result) in enumerate(answered):
        if len(asked) > 1:
            print(("\n" if at else "") + printable(question.text))
        print(lines_of(result))


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


@options.choosing_documents
def search(
    store: options.StorePath,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="A question, or some words.")],
    top: Annotated[int, typer.Option(min=1, help="Number of documents.")] = 10,
    passages: Annotated[
        bool, typer.Option("--passages", help="Print the paragraphs around the best sentences.")
    ] = False,
    reader: options.ReaderPath = None,
    as_json: options.AsJson = False,
    **chosen: Any,
) -> None:
    """Find the documents that fit a query best.

    attar search stories "who married Elizabeth?"
    """
    within = options.subset_of(**chosen)
    with _searched(store, reader) as library:
        options.check_names(library, within)
        hits = library.search(query, top=top, within=within, passages=passages)
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


_VERDICTS = {"found": "found, word for word", "nearly": "nearly", "absent": "not in this library"}


@options.choosing_documents
def verify(
    store: options.StorePath,
    quote: Annotated[str, typer.Argument(metavar="QUOTE", help="A sentence, as somebody quotes it.")],
    reader: options.ReaderPath = None,
    as_json: options.AsJson = False,
    **chosen: Any,
) -> None:
    """Check whether a document says a sentence, and where.

    It may have a few words changed. Case, punctuation, spaces and the kind of quotation marks do not count. The exit
    code is 1 if no document says it.

    attar verify stories "Mr Knightley married Emma in October."
    """
    within = options.subset_of(**chosen)
    with _searched(store, reader) as library:
        options.check_names(library, within)
        verified = library.verify(quote, within=within)
        if as_json:
            print_json(verified)
        else:
            print(_VERDICTS[verified.verdict])
            for passage in verified.passages:
                _print_passage(library, passage)
    if verified.unchecked:
        print_note(f"not checked, as their texts are not kept: {verified.unchecked} documents")
    if verified.verdict == "absent":
        raise typer.Exit(1)


def _print_passage(library: "Library", passage: "QuotedPlace") -> None:
    text = library.text(passage.document) or ""
    place = shown(passage.place) if passage.place else f"line {text.count(chr(10), 0, passage.start) + 1:,}"
    print(f"{one_line(passage.document)}, {place}  {printable(' '.join(passage.text.split()))}")
    for difference in passage.differences:
        ours, theirs = (
            f'"{printable(text)}"' if text else "nothing" for text in (difference.quote, difference.text)
        )
        print(f"  the quote has {ours}, the document {theirs}")


@contextmanager
def _searched(store: Path, reader: Path | None) -> "Iterator[Library]":
    """A library with its signatures, to search in; ends with what a person should know about the search."""
    from attar.library.library import Library

    with Library(store, reader, read_only=True) as library:
        with progress_bar() as progress:
            library.make_signatures(progress=progress)
        yield library
        print_left_out(library)


def print_left_out(library: "Library") -> None:
    """Say which documents a search could not find."""
    if names := library.left_out:
        which = f"{len(names):,} documents are left out, such as {names[0][:72]!r}"
        print_note(f"{which}: they have neither a signature nor a text; add them again")
