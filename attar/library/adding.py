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
from typing import TYPE_CHECKING, Literal, NamedTuple

from attar.errors import AttarError, NameTakenError, OptionError, quoted
from attar.library.drafts import (
    Draft,
    Encoded,
    appended_origin,
    batches,
    check_string,
    encode_texts,
    merged_origin,
)
from attar.memory.algebra import within_budget
from attar.memory.memory import Memory
from attar.memory.phrases import JOINT
from attar.progress import Progress
from attar.results import Change
from attar.search.signatures import merged_signature
from attar.store.records import DocumentEntry, Origin, Record, digest_of
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


class _Pending(NamedTuple):
    """A document to add, what the store had under its name, and whether that is the same already."""

    draft: Draft
    known: DocumentEntry | None
    is_done: bool


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
            accepted, refused = self._compare(batch)
            new = [document for document in accepted if not document.is_done]
            changes: dict[str, Change] = {}
            if new:
                changes, refused_late = self._write(new)
                refused = [*refused_late, *refused]
            if self.on_refused is not None:
                for error in refused:
                    self.on_refused(error)
            for draft, known, is_done in accepted:
                if is_done and known is not None:
                    yield change_of(known, "unchanged")
                elif draft.name in changes:
                    yield changes[draft.name]
                elif self.on_refused is None:
                    break
            if refused and self.on_refused is None:
                raise refused[0]

    def _compare(self, batch: Sequence[Draft]) -> tuple[list[_Pending], list[AttarError]]:
        """Compare documents with the store; also the errors of those that are refused: without `on_refused`, one."""
        accepted: list[_Pending] = []
        refused: list[AttarError] = []
        with self.library.store.snapshot() as now:
            for draft in batch:
                known = now.find(draft.name)
                # A name that came before, in the same file perhaps, is not replaced by another text.
                again = self.seen.setdefault(draft.name, draft.digest) != draft.digest
                is_done = self._is_done(draft, known)
                is_refused = not is_done and self._refuses(draft, known, again)
                if known is not None and (is_done or is_refused) and not now.is_intact(known):
                    is_done = is_refused = False  # a damaged document is repaired by adding it again
                if not is_refused:
                    accepted.append(_Pending(draft, known, is_done))
                    continue
                refused.append(name_taken(draft.name, draft.origin.source, known))
                if self.on_refused is None:
                    break
        return accepted, refused

    def _write(self, new: Sequence[_Pending]) -> tuple[dict[str, Change], list[AttarError]]:
        """Write documents atomically; also the errors of those that are refused: without `on_refused`, one."""
        drafts = [document.draft for document in new]
        while True:
            reader = self.library.reader
            encoded = self._encode(reader, drafts)
            with self.library.store.transaction() as changes:
                # Otherwise another process has moved the library to another reader: read again, with that.
                if changes.header.reader in (None, reader.fingerprint):
                    return self._put_all(changes, new, encoded)

    def _put_all(
        self, changes: Transaction, new: Sequence[_Pending], encoded: Sequence[Encoded]
    ) -> tuple[dict[str, Change], list[AttarError]]:
        written: dict[str, Change] = {}
        refused: list[AttarError] = []
        for document, result in zip(new, encoded, strict=True):
            try:
                written[document.draft.name] = self._put(changes, document, result)
            except OptionError as fault:
                refused.append(fault)
                if self.on_refused is None:
                    break
        return written, refused

    def _encode(self, reader: "Reader", drafts: Sequence[Draft]) -> list[Encoded]:
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
        results = [done[draft.name] for draft in drafts]
        if self.library.budget is None:
            return results
        return [
            result._replace(memory=cut_to_budget(result.memory, self.library.budget)) for result in results
        ]

    def _put(self, changes: Transaction, document: _Pending, encoded: Encoded) -> Change:
        draft, earlier = document.draft, changes.find(document.draft.name)
        if earlier != document.known:  # another process has written it since
            if earlier is not None and self._is_done(draft, earlier):
                return change_of(earlier, "unchanged")
            if self._refuses(draft, earlier):
                raise name_taken(draft.name, known=earlier)
        record = Record.of(
            draft.name,
            encoded.memory,
            title=draft.title,
            text=draft.data if self.library.keep_text else None,
            digest=draft.digest,
            created=None if earlier is None else earlier.created,
            signature=self.library.searching.record(changes, encoded.sums, text_kept=self.library.keep_text),
            origin=_with_labels(draft.origin, earlier),
            budget=self.library.budget or 0,
        )
        entry = changes.put(record, reader=encoded.memory.reader, replacing=earlier)
        return change_of(entry, "replaced" if earlier is not None else "added")

    def _is_done(self, draft: Draft, known: DocumentEntry | None) -> bool:
        """Whether there is nothing to write: the same text, kept if it is to be, and the budget if one is given."""
        if known is not None and self._holds_file(draft, known):
            return True
        if known is None or known.digest != draft.digest or self.library.budget not in (None, known.budget):
            return False
        if draft.origin.tags not in (None, known.tags) or draft.origin.metadata not in (None, known.metadata):
            return False
        return not self.library.keep_text or known.text_bytes is not None

    def _refuses(self, draft: Draft, known: DocumentEntry | None, again: bool = False) -> bool:
        """Whether a name is taken by another text; a file that changed may replace its own document."""
        if known is None or known.digest == draft.digest or self.replace:
            return False
        return again or not draft.origin.source or draft.origin.source != known.source

    def _holds_file(self, draft: Draft, known: DocumentEntry) -> bool:
        """Whether a document was appended to that had the text of this file: writing would lose what was appended."""
        return not self.replace and bool(draft.origin.source) and draft.digest == _appended_to(known)


