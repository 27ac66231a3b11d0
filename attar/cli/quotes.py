"""Answers as people read them: the phrase, its probability, its sentence with the phrase marked, and its line."""

import os
import shutil
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from attar.cli.output import one_line, printable, shown

if TYPE_CHECKING:
    from attar.library.library import Library
    from attar.results import Answer

# Bold and underlined, where the output is a terminal: in a pipe a quote is what the text has, to search for.
_MARK, _END = "\x1b[1;4m", "\x1b[0m"
# A quote that does not fit a terminal's line is cut around its phrase to what is left, or to this many characters.
_SHORTEST = 40


class Quotes:
    """Prints answers with the texts they quote from."""

    def __init__(self, library: "Library", document: str | None) -> None:
        self._library, self._document = library, document
        self._texts: dict[str, str | None] = {}
        self._marks = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
        self._width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None

    def lines(self, answers: Sequence["Answer"], top: int | None = None) -> str:
        """One line per answer, at most `top`: phrase, probability, place and quote.

        The first answer is "unsure" if the second is that there is none, and likelier.
        """
        self._texts.clear()  # at a prompt, documents may change between two questions
        unsure = len(answers) > 1 and answers[1].absent and answers[1].probability > answers[0].probability
        answers = answers[:top]
        absent = "not in this text" if self._document is not None else "not in this library"
        heads = [
            (
                absent if answer.absent else shown(answer.text),
                f"{answer.probability:.0%}" + (" unsure" if at == 0 and unsure else ""),
                self._place(answer),
            )
            for at, answer in enumerate(answers)
        ]
        widths = [max(map(len, column)) for column in zip(*heads, strict=True)]
        starts = [
            "  ".join(cell.ljust(width) for cell, width in zip(head, widths, strict=True) if width)
            for head in heads
        ]
        quotes = [self._quote(answer, len(start)) for answer, start in zip(answers, starts, strict=True)]
        return "\n".join(f"{start}  {quote}".rstrip() for start, quote in zip(starts, quotes, strict=True))

    def _place(self, answer: "Answer") -> str:
        """The document, where several were asked, and the page, heading or row, or else the line."""
        name = self._name(answer)
        text = self._text(name)
        place = [] if name is None or name == self._document else [one_line(name)]
        if answer.place:
            place.append(shown(answer.place))
        elif text is not None and answer.start is not None:
            place.append(f"line {text.count(chr(10), 0, answer.start) + 1:,}")
        return ", ".join(place)

    def _name(self, answer: "Answer") -> str | None:
        return self._document if self._document is not None else answer.document

    def _text(self, name: str | None) -> str | None:
        if name is not None and name not in self._texts:
            self._texts[name] = self._library.text(name) if name in self._library else None
        return None if name is None else self._texts[name]

    def _quote(self, answer: "Answer", used: int) -> str:
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
        return self._cut(line[:at], line[at : at + len(phrase)], line[at + len(phrase) :], used)

    def _cut(self, before: str, phrase: str, after: str, used: int) -> str:
        if self._width is not None:
            room = max(_SHORTEST, self._width - used - 2) - len(phrase)
            if len(before) + len(after) > room:
                half = max(0, room // 2)
                kept_before = max(half, room - len(after))
                kept_after = max(half, room - len(before))
                before = before if len(before) <= kept_before else "…" + before[-max(1, kept_before - 1) :]
                after = after if len(after) <= kept_after else after[: max(1, kept_after - 1)] + "…"
        marked = f"{_MARK}{printable(phrase)}{_END}" if self._marks else printable(phrase)
        return printable(before) + marked + printable(after)
