"""How many machine instructions each step takes for a text and for one of four times its length, counted by Valgrind.

The clock of a shared machine would not do, nor would calls of Python functions, since most of the work is C code. All
steps are counted in one process under Valgrind, as loading torch takes half a minute there: it forks for each count,
and a fork that does nothing tells what was counted before.
"""

import gc
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import msgspec
import torch

from attar.documents.extracted import clean
from attar.library.library import Library
from attar.reader.reader import Reader
from attar.reader.windows import WindowedText
from attar.store.store import Store
from attar.text.sentences import sentence_spans
from benchmarks.tiny_reader import load_tiny_reader
from tests.documents.document_files import read_here

# Texts and files that a careless step takes quadratic time for, by their length in characters.
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
    "log in columns": lambda n: ("a.txt", "12:00:03  INFO  worker 7  met Ann\n" * (n // 34)),
    "words in columns": lambda n: ("a.txt", "dog  noun  Hund\n" * (n // 16)),
    "comments in Markdown": lambda n: ("a.md", "<div>" + "<!--" * (n // 4)),
    "brackets in Markdown": lambda n: ("a.md", "[" * (n // 8)),
    "links in Markdown": lambda n: ("a.md", "[a](b" * (n // 16)),
    "stars in Markdown": lambda n: ("a.md", "*a_ " * (n // 16)),
    "backticks in Markdown": lambda n: ("a.md", "`a" * (n // 16)),
    "comments in HTML": lambda n: ("a.html", "<p>a" + "<!--" * (n // 4)),
    "unclosed tags": lambda n: ("a.html", "<p>a" + "<b>" * (n // 3)),
    "angle brackets": lambda n: ("a.html", "<p>a" + "<" * n),
    "nested links": lambda n: ("a.html", "<div><a href=x>y</a>" * min(n // 80, 2_000) + "a " * (n // 4)),
    "parameters of a contact": lambda n: ("a.vcf", "BEGIN:VCARD\nTEL" + ";" * n + "\nTEL:1\nEND:VCARD"),
    "keys of rows": lambda n: ("a.json", "[" + ",".join(f'{{"k{at}":1}}' for at in range(n // 12)) + "]"),
    "quotes in CSV": lambda n: ("a.csv", 'a,b\n"' + '""' * (n // 2) + '",c'),
    "encoded words": lambda n: ("a.eml", "From: a\nSubject: " + "=?utf-8?q?a?= " * (n // 14) + "\n\nhi"),
    "quoted lines": lambda n: ("a.eml", "From: a\n\n" + "> " * (n // 2) + "hi"),
}

QUESTION = "Who met Ann in the town?"
# A step that takes less is not worth a ratio: a garbage collection or the first use of a module takes as much.
_LEAST = 5_000_000
_MAP_BYTES = 2**30  # Valgrind has no room for the store's usual terabyte of addresses


class Growth(msgspec.Struct, frozen=True):
    """The instructions of a step for a text, and for one of four times its length."""

    text: str
    step: str
    once: int
    more: int

    @property
    def ratio(self) -> float:
        """How many times as much the longer text takes."""
        return self.more / max(self.once, _LEAST)


class Sizes(msgspec.Struct, frozen=True):
    """The characters of the shorter texts: of texts and files, of documents, and of a document that is added.

    A network takes Valgrind a hundred times as long, so that documents are added before, but for shorter ones.
    """

    texts: int
    documents: int
    added: int


def growths(sizes: Sizes) -> Iterator[Growth]:
    """Yield the growth of every step for every text and file."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        reader = load_tiny_reader(folder / "reader")
        for text, make in TEXTS.items():
            for path, length in _libraries(folder, text, sizes.documents).items():
                with _library(path, reader) as library:
                    library.add("a", make(length))
        valgrind = ["valgrind", "--tool=cachegrind", "--cache-sim=no", f"--log-file={folder}/log"]
        count = [*valgrind, f"--cachegrind-out-file={folder}/%p", sys.executable, "-m", __name__]
        single = {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
        arguments = [name, *map(str, msgspec.structs.astuple(sizes))]
        with subprocess.Popen(
            [*count, *arguments], stdout=subprocess.PIPE, text=True, env=os.environ | single
        ) as counting:
            assert counting.stdout is not None
            for line in counting.stdout:
                yield msgspec.json.decode(line, type=Growth)
        assert counting.returncode == 0, "counting instructions failed"


def _libraries(folder: Path, text: str, length: int) -> dict[Path, int]:
    """Where the libraries of a text are, and the characters of their documents."""
    return {folder / f"{text}-{length * times}": length * times for times in (1, 4)}


@contextmanager
def _library(folder: Path, reader: Reader) -> Iterator[Library]:
    with Store.open(folder, map_size=_MAP_BYTES), Library(folder, reader) as library:
        yield library


class Counter:
    """Counts the instructions of work in forks of this process, which runs under Valgrind."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def growth(self, text: str, step: str, short: Callable[[], object], long: Callable[[], object]) -> Growth:
        """The instructions of two pieces of work."""
        before, once, more = map(self._total, (lambda: None, short, long))
        return Growth(text, step, once - before, more - before)

    def _total(self, work: Callable[[], object]) -> int:
        """The instructions of this process until now, and of the work."""
        child = os.fork()
        if child == 0:
            status = 1
            try:
                gc.disable()
                work()
                status = 0
            finally:
                os._exit(status)
        _, status = os.waitpid(child, 0)
        assert status == 0, "the work failed"
        counts = self._folder / str(child)
        with counts.open("rb") as file:
            file.seek(-40, os.SEEK_END)
            total = int(file.read().rsplit(b"summary:", 1)[1])
        counts.unlink()
        return total


def _measure(folder: Path, sizes: Sizes) -> Iterator[Growth]:
    counter, reader = Counter(folder), Reader.load(folder / "reader")
    steps: dict[str, Callable[[str], object]] = {
        "clean": clean,
        "sentences": lambda text: list(sentence_spans(text)),
        "windows": lambda text: WindowedText.of(text, reader.tokenizer),
    }
    # Valgrind translates code when it first runs: here, rather than in every fork.
    _add(reader, TEXTS["one sentence"](1_000))
    for text, make in TEXTS.items():
        short, long = make(sizes.texts), make(4 * sizes.texts)
        for step, work in steps.items():
            yield counter.growth(text, step, partial(work, short), partial(work, long))
        added = (partial(_add, reader, make(times * sizes.added)) for times in (1, 4))
        yield counter.growth(text, "add", *added)
        opened = counter.growth(text, "open", *_uses(folder, text, sizes, reader, lambda _: None))
        for step, use in _LIBRARY_STEPS.items():
            found = counter.growth(text, step, *_uses(folder, text, sizes, reader, use))
            yield Growth(text, step, found.once - opened.once, found.more - opened.more)
    for kind, make_file in MARKUP.items():
        (name, short), (_, long) = make_file(sizes.texts), make_file(4 * sizes.texts)
        yield counter.growth(kind, "read", partial(_read, name, short), partial(_read, name, long))


_LIBRARY_STEPS: dict[str, Callable[[Library], object]] = {
    "ask": lambda library: library.ask("a", QUESTION, top=100),
    "ask all": lambda library: library.ask_all(QUESTION),
    "search": lambda library: library.search(QUESTION),
    "append": lambda library: library.append("a", "Then Bob left."),
}


def _uses(
    folder: Path, text: str, sizes: Sizes, reader: Reader, use: Callable[[Library], object]
) -> list[Callable[[], None]]:
    """The same use of both libraries of a text, each of a copy."""

    def use_copy(path: Path) -> None:
        with tempfile.TemporaryDirectory() as copy:
            shutil.copytree(path, copy, dirs_exist_ok=True)
            with _library(Path(copy), reader) as library:
                use(library)

    return [partial(use_copy, path) for path in _libraries(folder, text, sizes.documents)]


def _add(reader: Reader, text: str) -> None:
    with tempfile.TemporaryDirectory() as folder, _library(Path(folder), reader) as library:
        library.add("a", text)


def _read(name: str, markup: str) -> None:
    for _ in read_here(name, markup.encode()):
        pass


def _main() -> None:
    folder, *sizes = sys.argv[1:]
    torch.set_num_threads(1)
    for growth in _measure(Path(folder), Sizes(*map(int, sizes))):
        print(msgspec.json.encode(growth).decode(), flush=True)


if __name__ == "__main__":
    _main()
