"""Library: documents by name, questions in, answers out."""

import contextlib
import difflib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attar.errors import AttarError, ReaderMismatchError, StoreError, UnknownDocumentError
from attar.library.adding import (
    CHANGE_IDS,
    Adder,
    change_ids,
    change_of,
    check_merge,
    merged,
    name_taken,
)
from attar.library.cache import MemoryCache
from attar.library.drafts import Draft, check_string, check_text
from attar.library.places import appended_origin, merged_origin, with_places
from attar.memory import JOINT, Memory
from attar.progress import Progress, tell_nobody
from attar.results import Answer, Change, Document, DocumentDetails
from attar.store import DocumentEntry, Durability, Fault, Store

if TYPE_CHECKING:
    from attar.reader import Reader

# Documents read in one batch and written atomically.
_BATCH = 128
# Bytes of decoded memories: some thousands of documents with sixty names each (k = 128).
_CACHE = 2**28
# Half of float32's bytes; the encoder's state, from which appending continues, stays float32.
_DTYPE = "float16"
# Between a text and the text appended to it, where texts are kept: a paragraph's end.
SEPARATOR = JOINT
# Of a million names not all are compared with an unknown one: the first, and those next to it in order.
_FIRST, _NEIGHBOURS = 10_000, 500
# difflib takes quadratic time in the length.
_COMPARED = 120


class Library:
    """A reader and a store. The reader (an object, a path, or None for the default) is loaded when first needed.

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
        keep_text: bool = True,
        read_only: bool = False,
        create: bool = True,
        cache: int = _CACHE,
    ) -> None:
        """Open a library, or create it; a new one stores memories as float16 unless `dtype` is given."""
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
        """The library's reader: the given one, the shipped one that made the store, or the default.

        One that differs from the store's is refused.
        """
        if self._reader is None:
            from attar.reader import Reader, shipped_reader

            expected = self.store.reader
            path = self._reader_path or (shipped_reader(expected) if expected else None)
            reader = Reader.load(path)
            if expected not in (None, reader.fingerprint):
                remedy = "give that reader's folder (--reader DIR), or make another library"
                what, came = f"library {self.store.path}", f"the reader {reader.fingerprint[:12]}"
                raise ReaderMismatchError(what, f"its reader {str(expected)[:12]}", came, remedy)
            self._reader = reader
        return self._reader

    def add(self, name: str, text: str, *, title: str = "", replace: bool = False) -> Change:
        """Read a document and store its memory.

        The same text again changes nothing; another text under the name needs `replace=True`.
        """
        (change,) = self._adder(replace).add([Draft.of(name, text, title)], _BATCH)
        return change

    def add_many(
        self,
        documents: "Iterable[tuple[str, str] | Draft]",
        *,
        replace: bool = False,
        shared_names: bool = False,
        batch: int = _BATCH,
        on_change: Callable[[Change], None] | None = None,
        on_refused: Callable[[AttarError], None] | None = None,
        progress: Progress = tell_nobody,
    ) -> list[Change]:
        """Add names and texts, `batch` at a time; `on_change` is called for each document once it is on disk.

        A document that is refused ends it, or `on_refused` is called with its error and the others are added.
        `progress` is called with the tokens of a batch that are read. With `shared_names` all documents are read
        under one table of names, so that they can be merged with any mechanism, and are written atomically.
        """
        drafts = (each if isinstance(each, Draft) else Draft.of(*each) for each in documents)
        adder = self._adder(replace, progress, on_refused)
        changes = []
        for change in adder.add_with_shared_names(drafts) if shared_names else adder.add(drafts, batch):
            changes.append(change)
            if on_change is not None:
                on_change(change)
        return changes

    def append(
        self, name: str, text: "str | Draft", *, key: str | None = None, progress: Progress = tell_nobody
    ) -> Change:
        """Continue a document: its memory becomes that of both texts, read as one.

        A `key` names the change: to append the same text with the same key again changes nothing.
        """
        text, parts = (text.text, text.origin.parts) if isinstance(text, Draft) else (text, ())
        check_text(name, text)
        applied = change_ids(key, text)
        with suggesting(self.store, [name]):
            while True:
                before = self.store.get(name)
                if applied and applied[0] in before.entry.applied:
                    return change_of(before.entry, "appended")
                longer = self.reader.extend(before.memory, text, progress=progress)
                whole = None if before.text is None else SEPARATOR.join(filter(None, (before.text, text)))
                # If another process has written the document meanwhile, its version is continued instead.
                with self.store.transaction() as changes:
                    if changes.get(name).entry == before.entry:
                        ids = (*before.entry.applied, *applied)[-CHANGE_IDS:]
                        origin = appended_origin(before, parts, len(SEPARATOR))
                        facts = changes.put(
                            name, longer, title=before.entry.title, text=whole, applied=ids, origin=origin
                        )
                        return change_of(facts, "appended")

    def ask(self, name: str, question: str, *, top: int | None = 5) -> list[Answer]:
        """The `top` most likely answers, most likely first, with quotes if the text is kept; all with `top=None`."""
        return self.ask_many(name, [question], top=top)[0]

    def ask_many(
        self, names: str | Sequence[str], questions: str | Sequence[str], *, top: int | None = 5
    ) -> list[list[Answer]]:
        """The answers to each question from its own document; one name, or one question, is used for all."""
        asked = [names] if isinstance(names, str) else list(names)
        with suggesting(self.store, asked), self.store.snapshot() as now:
            known = {name: self._cache.get(now, name) for name in dict.fromkeys(asked)}
            parts = {name: now.entry(name).parts for name in known}
        if isinstance(names, str):
            asked = [names] * (1 if isinstance(questions, str) else len(questions))
        memories, texts = zip(*(known[name] for name in asked), strict=True) if asked else ((), ())
        answers = self.reader.answer_many(memories, questions, top=top, texts=texts)
        asked = asked if len(asked) == len(answers) else asked * len(answers)
        return [with_places(each, parts[name], name) for each, name in zip(answers, asked, strict=True)]

    def merge(
        self,
        new: str,
        names: Iterable[str],
        *,
        title: str = "",
        replace: bool = False,
        key: str | None = None,
    ) -> Change:
        """Make one document of several, which stay; a merge with the same `key` again changes nothing.

        Memories with one vector per name always merge; others must have been added with `shared_names=True`.
        """
        parts = list(names)
        check_merge(parts)
        check_string("title", title)
        applied = change_ids(key, *parts)
        with suggesting(self.store, parts), self.store.transaction() as changes:
            if new in changes:
                before = changes.get(new).entry
                if applied and applied[0] in before.applied:
                    return change_of(before, "merged")
                if not replace:
                    raise name_taken(new)
            records = [changes.get(name) for name in parts]
            whole = merged(parts, [record.memory for record in records])
            texts = [record.text for record in records]
            # Only phrases have places in the text, which must be those of the joined text.
            keeps = self.keep_text and whole.form == "phrases" and None not in texts
            text = SEPARATOR.join(text for text in texts if text is not None) if keeps else None
            origin = merged_origin(records, len(SEPARATOR))
            facts = changes.put(new, whole, title=title, text=text, applied=applied, origin=origin)
            return change_of(facts, "merged")

    def remove(self, *names: str) -> None:
        """Remove documents: all of them, or none if one does not exist."""
        with suggesting(self.store, names), self.store.transaction() as changes:
            for name in dict.fromkeys(names):
                changes.remove(name)

    def documents(self, *, after: str | None = None, limit: int | None = None) -> Iterator[Document]:
        """Yield documents in the order of names, only those after `after`, at most `limit`."""
        return (Document(**_fields(facts)) for facts in self.store.documents(after=after, limit=limit))

    def show(self, name: str) -> DocumentDetails:
        """One document in full: also its names, and its text if texts are kept."""
        with suggesting(self.store, [name]):
            record = self.store.get(name)
        memory = record.memory
        return DocumentDetails(
            **_fields(record.entry),
            mechanism=memory.mechanism,
            size=memory.size,
            reader=memory.reader,
            names=list(memory.names.names),
            text=record.text,
            names_full=memory.names.is_full,
        )

    def memory(self, name: str) -> Memory:
        """A document's memory."""
        with suggesting(self.store, [name]):
            return self.store.memory(name)

    def __contains__(self, name: str) -> bool:
        return name in self.store

    def __len__(self) -> int:
        return len(self.store)

    def __bool__(self) -> bool:
        return True

    def close(self) -> None:
        """Close the store; everything added is on disk already."""
        self.store.close()

    def __enter__(self) -> "Library":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _adder(
        self,
        replace: bool,
        progress: Progress = tell_nobody,
        on_refused: Callable[[AttarError], None] | None = None,
    ) -> Adder:
        return Adder(self.store, lambda: self.reader, replace, self.keep_text, progress, on_refused)


