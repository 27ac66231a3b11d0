"""Library: documents by name, questions in, answers out."""

import os
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from itertools import chain, islice
from typing import TYPE_CHECKING

from msgspec.structs import asdict

from attar.errors import AttarError, DeviceError
from attar.library.adding import Adder, append, check_budget, merge
from attar.library.asking import TOGETHER, ask_all, list_answers, search, verify
from attar.library.copies import distinct_places
from attar.library.documents import (
    MemoryCache,
    OpenDocument,
    document_of,
    entries_in,
    similar_names,
    suggesting,
    whole_sentence,
    with_places,
)
from attar.library.drafts import Draft, add_files, file_drafts, follow
from attar.library.rereading import refit, reread
from attar.library.searching import Searching, SearchState
from attar.library.served import check_disk
from attar.library.shard import OpenedShard
from attar.memory.memory import Memory
from attar.progress import Progress, ignore_progress
from attar.reader.folders import LibraryReader
from attar.results import (
    Answer,
    AnswerGroup,
    Asked,
    Change,
    Document,
    DocumentDetails,
    FolderChanges,
    Hit,
    Refit,
    Reread,
    Subset,
    Verified,
    check_asked,
    check_labels,
    paired,
)
from attar.store.lmdb_env import Durability
from attar.store.maintenance import Stats
from attar.store.records import Record
from attar.store.store import Store
from attar.text.kinds import is_yes_no

if TYPE_CHECKING:
    from attar.library.bank import DocumentBank
    from attar.reader.folders import GivenReader
    from attar.reader.reader import Reader
    from attar.search.statistics import Projection

