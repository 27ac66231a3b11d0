"""What commands print: names that fit a line, changes, columns, JSON and progress bars."""

import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from time import monotonic
from typing import TYPE_CHECKING, Any

from attar.errors import UnknownDocumentError

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from attar.library.library import Library
    from attar.results import Answer, AnswerGroup, Change


_LONGEST_NAME = 72
# Characters that a terminal obeys instead of showing them, or that change the order of others: control characters
# without tab and line feed, and Unicode's directional formatting; and what UTF-8 cannot encode.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
# Seconds before a progress bar appears.
_DELAY = 2.0


def shown(name: str) -> str:
    r"""A name on one line, shortened if it is long.

    >>> shown("Emma, ch. 1"), shown("a\nb")
    ('Emma, ch. 1', "'a\\nb'")
    """
    return one_line(name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…")


def one_line(name: str) -> str:
    r"""A name on one line, whole: it can be asked for as it is printed.

    >>> one_line("Emma, ch. 1"), one_line("a\nb")
    ('Emma, ch. 1', "'a\\nb'")
    """
    return name if name.isprintable() else repr(name)


def printable(text: str) -> str:
    r"""A text whose control characters are escaped; tabs and line feeds stay.

    >>> print(printable("Emma\x1b[2J left."))
    Emma\x1b[2J left.
    """
    return _UNSAFE.sub(lambda found: repr(found[0])[1:-1], text)


def note_line(note: object) -> str:
    """An error, or what else a person should know, on one line, even if a path in it has several."""
    return "attar: " + printable(str(note)).replace("\n", "\\n")


def print_note(note: object) -> None:
    """Print an error, or what else a person should know, to stderr."""
    print(note_line(note), file=sys.stderr, flush=True)


def print_json(value: Any) -> None:
    import msgspec

    print(json.dumps(msgspec.to_builtins(value)), flush=True)


def print_result(value: Any, text: str, *, as_json: bool) -> None:
    if as_json:
        print_json(value)
    else:
        print(text, flush=True)


def change_line(change: "Change") -> str:
    size = f"{change.tokens:,} tokens, {change.bytes:,} bytes"
    missing = f"; incomplete, without {printable(change.incomplete)}" if change.incomplete else ""
    return f"{change.change} {shown(change.name)}: {size}{missing}"


def columns(rows: Sequence[Sequence[str]]) -> str:
    """Rows as aligned columns; each cell is one line.

    >>> print(columns([("Ann Lee", "0.75"), ("Bob", "0.25")]))
    Ann Lee  0.75
    Bob      0.25
    """
    rows = [[printable(cell).replace("\n", "\\n") for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def fact_rows(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Names and values as rows of `columns`, whole numbers with thousands separators."""
    return [(name, f"{value:,}" if isinstance(value, int) else str(value)) for name, value in facts.items()]


@contextmanager
def progress_bar() -> Iterator[Callable[[str, int, int], None]]:
    """A bar on stderr for each kind of work, in a terminal only, once the work has taken two seconds."""
    began = monotonic()
    bars: Progress | None = None
    tasks: dict[str, TaskID] = {}

    def update(what: str, done: int, total: int) -> None:
        nonlocal bars
        if monotonic() - began <= _DELAY or not sys.stderr.isatty():
            return
        if bars is None:
            from rich.console import Console
            from rich.progress import Progress

            # Printed lines appear above the bars if both are on a terminal; otherwise stdout stays as it is.
            bars = Progress(console=Console(stderr=True), transient=True, redirect_stdout=sys.stdout.isatty())
            bars.start()
        if what not in tasks:
            tasks[what] = bars.add_task(what, total=total)
        bars.update(tasks[what], completed=done + 1, total=total)

    try:
        yield update
    finally:
        if bars is not None:  # otherwise stopping prints an empty line
            bars.stop()


# Bold and underlined, where the output is a terminal: in a pipe a quote is what the text has, to search for.
_MARK, _END = "\x1b[1;4m", "\x1b[0m"
# `attar.results.SENTENCE`: what loads that is not needed for help.
_SENTENCE = "sentence"
# What rounds to 0%.
_LEAST = 0.005


class Quotes:
    """Prints answers with the texts they quote from."""

    def __init__(self, library: "Library", document: str | None) -> None:
        self._library, self._document = library, document
        self._absent = "not in this library" if document is None else "not in this text"
        self._texts: dict[str, str | None] = {}
        self._marks = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"

    def answers(self, answers: Sequence["Answer"]) -> str:
        """One line per answer: phrase, certainty in a word and a number, place and quote.

        "Not in this text" is left out below an answer that is less likely: that answer's "unsure" says it. Below an
        answer, what would be "0%" is left out. A sentence that decides between yes and no comes first in its line.
        """
        if answers and not answers[0].absent:
            best, *others = answers
            others = [one for one in others if one.probability >= _LEAST]
            answers = [
                best,
                *(one for one in others if not one.absent or one.probability <= best.probability),
            ]
        heads = [
            (
                self._absent if answer.absent else self._words(answer),
                f"{answer.certainty} {answer.probability:.0%}",
                self._place(answer),
            )
            for answer in answers
        ]
        if any(answer.kind == _SENTENCE for answer in answers):
            return "\n".join("  ".join(filter(None, head)) for head in heads)
        widths = [max(map(len, column)) for column in zip(*heads, strict=True)]
        starts = [
            "  ".join(cell.ljust(width) for cell, width in zip(head, widths, strict=True) if width)
            for head in heads
        ]
        return "\n".join(
            f"{start}  {self._quote(answer)}".rstrip() for answer, start in zip(answers, starts, strict=True)
        )

    def groups(self, groups: Sequence["AnswerGroup"]) -> str:
        """For each answer how likely it is and how many places give it, then a line for each of them."""
        lines = []
        for group in groups:
            count = f"{group.count:,} place{'s' * (group.count != 1)}"
            lines.append("  ".join((self._words(group), f"{group.probability:.0%}", count)))
            for place in group.places:
                quote = "" if group.kind == _SENTENCE else self._quote(place)
                lines.append(f"  {self._place(place)}  {quote}".rstrip())
        return "\n".join(lines) or self._absent

    def _words(self, answer: "Answer | AnswerGroup") -> str:
        """The words of an answer; a sentence that decides between yes and no is shown whole."""
        words = " ".join(answer.text.split())
        return printable(words) if answer.kind == _SENTENCE else shown(words)

    def _place(self, answer: "Answer") -> str:
        """The document, where several were asked, and the page, heading or row, or else the line."""
        name = self._name(answer)
        text = self._text(name)
        place = [] if name is None or name == self._document else [one_line(name)]
        if answer.place:
            place.append(shown(answer.place))
        elif text is not None and answer.start is not None:
            place.append(f"line {text.count(chr(10), 0, answer.start) + 1:,}")
        if answer.also:
            place.append(f"and {len(answer.also):,} more")
        return ", ".join(place)

    def _name(self, answer: "Answer") -> str | None:
        return self._document if self._document is not None else answer.document

    def _text(self, name: str | None) -> str | None:
        if name is not None and name not in self._texts:
            self._texts[name] = None
            with suppress(UnknownDocumentError):  # removed since it answered
                self._texts[name] = self._library.text(name)
        return None if name is None else self._texts[name]

    def _quote(self, answer: "Answer") -> str:
        """The sentence of an answer on one line, with its phrase marked."""
        quote, phrase = answer.quote or "", " ".join(answer.text.split())
        line = " ".join(quote.split())
        at = line.find(phrase) if phrase else -1
        text = self._text(self._name(answer))
        if text is not None and answer.start is not None and answer.end is not None:
            # The sentence around the phrase's place, where the phrase stands in it twice.
            begin = text.rfind(quote, max(0, answer.end - len(quote)), answer.start + len(quote))
            if begin >= 0:
                at = len(" ".join((text[begin : answer.start] + ".").split())) - 1
        if at < 0:
            return printable(line)
        marked = printable(phrase)
        if self._marks:
            marked = f"{_MARK}{marked}{_END}"
        return printable(line[:at]) + marked + printable(line[at + len(phrase) :])
