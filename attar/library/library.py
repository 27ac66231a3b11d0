"""Library: documents by name, questions in, answers out."""

import os
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING

from msgspec.structs import asdict, replace

from attar.errors import AttarError, DeviceError, OptionError
from attar.library.adding import Adder, append, merge, read_ahead
from attar.library.asking import ask_all_many
from attar.library.documents import (
    MemoryCache,
    OpenDocument,
    document_of,
    entries_in,
    shown_answers,
    similar_names,
)
from attar.library.drafts import Draft, add_files, file_drafts, follow
from attar.library.rereading import refit, reread
from attar.library.searching import Searching
from attar.library.served import Result, ServedLibrary, check_disk
from attar.library.shard import EachShard, OpenedShard
from attar.memory.memory import Memory
from attar.progress import Progress, ignore_progress
from attar.reader.folders import LibraryReader
from attar.results import (
    Answer,
    Asked,
    Change,
    Document,
    DocumentDetails,
    FolderChanges,
    Refit,
    Reread,
    Subset,
    check_asked,
    check_labels,
)
from attar.store.records import Record
from attar.store.store import Stats, Store

if TYPE_CHECKING:
    from attar.library.bank import DocumentBank
    from attar.reader.folders import GivenReader
    from attar.reader.reader import Reader

# Documents read in one batch and written atomically, on a CPU and on a GPU.
_BATCH = 128
_BATCH_ON_GPU = 8_192
# Bytes of decoded memories: some ten thousand pages.
_CACHE = 2**28