def open_store(
    path: str | os.PathLike[str],
    reader: str | None,
    *,
    dtype: str | None = None,
    durability: Durability = "sync",
    read_only: bool = False,
    create: bool = True,
    new_dtype: str = _DTYPE,
) -> Store:
    """Open a library's store, or create it; a new one has `new_dtype` unless `dtype` is given."""
    options: dict[str, Any] = {"reader": reader, "durability": durability}
    try:
        return Store.open(path, create=False, read_only=read_only, dtype=dtype, **options)
    except StoreError:
        if read_only or not create:
            raise
        # There is no store, or one that cannot be opened: creating it tells which.
        return Store.open(path, dtype=dtype or new_dtype, **options)


def _fields(facts: DocumentEntry | Fault) -> dict[str, Any]:
    """The fields of a `Document`, from the store's entry."""
    if isinstance(facts, Fault):
        nothing = DocumentEntry(facts.name or "", "", b"", 0, 0, 0, "", "", 0)
        return _fields(nothing) | {"fault": facts.line}
    return {
        "name": facts.name,
        "title": facts.title,
        "tokens": facts.tokens,
        "bytes": facts.memory_bytes,
        "text_bytes": facts.text_bytes,
        "form": facts.form,
        "dtype": facts.dtype,
        "digest": facts.digest.hex() or None,
        "created": datetime.fromtimestamp(facts.created / 1e6, UTC),
        "changed": datetime.fromtimestamp(facts.changed / 1e6, UTC),
        "date": facts.date or None,
    }


@contextlib.contextmanager
def suggesting(store: Store, names: Iterable[str]) -> Iterator[None]:
    """Add similar names to the error for a name that does not exist."""
    try:
        yield
    except UnknownDocumentError:
        for name in names:
            if name not in store:
                raise UnknownDocumentError(name, _similar_names(store, name)) from None
        raise


def _similar_names(store: Store, name: str) -> list[str]:
    """At most three similar names, compared without case, with and without their folders."""
    neighbours = store.documents(after=name[: len(name) // 2] or None, limit=_NEIGHBOURS)
    by_spelling: dict[str, list[str]] = {}
    for other in dict.fromkeys(
        facts.name or "" for facts in chain(store.documents(limit=_FIRST), neighbours)
    ):
        for spelling in {other[:_COMPARED].lower(), other.rpartition("/")[2][:_COMPARED].lower()}:
            by_spelling.setdefault(spelling, []).append(other)
    similar = difflib.get_close_matches(name[:_COMPARED].lower(), by_spelling, n=3, cutoff=0.6)
    return list(dict.fromkeys(other for spelling in similar for other in by_spelling[spelling]))[:3]
