"""Targets: texts, questions, names and titles, into a reader and a library."""

import itertools
import math
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from hypothesis import strategies as st

from attar.errors import AttarError
from attar.library.library import Library
from attar.memory.memory import Memory
from attar.reader.reader import Reader
from benchmarks.fuzz.mutations import texts
from benchmarks.fuzz.target import Target, refused
from benchmarks.tiny_reader import load_tiny_reader

_KEPT = "Then Ann met Bob. Bob left."


@cache
def small_reader() -> Reader:
    """A reader with random weights, which is quick."""
    return load_tiny_reader(Path(tempfile.mkdtemp(prefix="attar-fuzz-")))


@cache
def default_reader() -> Reader:
    """The reader in the package, loaded once for all targets."""
    return Reader.load()


@contextmanager
def text_target(folder: Path) -> Iterator[Target]:
    """Readers: the same text gives the same memory, and answers have probabilities."""
    readers = {"small": small_reader(), "default": default_reader()}

    def check(example: tuple[str, str, str]) -> None:
        kind, text, question = example
        reader = readers[kind]
        with refused():
            memory = reader.read(text)
            if memory != reader.read(text) or Memory.from_bytes(memory.to_bytes()) != memory:
                raise AssertionError("another memory the second time")
            found = [answer.probability for answer in reader.answer(memory, question, top=5)]
            highest = max(found, default=0.0)
            if not (all(map(math.isfinite, found)) and min(found, default=0.0) >= 0 and highest < 1.001):
                raise AssertionError(f"probabilities {found}")
            reader.extend(memory, question)

    yield Target(st.tuples(st.sampled_from(sorted(readers)), texts, texts), check)


@contextmanager
def library_target(folder: Path) -> Iterator[Target]:
    """A library: whatever is taken can be listed, shown, asked, exported and checked."""
    from attar.store.parquet import export_store

    readers = {"small": small_reader(), "default": default_reader()}
    libraries = {kind: Library(folder / kind, reader, keep_text=True) for kind, reader in readers.items()}
    for each in libraries.values():
        each.add("kept", _KEPT)
    export = folder / "library.parquet"

    def check(example: tuple[str, str, str, str, str, str]) -> None:
        kind, name, text, title, question, how = example
        library = libraries[kind]
        with suppress(AttarError), refused():
            if how == "add":
                library.add(name, text, title=title, replace=True)
            elif how == "append":
                library.append("kept", text)
            else:
                library.merge(name, ["kept"], title=title)
            with refused():
                library.ask(name, question)
        with refused():
            library.ask_all(question)
            library.search(question, passages=True)
            library.list_answers(question)
        with refused():
            library.tag("kept", add=[title], remove=[question])
            library.tag("kept", remove=[title])
        with refused():
            _check_passages(library, question)
        if _check_passages(library, _KEPT) != "found":
            raise AssertionError("a quote that is not found")
        with refused():
            library.show(name)
        names = [document.name for document in library.documents()]
        if "kept" not in names or list(library.store.check()):
            raise AssertionError("a library that is not whole")
        if len(library.store.get("kept").text or "") > 20_000:
            library.add("kept", _KEPT, replace=True)
        if export_store(library.store, export) != len(names):
            raise AssertionError("an export of another number of documents")
        for each in itertools.islice((each for each in names if each != "kept"), 20):
            if len(names) > 20:
                library.remove(each)

    small = texts.map(lambda text: text[:200])
    how = st.sampled_from(["add", "add", "append", "merge"])
    kinds = st.sampled_from(sorted(libraries))
    yield Target(st.tuples(kinds, small, texts, small, small, how), check)
    for each in libraries.values():
        each.close()


def _check_passages(library: Library, quote: str) -> str:
    """Look for a quote, whose passages must be what the documents say there; the verdict."""
    verified = library.verify(quote)
    if (verified.verdict == "absent") != (not verified.passages):
        raise AssertionError(f"{verified.verdict}, with {len(verified.passages)} passages")
    for place in verified.passages:
        text = library.text(place.document) or ""
        if text[place.start : place.end] != place.text:
            raise AssertionError(f"a passage that is not in {place.document!r}: {place}")
    return verified.verdict