class Library(ServedLibrary):
    """A reader and a store. The reader (an object, a path, or None for the default) is loaded when first needed.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, Library(folder) as library:
    ...     len(library), "emma" in library, list(library.documents())
    (0, False, [])
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        reader: "GivenReader" = None,
        *,
        keep_text: bool = True,
        budget: int | None = None,
        read_only: bool = False,
        create: bool = True,
        cache: int = _CACHE,
        device: str | None = None,
    ) -> None:
        """Open a library, or create it.

        A `budget` caps the bytes of each memory that is added, also when more is appended to its document. On a
        `device` such as "cuda" texts are read many times as fast, with the same phrases but for rounding.
        """
        if budget is not None and (isinstance(budget, bool) or not isinstance(budget, int) or budget < 1):
            raise OptionError.expected("budget", "a number of bytes from 1 up", repr(budget))
        self._reader = LibraryReader(reader, device)
        if create and not os.path.exists(path):
            self._reader.chosen()  # a library is not created for a reader that is not there
        self.store: Store = Store.open(
            path, reader=self._reader.fingerprint, read_only=read_only, create=create
        )
        self.keep_text, self.budget = keep_text, budget
        self._cache_bytes = cache
        self.device = device
        self._bank: DocumentBank | None = None
        self._asks_all_there = True

    def open_bank(self, device: str = "cuda", *, workers: int = 0) -> None:
        """Bring all documents to a device, where from now on questions are answered; needs torch.

        If they do not fit, that is refused, and the CPU goes on answering. As many other processes as `workers` make
        answers of what the device finds, if many are asked together.
        """
        from attar.library.bank import DocumentBank

        self._bank, self.has_bank = DocumentBank(self, device, workers=workers), True

    @property
    def reader(self) -> "Reader":
        """The library's reader: the given one, the shipped one that made the store, or the default.

        One that differs from the store's is refused.
        """
        return self.reader_of(self.store.reader)

    @cached_property
    def searching(self) -> Searching:
        return Searching(self.store, self.reader_of)

    @cached_property
    def _cache(self) -> MemoryCache:
        return MemoryCache(self._cache_bytes)

    def reader_of(self, fingerprint: str | None) -> "Reader":
        return self._reader.get(self.store.path, fingerprint)

    def reread(
        self,
        reader: "GivenReader" = None,
        *,
        progress: Progress = ignore_progress,
    ) -> Reread:
        """Move the library to another reader (None: the default): all kept texts are read again with it.

        Others can ask and add meanwhile; they get the new reader's answers once all documents are read. After an
        interruption, the same call continues. Documents without a kept text are refused.
        """
        new = LibraryReader(reader)
        done = reread(self.store, new.chosen(), progress=progress)
        self._reader = new
        return done

    def add(
        self,
        name: str,
        text: str,
        *,
        title: str = "",
        tags: Sequence[str] | None = None,
        metadata: Mapping[str, str] | None = None,
        replace: bool = False,
    ) -> Change:
        """Read a document and store its memory.

        The same text again changes nothing; another text under the name needs `replace=True`. Without `tags` or
        `metadata`, a document keeps those that it has.
        """
        (change,) = self.add_many([Draft.of(name, text, title, tags, metadata)], replace=replace)
        return change

    def add_many(
        self,
        documents: "Iterable[tuple[str, str] | Draft]",
        *,
        replace: bool = False,
        on_change: Callable[[Change], None] | None = None,
        on_refused: Callable[[AttarError], None] | None = None,
        progress: Progress = ignore_progress,
    ) -> list[Change]:
        """Add names and texts, some at a time; `on_change` is called for each document once it is on disk.

        A refused document ends it, or `on_refused` gets its error and the others are added. `progress` gets the number
        of tokens of a batch that are read.
        """
        batch_size = _BATCH
        drafts: Iterator[Draft] = map(Draft.made, documents)
        if self.device not in (None, "cpu"):
            batch_size = _BATCH_ON_GPU
            drafts = read_ahead(self, drafts, batch_size, progress)
        adder = Adder(self, replace, progress, on_refused, seen={})
        changes = []
        for change in adder.add(drafts, batch_size):
            changes.append(change)
            if on_change is not None:
                on_change(change)
        return changes

    def add_file(
        self,
        file: str | os.PathLike[str] | bytes,
        name: str | None = None,
        *,
        tags: Sequence[str] | None = None,
        replace: bool = False,
        progress: Progress = ignore_progress,
    ) -> list[Change]:
        """Add a file, given as a path or as its bytes and its name; an archive has several documents.

        The name tells the kind of file, and names its document. A file that changed may replace its own document. The
        documents before a refused one are added.
        """
        return self.add_many(file_drafts(file, name, tags), replace=replace, progress=progress)

    def add_folder(
        self,
        folder: str | os.PathLike[str],
        *,
        tags: Sequence[str] | None = None,
        replace: bool = False,
        sync: bool = False,
        on_change: Callable[[Change], None] | None = None,
        on_refused: Callable[[AttarError], None] | None = None,
        progress: Progress = ignore_progress,
    ) -> FolderChanges:
        """Add the files of a folder and below, as `attar add` does: what is known is skipped, what changed is replaced.

        Files that cannot be read are in the result, and the others are added. With `sync`, documents whose files are
        gone are removed. `progress` is called with "bytes" of files, and with tokens.
        """
        from attar.documents.following import find_in_folder

        if tags is not None:
            check_labels(tags, {})
        return add_files(
            lambda: self,
            find_in_folder(folder, allow_empty=sync),
            tags=tags,
            replace=replace,
            sync=sync,
            on_change=on_change,
            on_refused=on_refused,
            progress=progress,
        )

    def watch(
        self,
        folder: str | os.PathLike[str],
        *,
        tags: Sequence[str] | None = None,
        on_change: Callable[[Change], None] | None = None,
        stop: threading.Event | None = None,
    ) -> Iterator[FolderChanges]:
        """Follow a folder: bring the library in line with it, as `add_folder(…, sync=True)` does, then each change.

        Yields what was done, at first and after each change; ends when `stop` is set, or with a break. A folder that is
        gone raises; its documents stay.
        """
        return follow(lambda: self, folder, tags=tags, on_change=on_change, stop=stop)

    def append(
        self, name: str, text: "str | Draft", *, key: str | None = None, progress: Progress = ignore_progress
    ) -> Change:
        draft = text if isinstance(text, Draft) else Draft.of(name, text)
        with self._suggesting([name]):
            return append(self, name, draft, key=key, progress=progress)

    def ask_each(
        self,
        names: Sequence[str],
        questions: Sequence[str],
        *,
        top: int | None = 5,
        look: int | None = None,
    ) -> list[Asked | AttarError]:
        if self._bank is not None:
            try:
                return self._bank.ask_each(names, questions, top=top, look=look)
            except (DeviceError, RuntimeError) as fault:  # it is full, or the device is lost
                self._lose_bank(fault)
        documents: dict[str, OpenDocument] = {}
        results: dict[int, Asked | AttarError] = {}
        asked: dict[int, OpenDocument] = {}
        with self.store.snapshot() as now:
            for at, (name, question) in enumerate(zip(names, questions, strict=True)):
                try:
                    check_asked("question", question)
                    if name not in documents:
                        documents[name] = self._cache.get(now, name)
                    asked[at] = documents[name]
                except AttarError as error:
                    results[at] = error
        opened = list(asked.values())
        reader = self.reader_of(opened[0].memory.reader) if opened else self.reader
        answers = reader.answer_many(
            [document.memory for document in opened],
            [questions[at] for at in asked],
            top=top,
            texts=[document.text for document in opened],
            names=[document.name for document in opened],
            look=look,
        )
        for at, document, ranked in zip(asked, opened, answers, strict=True):
            answered = shown_answers(questions[at], ranked, document)
            results[at] = Asked(answered, document.entry.memory_bytes)
        return [results[at] for at in range(len(names))]

    def ask_all_many(
        self,
        questions: Sequence[str],
        *,
        top: int | None = 5,
        look: int | None = None,
        within: Subset | None = None,
    ) -> list[list[Answer]]:
        if self._bank is not None and self._asks_all_there:
            try:
                return self._bank.ask_all_many(questions, top=top, look=look, within=within)
            except DeviceError as fault:
                self._asks_all_there = False
                warnings.warn(f"questions to all documents are answered by the CPU: {fault}", stacklevel=2)
            except RuntimeError as fault:
                self._lose_bank(fault)
        return ask_all_many(self._ask_shards, questions, top, look, within)

    def _ask_shards(self, ask: Callable[[EachShard], Result]) -> Result:
        with self.opened() as shard:
            return ask(shard.alone)

    def opened(self, progress: Progress = ignore_progress) -> AbstractContextManager[OpenedShard]:
        """One state of the library, for questions to all documents; signatures that are missing are made first."""
        return self.searching.opened(self._cache, progress)

    def defer_signatures(self) -> None:
        self.searching.deferred = True

    def make_signatures(self, *, progress: Progress = ignore_progress) -> None:
        self.searching.make(progress)

    def refit(self, *, leave_out: bool = False, progress: Progress = ignore_progress) -> Refit:
        """Fit the statistics of search to this library's documents, and make their signatures again from the texts.

        Documents without a text are refused, or lost to search with `leave_out`.
        """
        return refit([self], leave_out=leave_out, progress=progress)

    @property
    def left_out(self) -> list[str]:
        """The documents that the last search could not find: without a signature, their texts are not kept."""
        return self.searching.left_out

    def merge(
        self,
        new: str,
        names: Iterable[str | Record],
        *,
        title: str = "",
        replace: bool = False,
        key: str | None = None,
    ) -> Change:
        """Make one document of several, which stay; a merge with the same `key` again changes nothing.

        A record in place of a name is a document of another store of the same reader.
        """
        documents = list(names)
        with self._suggesting(name for name in documents if isinstance(name, str)):
            return merge(self, new, documents, title=title, replace=replace, key=key)

    def remove(self, *names: str) -> None:
        with self._suggesting(names), self.store.transaction() as changes:
            for name in dict.fromkeys(names):
                changes.remove(name)

    def tag(self, *names: str, add: Sequence[str] = (), remove: Sequence[str] = ()) -> None:
        check_labels(add, {})
        check_labels(remove, {})
        with self._suggesting(names), self.store.transaction() as changes:
            for name in dict.fromkeys(names):
                entry = changes.entry(name)
                kept = [tag for tag in entry.tags if tag not in remove]
                tags = tuple(dict.fromkeys((*kept, *add)))
                check_labels(tags, {})
                changes.put_entry(replace(entry, tags=tags))

    def documents(
        self, *, after: str | None = None, limit: int | None = None, within: Subset | None = None
    ) -> Iterator[Document]:
        if not within:
            return map(document_of, self.store.documents(after=after, limit=limit))
        with self.store.snapshot() as now:
            return map(document_of, [*islice(entries_in(now, within, after), limit)])

    def show(self, name: str) -> DocumentDetails:
        with self._suggesting([name]), self.store.snapshot() as now:
            entry = now.entry(name)
            reader, text = now.header.reader, now.text(entry)
        return DocumentDetails(**asdict(document_of(entry)), reader=reader or "", text=text)

    def text(self, name: str) -> str | None:
        """A document's text, if it is kept; that of a document that was just asked is in memory."""
        with self._suggesting([name]), self.store.snapshot() as now:
            return self._cache.get(now, name).text

    def memory(self, name: str) -> Memory:
        with self._suggesting([name]):
            return self.store.get(name).memory

    # What a server needs in addition (`attar.library.served`).

    @property
    def fingerprint(self) -> str:
        return self.reader.fingerprint

    @property
    def default_look(self) -> int:
        return self.reader.look_of(None)

    def prepare(self) -> None:
        self.reader.prepare(texts=not self.store.read_only)

    def similar(self, name: str) -> list[str] | None:
        return None if name in self else similar_names(self.store, name)

    def stats(self) -> Stats:
        return self.store.stats()

    def check_disk(self) -> None:
        check_disk(self.store.path)

    def __contains__(self, name: str) -> bool:
        return name in self.store

    def __len__(self) -> int:
        return len(self.store)

    def __bool__(self) -> bool:
        return True

    def close(self) -> None:
        self._close_bank()
        self.store.close()

    def _lose_bank(self, fault: Exception) -> None:
        self._close_bank()
        warnings.warn(f"questions are answered by the CPU from now on: {fault}", stacklevel=3)

    def _close_bank(self) -> None:
        bank, self._bank, self.has_bank = self._bank, None, False
        if bank is not None:
            bank.close()

    def __enter__(self) -> "Library":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
