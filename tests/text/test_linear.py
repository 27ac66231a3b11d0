"""Each step that a text passes takes time in proportion to its length, whatever the text is."""

import time
from collections.abc import Callable

import pytest

from attar.documents.extracted import clean
from attar.documents.sources import read_bytes
from attar.reader.encoding import WindowedText
from attar.reader.reader import Reader
from attar.text.sentences import sentence_spans

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


def seconds(work: Callable[[], object]) -> float:
    """The CPU time of this thread, the least of three: other processes do not count."""
    times = []
    for _ in range(3):
        began = time.thread_time()
        work()
        times.append(time.thread_time() - began)
    return min(times)


def assert_linear(work: Callable[[int], object], size: int) -> None:
    """Four times as much text must take less than eight times as long; a quadratic step would take sixteen times."""
    once, more = seconds(lambda: work(size)), seconds(lambda: work(4 * size))
    assert more < 8 * max(once, 0.002)


@pytest.mark.parametrize("make", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("step", ["clean", "sentences", "windows"])
def test_texts(step: str, make: Callable[[int], str], tiny_reader: Reader) -> None:
    steps: dict[str, Callable[[str], object]] = {
        "clean": clean,
        "sentences": lambda text: list(sentence_spans(text)),
        "windows": lambda text: WindowedText.of(text, tiny_reader.tokenizer).windows,
    }
    assert_linear(lambda size: steps[step](make(size)), 60_000)


@pytest.mark.parametrize("make", MARKUP.values(), ids=MARKUP)
def test_files(make: Callable[[int], tuple[str, str]]) -> None:
    def read(size: int) -> object:
        name, markup = make(size)
        return list(read_bytes(name, markup.encode()))

    assert_linear(read, 60_000)
