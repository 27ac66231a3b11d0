"""The kind `search` of `benchmarks.crash`: a library with the default reader, written, refitted and searched.

The reader is loaded once, before the forks. Each text names its document and the number of the change that wrote it,
so that what a search shows of it tells which version it saw.
"""

import json
import os
import tempfile
from functools import cache, partial
from itertools import count
from pathlib import Path

from attar.library.library import Library
from attar.reader.reader import Reader
from benchmarks.killed import PAIR, Announcer, Change

# Words that documents are told apart by, and queries that they answer.
TOPICS = ("salt mines near Salzburg", "tea from China", "the bridges of Rome", "coffee from Ethiopia")
QUERIES = ("Where is salt mined?", "leaves of tea", "bridges", "Which change wrote it?")
# Scores are in standard deviations; those of texts that are read in other batches are rounded in another way.
_ALIKE = 0.05
# What a search shows: per query, the documents with their scores and first sentences.
Shown = dict[str, list[tuple[str, float, str]]]


@cache
def prepare() -> Reader:
    """Load the default reader, with all that reading a text needs: forks of this process have it."""
    reader = Reader.load()
    reader.read(text_of(TOPICS[0], 0))
    return reader


def text_of(topic: str, number: int) -> str:
    """A document's text."""
    return f"This text is about {topic}. Change {number} wrote it."


def write(folder: Path, start: int, pipe: int) -> None:
    """Add, replace and remove documents, and now and then fit the statistics again, until killed."""
    announce = Announcer(pipe)
    library = Library(folder, prepare())
    for number in count(start):
        if number % 9 == 0 and len(library):
            library.refit()
        changes: list[Change] = [{name: text_of(TOPICS[0], number) for name in PAIR}]
        other = f"other-{number % 5}"
        topic = TOPICS[1 + number % 3]
        changes.append({other: None if other in library else text_of(topic, number)})
        for change in changes:
            announce.change(change, partial(_apply, library, change))


def _apply(library: Library, change: Change) -> None:
    removed = [name for name, text in change.items() if text is None]
    if removed:
        library.remove(*removed)
    else:
        library.add_many([(name, str(text)) for name, text in change.items()], replace=True)


class Searcher:
    """Searches a library that others change; every call is one look, and raises at half a change."""

    def __init__(self, folder: Path) -> None:
        self.library = Library(folder, prepare(), read_only=True)

    def __call__(self) -> Shown:
        """What each query finds."""
        found: Shown = {}
        for query in QUERIES:
            hits = self.library.search(query, top=100)
            texts = {hit.document: " ".join(each.text for each in hit.sentences) for hit in hits}
            if len({texts[name].partition("Change")[2] for name in PAIR if name in texts}) > 1:
                raise AssertionError("a search shows half a change")
            found[query] = [(hit.document, hit.score, texts[hit.document]) for hit in hits]
        return found


def look_once(folder: Path, texts: dict[str, str], pipe: int) -> None:
    """Write to a pipe what an index finds that is made now, and one of a library that is made of the texts."""
    found = Searcher(folder)()
    with Library(folder, prepare(), read_only=True) as library, library.store.snapshot() as now:
        statistics = now.statistics
    with tempfile.TemporaryDirectory() as other:
        with Library(other, prepare()) as made:
            if statistics is not None:
                with made.store.transaction() as changes:
                    changes.put_statistics(statistics)
            made.add_many(texts.items())
        expected = Searcher(Path(other))()
    with os.fdopen(pipe, "w") as out:
        json.dump((found, expected), out)


def check(fresh: Shown, followed: Shown, expected: Shown) -> None:
    """Raise unless an index that followed the store finds what a new one does, and both what the log says."""
    for query in QUERIES:
        if [tuple(each) for each in followed[query]] != [tuple(each) for each in fresh[query]]:
            raise AssertionError(f"{query!r}: a process that searched all the time finds something else")
        own, logged = (
            {name: (score, text) for name, score, text in each[query]} for each in (fresh, expected)
        )
        if own.keys() != logged.keys():
            wrong = sorted(own.keys() ^ logged.keys())[0]
            raise AssertionError(
                f"{query!r}: the documents found differ from the log, such as {wrong[:40]!r}"
            )
        for name, (score, text) in own.items():
            if text != logged[name][1] or abs(score - logged[name][0]) > _ALIKE:
                came = f"{score:.3f}, {text!r}, by the log {logged[name][0]:.3f}, {logged[name][1]!r}"
                raise AssertionError(f"{query!r}: {name[:40]!r} has {came}")
