"""Texts and files that a careless step takes quadratic time for, by their length in characters; and the steps."""

import gc
import math
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from attar.documents.extracted import clean
from attar.library.library import Library
from attar.reader.reader import Reader
from attar.reader.windows import WindowedText
from attar.text.sentences import sentence_spans

QUESTION = "Who met Ann in the town?"
TEXTS: dict[str, Callable[[int], str]] = {
    "combining marks": lambda n: "a" + "\u0301" * (n // 2) + "\u0316" * (n // 2),
    "no spaces": lambda n: "a" * n,
    "dots": lambda n: "." * n,
    "newlines": lambda n: "a" + "\n" * n + "b",
    "spaces": lambda n: "a" + " " * n + "b",
    "one sentence": lambda n: "word " * (n // 5),
    "many sentences": lambda n: "A b. " * (n // 5),
    "many paragraphs": lambda n: "Ab\n\n" * (n // 4),
    "unclosed quotes": lambda n: '"Ann ' * (n // 5),
    "unclosed brackets": lambda n: "([" * (n // 2),
    "hyphens": lambda n: "a-" * (n // 2),
    "digits": lambda n: "1," * (n // 2),
    "initials": lambda n: "a." * (n // 2),
    "joined emoji": lambda n: "👩\u200d👧" * (n // 3),
}
MARKUP: dict[str, Callable[[int], tuple[str, str]]] = {
    "comments in Markdown": lambda n: ("a.md", "<div>" + "<!--" * (n // 4)),
    "brackets in Markdown": lambda n: ("a.md", "[" * (n // 8)),
    "links in Markdown": lambda n: ("a.md", "[a](b" * (n // 16)),
    "stars in Markdown": lambda n: ("a.md", "*a_ " * (n // 16)),
    "backticks in Markdown": lambda n: ("a.md", "`a" * (n // 16)),
    "comments in HTML": lambda n: ("a.html", "<p>a" + "<!--" * (n // 4)),
    "unclosed tags": lambda n: ("a.html", "<p>a" + "<b>" * (n // 3)),
    "angle brackets": lambda n: ("a.html", "<p>a" + "<" * n),
    "quotes in CSV": lambda n: ("a.csv", 'a,b\n"' + '""' * (n // 2) + '",c'),
    "encoded words": lambda n: ("a.eml", "From: a\nSubject: " + "=?utf-8?q?a?= " * (n // 14) + "\n\nhi"),
    "quoted lines": lambda n: ("a.eml", "From: a\n\n" + "> " * (n // 2) + "hi"),
}


class Growth(NamedTuple):
    """The seconds of CPU time that a text takes, and one of four times its length."""

    once: float
    more: float

    @property
    def ratio(self) -> float:
        """Of times below ten milliseconds, it says nothing."""
        return self.more / max(self.once, 0.01)


def growth(short: Callable[[], object], long: Callable[[], object], most: float) -> Growth:
    """The least times of a few runs, until the ratio is at most this: other programs take the caches, and time."""
    found = Growth(math.inf, math.inf)
    for _ in range(6):
        found = Growth(min(found.once, _seconds(short)), min(found.more, _seconds(long)))
        if found.ratio <= most:
            break
    return found


def _seconds(work: Callable[[], object]) -> float:
    gc.disable()  # it would look through all that other tests have left, in some runs and not in others
    try:
        began = time.thread_time()
        work()
        return time.thread_time() - began
    finally:
        gc.enable()


def text_steps(reader: Reader) -> dict[str, Callable[[str], object]]:
    """What a text passes before the network."""
    return {
        "clean": clean,
        "sentences": lambda text: list(sentence_spans(text)),
        "windows": lambda text: WindowedText.of(text, reader.tokenizer),
    }


@contextmanager
def library_steps(reader: Reader, text: str) -> Iterator[dict[str, Callable[[], object]]]:
    """What is done with a whole document: read and stored, found by words, answered from, and continued."""
    with tempfile.TemporaryDirectory() as folder, Library(folder, reader) as library:
        yield {
            "add": lambda: library.add("a", text, replace=True),
            "ask": lambda: library.ask("a", QUESTION, top=1_000),
            "ask all": lambda: library.ask_all(QUESTION),
            "search": lambda: library.search(QUESTION),
            "append": lambda: library.append("a", "Then Bob left."),
        }
