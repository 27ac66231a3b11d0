"""Adding, appending and merging: known texts are skipped, others are read in batches and written atomically."""

import contextvars
import hashlib
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from itertools import chain
from operator import add
from typing import TYPE_CHECKING, Literal

import msgspec

from attar.errors import AttarError, NameTakenError, OptionError, quoted
from attar.library.drafts import (
    Draft,
    Encoded,
    appended_entry,
    batches,
    check_string,
    encode_texts,
    merged_entry,
)
from attar.memory.algebra import within_budget
from attar.memory.phrases import JOINT
from attar.progress import Progress
from attar.results import Change
from attar.search.signatures import merged_signature
from attar.store.records import DocumentEntry, Record, digest_of
from attar.store.transactions import Transaction

if TYPE_CHECKING:
    from attar.library.library import Library
    from attar.reader.reader import Reader

# Characters that a device reads at a time: enough to keep it busy for about a second.
_AHEAD = 2**22
# The number of last changes whose ids a document remembers: half a kilobyte.
CHANGE_IDS = 32
_DIGEST_BYTES = hashlib.sha256().digest_size
_LONGEST_KEY = 255


@dataclass(frozen=True)
class Adder:
    """Adds documents to a library; the reader is loaded only if there is something to read."""

    library: "Library"
    replace: bool
    progress: Progress
    # Called for a document that is refused, if the others are to be added nevertheless.
    on_refused: Callable[[AttarError], None] | None
    # The digests of the documents that came so far, by name: one source may be added in several calls.
    seen: dict[str, bytes]

    def add(self, drafts: Iterable[Draft], batch_size: int) -> Iterator[Change]:
        """Yield each document's change once it is on disk; the documents before a refused one are added."""
        for batch in batches(drafts, batch_size):
            for outcome in self._add(batch):
                if isinstance(outcome, Change):
                    yield outcome
                elif self.on_refused is None:
                    raise outcome
                else:
                    self.on_refused(outcome)

    def _add(self, batch: Sequence[Draft]) -> list[Change | AttarError]:
        """What becomes of documents that are written together, up to the first refused one if that ends it."""
        outcomes: dict[str, Change | AttarError | None] = {}
        new: list[tuple[Draft, DocumentEntry | None]] = []
        relabelled: list[tuple[Draft, DocumentEntry]] = []
        with self.library.store.snapshot() as now:
            for draft in batch:
                known = now.find(draft.name)
                # A name that came before, in the same file perhaps, is not replaced by another text.
                again = self.seen.setdefault(draft.name, draft.digest) != draft.digest
                outcome = self._compared(draft, known, again)
                if outcome is not None and known is not None and not now.is_intact(known):
                    outcome = None  # a damaged document is repaired by adding it again
                outcomes[draft.name] = outcome
                if outcome is None:
                    new.append((draft, known))
                elif self._ends(outcome):
                    break
                elif known is not None and isinstance(outcome, Change) and known != _labelled(known, draft):
                    relabelled.append((draft, known))
        if relabelled:
            with self.library.store.transaction() as changes:
                for draft, known in relabelled:
                    if changes.find(draft.name) == known:
                        outcomes[draft.name] = _label(changes, draft, known)
                    else:  # another process has written it since
                        new.append((draft, known))
        if new:
            outcomes |= self._write(new)
        return [outcome for outcome in outcomes.values() if outcome is not None]

    def _compared(
        self, draft: Draft, known: DocumentEntry | None, again: bool = False
    ) -> Change | AttarError | None:
        """The outcome for a document that the store has already, or that is refused; None if it is to be written."""
        if known is None:
            return None
        if self._is_done(draft, known):
            return change_of(known, "unchanged")
        source = draft.entry.source
        # A file that changed may replace its own document.
        is_own = bool(source) and source == known.source and not again
        if known.digest == draft.digest or self.replace or is_own:
            return None
        return name_taken(draft.name, source, known)

    def _is_done(self, draft: Draft, known: DocumentEntry) -> bool:
        """Whether there is nothing to read: the same text, kept if it is to be, and the budget if one is given."""
        # It was appended to, and had the text of this file: writing would lose what was appended.
        if not self.replace and draft.entry.source and draft.digest == _appended_to(known):
            return True
        return (
            known.digest == draft.digest
            and self.library.budget in (None, known.budget)
            and (not self.library.keep_text or known.text_bytes is not None)
        )

    def _ends(self, outcome: Change | AttarError) -> bool:
        return self.on_refused is None and not isinstance(outcome, Change)

    def _write(self, new: Sequence[tuple[Draft, DocumentEntry | None]]) -> dict[str, Change | AttarError]:
        """Write documents atomically, each with what the store had under its name when they were compared."""
        outcomes: dict[str, Change | AttarError] = {}
        while True:
            reader = self.library.reader
            encoded = self._encode(reader, [draft for draft, _ in new])
            with self.library.store.transaction() as changes:
                # Otherwise another process has moved the library to another reader: read again, with that.
                if changes.header.reader not in (None, reader.fingerprint):
                    continue
                for (draft, known), result in zip(new, encoded, strict=True):
                    outcome = outcomes[draft.name] = self._put(changes, draft, known, result)
                    if self._ends(outcome):
                        break
                return outcomes

    def _encode(self, reader: "Reader", drafts: Sequence[Draft]) -> list[Encoded | OptionError]:
        """What reading makes of documents; those that another process has read for this library are not read again."""
        projection = self.library.searching.projection(reader)
        statistics = b"" if projection is None else projection.digest
        done = {
            draft.name: draft.encoded
            for draft in drafts
            if draft.encoded is not None
            and (draft.encoded.memory.reader, draft.encoded.statistics) == (reader.fingerprint, statistics)
        }
        new = [draft for draft in drafts if draft.name not in done]
        if new:
            texts = [draft.text for draft in new]
            read = encode_texts(reader, projection, texts, progress=self.progress)
            done |= zip((draft.name for draft in new), read, strict=True)
        return [self._cut(draft, done[draft.name]) for draft in drafts]

    def _cut(self, draft: Draft, encoded: Encoded) -> Encoded | OptionError:
        """The memory within the budget and its bytes, made here: in a transaction, all other writers would wait."""
        budget = self.library.budget or draft.entry.budget
        try:
            memory = within_budget(encoded.memory, budget) if budget else encoded.memory
            memory.to_bytes()
        except OptionError as fault:  # the document is refused, and others are written
            return fault
        return encoded._replace(memory=memory)

    def _put(
        self, changes: Transaction, draft: Draft, known: DocumentEntry | None, encoded: Encoded | OptionError
    ) -> Change | AttarError:
        if isinstance(encoded, OptionError):
            return encoded
        earlier, library = changes.find(draft.name), self.library
        if earlier is not None and earlier != known:  # another process has written it since
            outcome = self._compared(draft, earlier)
            if outcome is not None:
                return _label(changes, draft, earlier) if isinstance(outcome, Change) else outcome
        labels = _labelled(earlier or draft.entry, draft)
        entry = msgspec.structs.replace(
            draft.entry,
            created=labels.created,
            tags=labels.tags,
            metadata=labels.metadata,
            budget=library.budget or draft.entry.budget,
        )
        text = draft.data if library.keep_text else None
        try:
            signature = library.searching.record(changes, encoded, text_kept=library.keep_text)
            record = Record.of(entry, encoded.memory, text=text, signature=signature)
            changes.put(record, reader=encoded.memory.reader, replacing=earlier)
        except OptionError as fault:
            return fault
        return change_of(record.entry, "replaced" if earlier is not None else "added")