def _with_labels(origin: Origin, earlier: DocumentEntry | None) -> Origin:
    """An origin whose tags and metadata are those of the version before, where none are given."""
    if earlier is None:
        return origin
    return origin._replace(
        tags=earlier.tags if origin.tags is None else origin.tags,
        metadata=earlier.metadata if origin.metadata is None else origin.metadata,
    )


def change_of(
    entry: DocumentEntry, change: Literal["added", "replaced", "unchanged", "appended", "merged"]
) -> Change:
    """The result of writing a document."""
    return Change(entry.name, change, entry.tokens, entry.memory_bytes, entry.incomplete)


def check_budget(budget: object) -> None:
    """Refuse what is no number of bytes."""
    if isinstance(budget, bool) or not isinstance(budget, int) or budget < 1:
        raise OptionError.expected("budget", "a number of bytes from 1 up", repr(budget))


def cut_to_budget(memory: Memory, budget: int) -> Memory:
    """The memory within a budget; 0: as it is."""
    return within_budget(memory, budget) if budget else memory


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
    reader, projection = library.reader, library.projection

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
        while ahead is not None or failure is None:
            before, ahead = ahead, None
            try:
                batch = next(waiting, None) if failure is None else None
            except AttarError as fault:  # of the source: the documents before it are added
                batch, failure = None, fault
            if batch is not None:
                ahead = thread.submit(contextvars.copy_context().run, read, batch)
            if before is not None:
                yield from before.result()
            if batch is None:
                break
    if failure is not None:
        raise failure


def append(library: "Library", draft: Draft, *, key: str | None, progress: Progress) -> Change:
    """Continue a document by a text, with the reader of its memory; once only for a key."""
    store, searching = library.store, library.searching
    name, applied = draft.name, _change_ids(key, draft.digest)
    while True:
        before = store.get(name)
        if applied and applied[0] in before.entry.applied:
            return change_of(before.entry, "appended")
        reader = library.reader_of(before.memory.reader)
        longer, sums = searching.extend(reader, before, draft.text, progress)
        longer = cut_to_budget(longer, before.entry.budget)
        whole = None if before.text is None else JOINT.join(filter(None, (before.text, draft.text)))
        # If another process has written the document meanwhile, its version is continued instead.
        with store.transaction() as changes:
            if changes.find(name) == before.entry:
                record = Record.of(
                    name,
                    longer,
                    title=before.entry.title,
                    text=whole,
                    created=before.entry.created,
                    applied=_continued_ids(before.entry, applied),
                    signature=searching.record(changes, sums, text_kept=False),
                    origin=appended_origin(before, draft.origin.parts, len(JOINT)),
                    budget=before.entry.budget,
                )
                entry = changes.put(record, reader=longer.reader, replacing=before.entry)
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
    _check_merge(names)
    check_string("title", title)
    applied = _change_ids(key, *map(digest_of, names))
    budget = library.budget or 0
    with library.store.transaction() as changes:
        before = changes.find(new)
        if before is not None:
            if applied and applied[0] in before.applied:
                return change_of(before, "merged")
            if not replace:
                raise name_taken(new)
        records = [changes.get(document) if isinstance(document, str) else document for document in documents]
        memory = cut_to_budget(reduce(add, [record.memory for record in records]), budget)
        texts = [record.text for record in records if record.text is not None]
        # To quote from and to read again: places of phrases are those of the joined text.
        text = JOINT.join(texts) if library.keep_text and len(texts) == len(records) else None
        record = Record.of(
            new,
            memory,
            title=title,
            text=text,
            created=None if before is None else before.created,
            applied=applied,
            signature=merged_signature([record.signature for record in records]),
            origin=merged_origin(records, len(JOINT)),
            budget=budget,
        )
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


def _check_merge(names: Sequence[str]) -> None:
    """Refuse to merge fewer than two documents, or a document with itself."""
    if len(names) < 2:
        raise OptionError.expected("merge", "two documents or more", str(len(names)))
    for name in names:
        if names.count(name) > 1:
            raise OptionError(f"document {quoted(name)} cannot be merged with itself", "name it once")