# Documents read in one batch and written atomically, on a CPU and on a GPU.
_BATCH = 128
_BATCH_ON_GPU = 8_192
# Bytes of decoded memories: some ten thousand pages.
_CACHE = 2**28


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
        reader: "GivenReader" = None,
        *,
        durability: Durability = "sync",
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
        if budget is not None:
            check_budget(budget)
        self._reader = LibraryReader(reader, device)
        if create and not os.path.exists(path):
            self._reader.folder()  # a library is not created for a reader that is not there
        self.store: Store = Store.open(
            path,
            reader=self._reader.fingerprint,
            durability=durability,
            read_only=read_only,
            create=create,
        )
        self.keep_text, self.budget = keep_text, budget
        self._cache = MemoryCache(cache)
        self._device = device
        self._bank: DocumentBank | None = None

    def open_bank(self, device: str = "cuda", *, workers: int = 0) -> "DocumentBank":
        """Bring all documents to a device, where from now on questions to one document are answered; needs torch.

        If they do not fit, that is refused, and the CPU goes on answering. `workers`: see `attar.DocumentBank`.
        """
        from attar.library.bank import DocumentBank

        self._bank = DocumentBank(self, device, workers=workers)
        return self._bank

    @property
    def reader(self) -> "Reader":
        """The library's reader: the given one, the shipped one that made the store, or the default.

        One that differs from the store's is refused.
        """
        return self._reader_of(self.store.reader)

    @cached_property
    def _searching(self) -> Searching:
        return Searching(self.store, self._cache, self._reader_of)

    def _reader_of(self, fingerprint: str | None) -> "Reader":
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

    @property
    def projection(self) -> "Projection | None":
        """What signatures are made with, for processes that read texts for this library; None without statistics."""
        signer = self._searching.signer(self.reader)
        return None if signer is None else signer.projection

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
        batch_size: int | None = None,
        on_change: Callable[[Change], None] | None = None,
        on_refused: Callable[[AttarError], None] | None = None,
        progress: Progress = ignore_progress,
        seen: dict[str, bytes] | None = None,
    ) -> list[Change]:
        """Add names and texts, `batch_size` at a time; `on_change` is called for each document once it is on disk.

        A refused document ends it, or `on_refused` gets its error and the others are added. `progress` gets the number
        of tokens of a batch that are read. Calls that share `seen` refuse a name that one of them had before.
        """
        drafts: Iterator[Draft] = (
            document if isinstance(document, Draft) else Draft.of(*document) for document in documents
        )
        adder = Adder(
            store=self.store,
            reader=lambda: self.reader,
            searching=self._searching,
            keep_text=self.keep_text,
            budget=self.budget,
            replace=replace,
            progress=progress,
            on_refused=on_refused,
            seen={} if seen is None else seen,
        )
        changes = []
        on_gpu = self._device not in (None, "cpu")
        if batch_size is None:
            batch_size = _BATCH_ON_GPU if on_gpu else _BATCH
        if on_gpu:
            drafts = self._read_ahead(drafts, batch_size, progress)
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

    def _read_ahead(self, drafts: Iterator[Draft], batch_size: int, progress: Progress) -> Iterator[Draft]:
        from attar.library.fast_adding import read_ahead

        first = next(drafts, None)  # without a document no reader is loaded
        if first is not None:
            rest = chain([first], drafts)
            ready = self.reader, self.projection
            yield from read_ahead(rest, self.store, *ready, batch_size, progress)

    def append(
        self, name: str, text: "str | Draft", *, key: str | None = None, progress: Progress = ignore_progress
    ) -> Change:
        """Continue a document: its memory becomes that of both texts, read as one.

        A `key` names the change: to append the same text with the same key again changes nothing.
        """
        draft = text._replace(name=name) if isinstance(text, Draft) else Draft.of(name, text)
        with suggesting(self.store, [name]):
            return append(self.store, self._searching, self._reader_of, draft, key=key, progress=progress)

    def ask(self, name: str, question: str, *, top: int | None = 5, look: int | None = None) -> list[Answer]:
        """The `top` most likely answers, most likely first, with quotes if the text is kept; all with `top=None`.

        If it is, the best `look` sentences are read again with the question: 0 to 5, by default 3.
        """
        return self.ask_many(name, [question], top=top, look=look)[0]

    def ask_many(
        self,
        names: str | Sequence[str],
        questions: str | Sequence[str],
        *,
        top: int | None = 5,
        look: int | None = None,
    ) -> list[list[Answer]]:
        """The answers to each question from its own document; one name, or one question, is used for all."""
        about, asked = paired(names, questions)
        results = self.ask_each(about, asked, top=top, look=look)
        with suggesting(self.store, about):
            for result in results:
                if isinstance(result, AttarError):
                    raise result
        return [result.answers for result in results if isinstance(result, Asked)]

    def ask_each(
        self,
        names: Sequence[str],
        questions: Sequence[str],
        *,
        top: int | None = 5,
        look: int | None = None,
    ) -> list[Asked | AttarError]:
        """The answers to each question from its own document, or the error of this question alone.

        For servers, which ask the questions of many clients together; similar names are not looked for.
        """
        if self._bank is not None:
            try:
                return self._bank.ask_each(names, questions, top=top, look=look)
            except (DeviceError, RuntimeError) as fault:  # it is full, or the device is lost
                self._close_bank()
                warnings.warn(f"questions are answered by the CPU from now on: {fault}", stacklevel=2)
        documents: dict[str, OpenDocument] = {}
        results: list[Asked | AttarError | None] = []
        with self.store.snapshot() as now:
            for name, question in zip(names, questions, strict=True):
                try:
                    check_asked("question", question)
                    if name not in documents:
                        documents[name] = self._cache.get(now, name)
                    results.append(None)
                except AttarError as error:
                    results.append(error)
        asked = [at for at, result in enumerate(results) if result is None]
        opened = [documents[names[at]] for at in asked]
        memories, texts = [document.memory for document in opened], [document.text for document in opened]
        reader = self._reader_of(memories[0].reader) if memories else self.reader
        answers = reader.answer_many(
            memories, [questions[at] for at in asked], top=top, texts=texts, look=look
        )
        for at, document, ranked in zip(asked, opened, answers, strict=True):
            if is_yes_no(questions[at]):
                ranked = distinct_places([whole_sentence(answer, document.text) for answer in ranked])
            results[at] = Asked(with_places(ranked, document.parts), document.entry.memory_bytes)
        return [result for result in results if result is not None]

    def ask_all(
        self,
        question: str,
        *,
        top: int | None = 5,
        look: int | None = None,
        within: Subset | None = None,
    ) -> list[Answer]:
        """The most likely answers from all documents, each with its document; the kind "none": not in this library.

        Search finds documents, their phrases answer. Probabilities are over the phrases of all found documents. With
        `within`, only the documents of a subset are asked.
        """
        return self.ask_all_many([question], top=top, look=look, within=within)[0]

    def ask_all_many(
        self,
        questions: Sequence[str],
        *,
        top: int | None = 5,
        look: int | None = None,
        within: Subset | None = None,
    ) -> list[list[Answer]]:
        """The answers to each question from all documents, as `ask_all` gives them; many are compared together."""
        answers: list[list[Answer]] = []
        for first in range(0, len(questions), TOGETHER):
            with self.opened() as shard:
                answers += ask_all(shard.alone, questions[first : first + TOGETHER], top, look, within)
        return answers

    def list_answers(
        self,
        question: str,
        *,
        top: int | None = None,
        look: int | None = None,
        within: Subset | None = None,
    ) -> list[AnswerGroup]:
        """All places that answer a question about as likely as the best one, grouped by answer, the likeliest first.

        For questions with several answers, and for how many documents say one. The thirty documents that fit best are
        looked through; `top` is the number of groups. Empty if the answer is not in this library.
        """
        with self.opened() as shard:
            return list_answers(shard.alone, question, top, look, within)

    def search(
        self, query: str, *, top: int = 10, within: Subset | None = None, passages: bool = False
    ) -> list[Hit]:
        """The documents that fit a query best, best first, each with its sentences that fit best.

        With `passages`, also with the paragraphs around these: enough for a language model to answer from.
        """
        with self.opened() as shard:
            return search(shard.alone, query, top, within, passages)

    def verify(self, quote: str, *, within: Subset | None = None) -> Verified:
        """Whether a document says a sentence, word for word or with a few words changed, and where.

        Case, punctuation, spaces and the kind of quotation marks do not count; one word in four may differ. The texts
        of the twenty documents that fit best are compared.
        """
        with self.opened() as shard:
            return verify(shard.alone, quote, within)

    def opened(self, progress: Progress = ignore_progress) -> AbstractContextManager[OpenedShard]:
        """One state of the library, for questions to all documents; signatures that are missing are made first."""
        return self._searching.opened(progress)

    def load_signatures(self) -> None:
        """Load the signatures of all documents into memory, so that the first search does not wait for them."""
        self._searching.load()

    def make_signatures(self, *, progress: Progress = ignore_progress) -> None:
        """Make the signatures that are missing, from texts; searching and asking all do it when they need them."""
        self._searching.make(progress)

    def defer_signatures(self) -> None:
        """Let searches not wait for missing signatures: until `make_signatures`, words find their documents."""
        self._searching.deferred = True

    def refit(self, *, leave_out: bool = False, progress: Progress = ignore_progress) -> Refit:
        """Fit the statistics of search to this library's documents, and make their signatures again from the texts.

        Documents without a text are refused, or lost to search with `leave_out`.
        """
        return refit([self.store], self.reader, leave_out=leave_out, progress=progress)

    @property
    def search_state(self) -> SearchState:
        return self._searching.state()

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
        with suggesting(self.store, [name for name in documents if isinstance(name, str)]):
            return merge(
                self.store,
                self._searching,
                new,
                documents,
                title=title,
                replace=replace,
                keep_text=self.keep_text,
                budget=self.budget or 0,
                key=key,
            )

    def remove(self, *names: str) -> None:
        """Remove documents: all of them, or none if one does not exist."""
        with suggesting(self.store, names), self.store.transaction() as changes:
            for name in dict.fromkeys(names):
                changes.remove(name)

    def tag(self, *names: str, add: Sequence[str] = (), remove: Sequence[str] = ()) -> None:
        """Add tags to documents, and take others away: of all of them, or of none if one does not exist."""
        check_labels(add, {})
        check_labels(remove, {})
        with suggesting(self.store, names), self.store.transaction() as changes:
            for name in dict.fromkeys(names):
                entry = changes.entry(name)
                kept = [tag for tag in entry.tags if tag not in remove]
                tags = tuple(dict.fromkeys((*kept, *add)))
                check_labels(tags, {})
                changes.put_tags(entry, tags)

    def documents(
        self, *, after: str | None = None, limit: int | None = None, within: Subset | None = None
    ) -> Iterator[Document]:
        """Yield documents in the order of names, only those after `after`, at most `limit`, all or of a subset."""
        if not within:
            return map(document_of, self.store.documents(after=after, limit=limit))
        with self.store.snapshot() as now:
            return map(document_of, [*islice(entries_in(now, within, after), limit)])

    def show(self, name: str) -> DocumentDetails:
        """One document in full, with its text if it is kept."""
        with suggesting(self.store, [name]), self.store.snapshot() as now:
            entry = now.entry(name)
            reader, text = now.header.reader, now.text(entry)
        return DocumentDetails(**asdict(document_of(entry)), reader=reader or "", text=text)

    def text(self, name: str) -> str | None:
        """A document's text, if it is kept; that of a document that was just asked is in memory."""
        with suggesting(self.store, [name]), self.store.snapshot() as now:
            return self._cache.get(now, name).text

    def memory(self, name: str) -> Memory:
        with suggesting(self.store, [name]):
            return self.store.get(name).memory

    # What a server needs in addition (`attar.library.served`).

    @property
    def fingerprint(self) -> str:
        return self.reader.fingerprint

    @property
    def default_look(self) -> int:
        """How many sentences a question reads again unless it says so; 0 if the reader has no second look."""
        return self.reader.look_of(None)

    def prepare(self) -> None:
        """Load what the first question would wait for; torch, to read texts, unless the library is read-only."""
        self.reader.prepare(texts=not self.store.read_only)

    def similar(self, name: str) -> list[str] | None:
        """Names like one that no document has; None if there is a document of that name."""
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
        """Close the store; everything added is on disk already."""
        self._close_bank()
        self.store.close()

    def _close_bank(self) -> None:
        bank, self._bank = self._bank, None
        if bank is not None:
            bank.close()

    def __enter__(self) -> "Library":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