def change_of(
    entry: DocumentEntry, change: Literal["added", "replaced", "unchanged", "appended", "merged"]
) -> Change:
    """The result of writing a document."""
    return Change(entry.name, change, entry.tokens, entry.memory_bytes, entry.incomplete)


def _labelled(known: DocumentEntry, draft: Draft) -> DocumentEntry:
    """An entry with the tags, the metadata and the title of a draft, as far as these are given."""
    return msgspec.structs.replace(
        known,
        title=draft.entry.title or known.title,
        tags=known.tags if draft.tags is None else draft.tags,
        metadata=known.metadata if draft.metadata is None else draft.metadata,
    )


def _label(changes: Transaction, draft: Draft, known: DocumentEntry) -> Change | AttarError:
    """Write only what a draft says of a document whose text stays."""
    entry = _labelled(known, draft)
    if entry == known:
        return change_of(known, "unchanged")
    try:
        changes.put_entry(entry)
    except OptionError as fault:
        return fault
    return change_of(entry, "replaced")


def name_taken(name: str, source: str = "", known: DocumentEntry | None = None) -> NameTakenError:
    """The error for another text under a name that exists; one from a file may replace what came from that file."""
    if known is not None and _appended_to(known):
        message = f"document {quoted(name)} was appended to"
        return NameTakenError(message, "--replace (in Python replace=True) would lose what was appended")
    also = ", and is not from this file" if source else ""
    message = f"document {quoted(name)} already exists with a different text{also}"
    return NameTakenError(message, "use --replace (in Python replace=True), or another name")


