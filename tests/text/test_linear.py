"""Each step that a text passes takes time in proportion to its length, whatever the text is.

It is CPU time, not a count: virtual machines have no counter of instructions, and the calls of Python functions say
nothing of the C code in which the time goes. `python -m benchmarks.linear` does the same with texts of megabytes.
"""

from collections.abc import Callable

import pytest

from attar.documents.sources import read_bytes
from attar.reader.reader import Reader
from tests.text.worst_texts import MARKUP, TEXTS, growth, library_steps, text_steps

# Four times as much text must take less than eight times as long; a quadratic step would take sixteen times.
MOST = 8


@pytest.mark.parametrize("make", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("step", ["clean", "sentences", "windows"])
def test_texts(step: str, make: Callable[[int], str], tiny_reader: Reader) -> None:
    work, short, long = text_steps(tiny_reader)[step], make(50_000), make(200_000)
    assert growth(lambda: work(short), lambda: work(long), MOST).ratio <= MOST


@pytest.mark.slow
@pytest.mark.parametrize("make", TEXTS.values(), ids=TEXTS)
def test_documents(make: Callable[[int], str], tiny_reader: Reader) -> None:
    with library_steps(tiny_reader, make(15_000)) as short, library_steps(tiny_reader, make(60_000)) as long:
        for step, work in short.items():
            assert growth(work, long[step], MOST).ratio <= MOST, step


@pytest.mark.parametrize("make", MARKUP.values(), ids=MARKUP)
def test_files(make: Callable[[int], tuple[str, str]]) -> None:
    (name, short), (_, long) = make(50_000), make(200_000)
    read = lambda markup: list(read_bytes(name, markup.encode()))  # noqa: E731
    assert growth(lambda: read(short), lambda: read(long), MOST).ratio <= MOST
