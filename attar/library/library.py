"""Library: documents by name, questions in, answers out."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from attar.errors import OptionError
from attar.library.adding import Adder, Outcome, known_name
from attar.library.cache import MemoryCache
from attar.library.drafts import Draft, check_text
from attar.library.merging import check_parts, merged
from attar.library.opening import open_store
from attar.library.unknown import suggesting
from attar.progress import Progress, tell_nobody
from attar.results import Answer
from attar.store import DocumentEntry, Durability, Record, Store

if TYPE_CHECKING:
    from attar.reader import Reader

# Documents read side by side and written as one change.
BATCH = 128
# Bytes of decoded memories: some thousands of documents with sixty names each (k = 128).
CACHE = 2**28
# What is between a text and the text appended to it, where texts are kept: the end of a paragraph.
BETWEEN = "\n\n"


class Library:
    """A reader and a store. The reader, a path or None for the package's own, is loaded when first needed.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, Library(folder) as library:
    ...     len(library), "emma" in library, list(library.documents())
    (0, False, [])
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        reader: "Reader | str | os.PathLike[str] | None" = None,
        *,
        dtype: str | None = None,
        durability: Durability = "sync",
        keep_text: bool = False,
        read_only: bool = False,
        create: bool = True,
        cache: int = CACHE,
    ) -> None:
        """Open a library, or make it: a new one keeps float16 unless `dtype` says otherwise."""
        self._reader: Reader | None = None
        self._reader_path: Path | None = None
        if reader is None or isinstance(reader, str | os.PathLike):
            self._reader_path = None if reader is None else Path(reader)
        else:
            self._reader = reader
        fingerprint = None if self._reader is None else self._reader.fingerprint
        self.store: Store = open_store(
            path, fingerprint, dtype=dtype, durability=durability, read_only=read_only, create=create
        )
        self.keep_text = keep_text
        self._cache = MemoryCache(cache)

    @property
    def reader(self) -> "Reader":
        """The library's reader; another one than the store's is refused."""
        if self._reader is None:
            from attar.reader import Reader

            found, whose = Reader.load(self._reader_path), self.store.reader
            if whose not in (None, found.fingerprint):
                remedy = "give that reader's folder (--reader DIR), or make another library"
                what, came = f"library {self.store.path}", f"the reader {found.fingerprint[:12]}"
                raise OptionError(what, f"its reader {str(whose)[:12]}", came, remedy)
            self._reader = found
        return self._reader

    def add(self, name: str, text: str, *, title: str = "", replace: bool = False) -> Outcome:
        """Read a document and keep its memory; the same text again changes nothing, another is refused."""
        (outcome,) = self._adder(replace).add([Draft.of(name, text, title)], BATCH)
        return outcome

    def add_many(
        self,
        documents: Iterable[tuple[str, str]],
        *,
        replace: bool = False,
        together: bool = False,
        batch: int = BATCH,
        progress: Callable[[Outcome], None] | None = None,
        reading: Progress = tell_nobody,
    ) -> list[Outcome]:
        """Add names and texts, so many at a time; `progress` hears of each document once it is on the disk.

        `reading` hears how many of the tokens that are read at a time are done.
        Read `together` they share one table of names, can be merged, and are written as one change.
        """
        drafts = (Draft.of(name, text) for name, text in documents)
        adder = self._adder(replace, reading)
        outcomes = []
        for outcome in adder.add_together(drafts) if together else adder.add(drafts, batch):
            outcomes.append(outcome)
            if progress is not None:
                progress(outcome)
        return outcomes

    def append(self, name: str, text: str, *, reading: Progress = tell_nobody) -> Outcome:
        """Read on: the memory is, in the store's numbers, what it had been with the text there from the start."""
        check_text(name, text)
        with suggesting(self.store, [name]):
            while True:
                before = self.store.get(name)
                longer = self.reader.extend(before.memory, text, progress=reading)
                whole = None if before.text is None else before.text + BETWEEN + text
                # Reading takes its time, and others may write meanwhile; then it is read on from theirs.
                with self.store.transaction() as changes:
                    if changes.get(name).entry == before.entry:
                        facts = changes.put(name, longer, title=before.entry.title, text=whole)
                        return Outcome(name, "appended", facts.tokens, facts.memory_bytes)

    def ask(self, name: str, question: str, *, top: int | None = 5) -> list[Answer]:
        """The document's names that may be the answer, likeliest first."""
        return self.ask_many(name, [question], top=top)[0]

    def ask_many(
        self, names: str | Sequence[str], questions: str | Sequence[str], *, top: int | None = 5
    ) -> list[list[Answer]]:
        """The answers to each question from its own document; one name, or one question, stands for all."""
        wanted = [names] if isinstance(names, str) else list(names)
        with suggesting(self.store, wanted), self.store.snapshot() as now:
            memories = {name: self._cache.memory(now, name) for name in dict.fromkeys(wanted)}
        about = memories[names] if isinstance(names, str) else [memories[name] for name in wanted]
        return self.reader.answer_many(about, questions, top=top)

    def merge(self, new: str, names: Iterable[str], *, title: str = "", replace: bool = False) -> Outcome:
        """Make one document of several, which stay; vectors by name merge by name, others if read together."""
        parts = list(names)
        check_parts(parts)
        with suggesting(self.store, parts), self.store.transaction() as changes:
            if new in changes and not replace:
                raise known_name(new)
            whole = merged(parts, [changes.get(name).memory for name in parts])
            facts = changes.put(new, whole, title=title)
        return Outcome(new, "merged", facts.tokens, facts.memory_bytes)

    def remove(self, *names: str) -> None:
        """Take documents out: all of them, or none if one is not there."""
        with suggesting(self.store, names), self.store.transaction() as changes:
            for name in dict.fromkeys(names):
                changes.remove(name)

    def documents(self, *, after: str | None = None, limit: int | None = None) -> Iterator[DocumentEntry]:
        """Yield documents' facts in the order of names, those behind `after`, `limit` at most."""
        return self.store.documents(after=after, limit=limit)

    def show(self, name: str) -> Record:
        """All that is kept of a document: facts, memory, and its text if texts are kept."""
        with suggesting(self.store, [name]):
            return self.store.get(name)

    def __contains__(self, name: str) -> bool:
        return name in self.store

    def __len__(self) -> int:
        return len(self.store)

    def __bool__(self) -> bool:
        return True

    def close(self) -> None:
        """Let go of the store; what was added is on the disk already."""
        self.store.close()

    def __enter__(self) -> "Library":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _adder(self, replace: bool, reading: Progress = tell_nobody) -> Adder:
        return Adder(self.store, lambda: self.reader, replace, self.keep_text, reading)