@contextmanager
def _quick_switches() -> Iterator[None]:
    """Let threads switch more often: one that launches a kernel gives up its turn, and else waits 5 ms for it."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def read_ahead(
    library: "Library", drafts: Iterator[Draft], batch_size: int, progress: Progress
) -> Iterator[Draft]:
    """Yield documents in order, those read that the store does not have; a device reads the next batch meanwhile."""
    first = next(drafts, None)  # without a document no reader is loaded
    if first is None:
        return
    reader = library.reader
    projection = library.searching.projection(reader)

    def read(batch: Sequence[Draft]) -> list[Draft]:
        with library.store.snapshot() as now:
            known = (now.find(draft.name) for draft in batch)
            new = [old is None or old.digest != draft.digest for draft, old in zip(batch, known, strict=True)]
        texts = [draft.text for draft, is_new in zip(batch, new, strict=True) if is_new]
        encoded = iter(encode_texts(reader, projection, texts, progress=progress))
        return [
            draft._replace(encoded=next(encoded)) if is_new else draft
            for draft, is_new in zip(batch, new, strict=True)
        ]

    ahead: Future[list[Draft]] | None = None
    failure: AttarError | None = None
    waiting = batches(chain([first], drafts), batch_size, _AHEAD)
    with _quick_switches(), ThreadPoolExecutor(1, thread_name_prefix="read") as thread:
        while True:
            try:
                batch = next(waiting, None)
            except AttarError as fault:  # of the source: the documents before it are added
                batch, failure = None, fault
            before, ahead = ahead, None
            if batch is not None:
                ahead = thread.submit(contextvars.copy_context().run, read, batch)
            if before is not None:
                yield from before.result()
            if ahead is None:
                break
    if failure is not None:
        raise failure


def append(library: "Library", name: str, draft: Draft, *, key: str | None, progress: Progress) -> Change:
    """Continue a document by a text, with the reader of its memory; once only for a key."""
    store, searching, applied = library.store, library.searching, _change_ids(key, draft.digest)
    while True:
        before = store.get(name)
        if applied and applied[0] in before.entry.applied:
            return change_of(before.entry, "appended")
        reader = library.reader_of(before.memory.reader)
        longer = searching.extend(reader, before, draft.text, progress)
        memory = within_budget(longer.memory, before.entry.budget)
        whole = None if before.text is None else JOINT.join(filter(None, (before.text, draft.text)))
        # If another process has written the document meanwhile, its version is continued instead.
        with store.transaction() as changes:
            if changes.find(name) == before.entry:
                entry = msgspec.structs.replace(
                    appended_entry(before, draft, len(JOINT)), applied=_continued_ids(before.entry, applied)
                )
                signature = searching.record(changes, longer, text_kept=False)
                record = Record.of(entry, memory, text=whole, signature=signature)
                entry = changes.put(record, reader=memory.reader, replacing=before.entry)
                return change_of(entry, "appended")


def merge(
    library: "Library",
    new: str,
    documents: Sequence[str | Record],
    *,
    title: str,
    replace: bool,
    key: str | None,
) -> Change:
    """Make one document of several; records are documents of other stores. Once only for a key."""
    names = [document if isinstance(document, str) else document.name for document in documents]
    if len(names) < 2:
        raise OptionError.expected("merge", "two documents or more", str(len(names)))
    for name in names:
        if names.count(name) > 1:
            raise OptionError(f"document {quoted(name)} cannot be merged with itself", "name it once")
    check_string("title", title)
    applied = _change_ids(key, *map(digest_of, names))
    with library.store.transaction() as changes:
        before = changes.find(new)
        if before is not None:
            if applied and applied[0] in before.applied:
                return change_of(before, "merged")
            if not replace:
                raise name_taken(new)
        records = [changes.get(document) if isinstance(document, str) else document for document in documents]
        memory = within_budget(reduce(add, [record.memory for record in records]), library.budget)
        texts = [record.text for record in records if record.text is not None]
        # To quote from and to read again: places of phrases are those of the joined text.
        text = JOINT.join(texts) if library.keep_text and len(texts) == len(records) else None
        entry = msgspec.structs.replace(
            merged_entry(new, records, len(JOINT)),
            title=title,
            created=0 if before is None else before.created,
            applied=applied,
            budget=library.budget or 0,
        )
        signature = merged_signature([record.signature for record in records])
        record = Record.of(entry, memory, text=text, signature=signature)
        return change_of(changes.put(record, reader=memory.reader, replacing=before), "merged")


def _change_ids(key: str | None, *digests: bytes) -> tuple[bytes, ...]:
    """The id by which a repeated change is recognised, from its key and the digests of its texts; none without a key.

    >>> _change_ids("k", b"text") == _change_ids("k", b"text") != _change_ids("k", b"another")
    True
    """
    if key is None:
        return ()
    check_string("key", key)
    if not (0 < len(key) <= _LONGEST_KEY and key.isascii() and key.isprintable()):
        raise OptionError.expected("key", f"1 to {_LONGEST_KEY} printable ASCII characters", quoted(key))
    return (hashlib.blake2b(b"".join((digest_of(key), *digests)), digest_size=16).digest(),)


def _appended_to(entry: DocumentEntry) -> bytes:
    """The digest of the file's text that a document had before it was appended to; empty if there is none."""
    return next((known for known in entry.applied if len(known) == _DIGEST_BYTES), b"")


def _continued_ids(before: DocumentEntry, new: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """The ids of a document's changes after one more, and before them the digest of its file's text.

    By that digest, which is longer than an id, the file is known when its folder is added again.
    """
    file = before.digest if before.source else _appended_to(before)
    ids = tuple(known for known in before.applied if len(known) != _DIGEST_BYTES)
    return (*((file,) if file else ()), *(*ids, *new)[-CHANGE_IDS:])
