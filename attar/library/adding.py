"""Writing documents: adding, appending and merging.

Known texts are skipped, the others are read in batches; each batch is written atomically.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Literal

from attar.errors import (
    AttarError,
    NameTakenError,
    OptionError,
    quoted,
)
from attar.library.drafts import Draft, Encoded, Pace, batches, check_string, check_text, encode_texts
from attar.library.places import appended_origin, merged_origin
from attar.library.searching import Searching
from attar.memory.budget import within_budget
from attar.memory.memory import Memory
from attar.memory.phrases import JOINT
from attar.progress import Progress, ignore_progress
from attar.results import Change
from attar.store.origin import Parts
from attar.store.records import DocumentEntry, Record, digest_of
from attar.store.store import Store
from attar.store.transactions import Transaction

if TYPE_CHECKING:
    from attar.reader.reader import Reader

# Between a text and the text appended to it, where texts are kept: a paragraph's end.
SEPARATOR = JOINT
# The number of last changes whose ids a document remembers: half a kilobyte.
CHANGE_IDS = 32
_LONGEST_KEY = 255


def _change_of(
    facts: DocumentEntry, change: Literal["added", "replaced", "unchanged", "appended", "merged"]
) -> Change:
    """The result of writing a document."""
    return Change(facts.name, change, facts.tokens, facts.memory_bytes, facts.incomplete)


def _change_ids(key: str | None, *texts: str) -> tuple[bytes, ...]:
    """The id by which a repeated change is recognised, from its key and its texts; none without a key.

    >>> _change_ids("k", "Ann left.") == _change_ids("k", "Ann left.") != _change_ids("k", "Ann came.")
    True
    """
    if key is None:
        return ()
    check_string("key", key)
    if not (0 < len(key) <= _LONGEST_KEY and key.isascii() and key.isprintable()):
        raise OptionError.expected("key", f"1 to {_LONGEST_KEY} printable ASCII characters", quoted(key))
    digests = b"".join(map(digest_of, (key, *texts)))
    return (hashlib.blake2b(digests, digest_size=16).digest(),)


@dataclass(frozen=True)
class Adder:
    """Adds documents to a store; the reader is loaded only if there is something to read."""

    store: Store
    reader: Callable[[], "Reader"]
    replace: bool
    keep_text: bool
    budget: int | None
    searching: Searching
    progress: Progress = ignore_progress
    # Called for a document that is refused, if the others are to be added nevertheless.
    on_refused: Callable[[AttarError], None] | None = None
    # The digests of the documents that came so far, by name; given if one source is added in several calls.
    seen: dict[str, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        budget = self.budget
        if budget is not None and (isinstance(budget, bool) or not isinstance(budget, int) or budget < 1):
            raise OptionError.expected("budget", "a number of bytes from 1 up", repr(budget))

    def add(self, drafts: Iterable[Draft], batch: int) -> Iterator[Change]:
        """Yield each document's change once it is on disk; the documents before a refused one are added."""
        pace = Pace()
        for group in batches(drafts, batch, pace):
            known = self._known(group)
            accepted, refused = [], None
            for draft in group:
                # A name that came before, in the same file perhaps, is not replaced by another text.
                again = self.seen.setdefault(draft.name, draft.digest) != draft.digest
                if not self._refuses(draft, known.get(draft.name), again):
                    accepted.append(draft)
                elif self.on_refused is None:
                    refused = _name_taken(draft.name, draft.origin.source)
                    break
                else:
                    self.on_refused(_name_taken(draft.name, draft.origin.source))
            new = [draft for draft in accepted if not self._is_done(draft, known.get(draft.name))]
            if new:
                self.reader()  # loaded before the time is measured
            with pace.measured(new):
                written, fault = self._write_all(new)
            for draft in accepted:
                if draft.name in written:
                    yield written[draft.name]
                elif draft.name in known and self._is_done(draft, known[draft.name]):
                    yield _change_of(known[draft.name], "unchanged")
                elif self.on_refused is None:
                    break
            if (error := fault or refused) is not None:
                raise error

    def _write_all(self, new: Sequence[Draft]) -> tuple[dict[str, Change], AttarError | None]:
        """Write documents; a refused one is reported and those after it are written, or its error is returned."""
        written: dict[str, Change] = {}
        while new:
            now, fault = self._read_and_write(new)
            written |= now
            if fault is None or self.on_refused is None:
                return written, fault
            self.on_refused(fault)
            new = new[len(now) + 1 :]
        return written, None

    def append(
        self, name: str, text: str, parts: Parts, key: str | None, reader_of: "Callable[[str], Reader]"
    ) -> Change:
        """Continue a document by a text, with the reader of its memory; once only for a key."""
        check_text(name, text)
        applied = _change_ids(key, text)
        while True:
            before = self.store.get(name)
            if applied and applied[0] in before.entry.applied:
                return _change_of(before.entry, "appended")
            reader = reader_of(before.memory.reader)
            longer, sums = self.searching.extend(reader, before, text, self.progress)
            budget = before.entry.budget
            longer = cut_to_budget(longer, budget)
            whole = None if before.text is None else SEPARATOR.join(filter(None, (before.text, text)))
            # If another process has written the document meanwhile, its version is continued instead.
            with self.store.transaction() as changes:
                if changes.find(name) == before.entry:
                    ids = (*before.entry.applied, *applied)[-CHANGE_IDS:]
                    signature = self.searching.record(changes, sums, text_kept=False)
                    record = Record.of(
                        name,
                        longer,
                        title=before.entry.title,
                        text=whole,
                        created=before.entry.created,
                        applied=ids,
                        signature=signature,
                        origin=appended_origin(before, parts, len(SEPARATOR)),
                        budget=budget,
                    )
                    entry = changes.put(record, reader=longer.reader, replacing=before.entry)
                    return _change_of(entry, "appended")

    def merge(self, new: str, given: Sequence[str | Record], title: str, key: str | None) -> Change:
        """Make one document of several; records are documents of other stores."""
        others = {each.name: each for each in given if isinstance(each, Record)}
        parts = [each.name if isinstance(each, Record) else each for each in given]
        _check_merge(parts)
        check_string("title", title)
        applied = _change_ids(key, *parts)
        with self.store.transaction() as changes:
            before = changes.find(new)
            if before is not None:
                if applied and applied[0] in before.applied:
                    return _change_of(before, "merged")
                if not self.replace:
                    raise _name_taken(new)
            records = [others.get(name) or changes.get(name) for name in parts]
            budget = self.budget or 0
            whole = cut_to_budget(reduce(add, [record.memory for record in records]), budget)
            texts = [record.text for record in records]
            # To quote from and to read again: places of phrases are those of the joined text.
            keeps = self.keep_text and None not in texts
            text = SEPARATOR.join(text for text in texts if text is not None) if keeps else None
            record = Record.of(
                new,
                whole,
                title=title,
                text=text,
                created=None if before is None else before.created,
                applied=applied,
                signature=self.searching.merged(records),
                origin=merged_origin(records, len(SEPARATOR)),
                budget=budget,
            )
            return _change_of(changes.put(record, reader=whole.reader, replacing=before), "merged")

    def _encode(self, reader: "Reader", drafts: Sequence[Draft]) -> list[Encoded]:
        """What reading makes of documents; those that another process has read for this library are not read again."""
        signer = self.searching.signer(reader)
        projection = None if signer is None else signer.projection
        expected = reader.fingerprint, b"" if projection is None else projection.digest
        done = {
            at: draft.encoded
            for at, draft in enumerate(drafts)
            if draft.encoded and (draft.encoded.memory.reader, draft.encoded.statistics) == expected
        }
        new = [draft.text for at, draft in enumerate(drafts) if at not in done]
        read = iter(encode_texts(reader, projection, new, progress=self.progress) if new else [])
        whole = [done[at] if at in done else next(read) for at in range(len(drafts))]
        if self.budget is None:
            return whole
        return [each._replace(memory=cut_to_budget(each.memory, self.budget)) for each in whole]

    def _read_and_write(self, drafts: Sequence[Draft]) -> tuple[dict[str, Change], AttarError | None]:
        """Write documents atomically, up to the first that is refused; also return that one's error."""
        while True:
            reader = self.reader()
            encoded = self._encode(reader, drafts)
            written: dict[str, Change] = {}
            with self.store.transaction() as changes:
                # Otherwise another process has moved the library to another reader: read again, with that.
                if changes.header.reader in (None, reader.fingerprint):
                    for draft, own in zip(drafts, encoded, strict=True):
                        try:
                            written[draft.name] = self._put(changes, draft, own)
                        except OptionError as fault:
                            return written, fault
                    return written, None

    def _put(self, changes: Transaction, draft: Draft, encoded: Encoded) -> Change:
        # Another process may have written the document since `_known`.
        earlier = changes.find(draft.name)
        if earlier is not None and self._is_done(draft, earlier) and changes.is_intact(earlier):
            return _change_of(earlier, "unchanged")
        if self._refuses(draft, earlier):
            raise _name_taken(draft.name)
        record = Record.of(
            draft.name,
            encoded.memory,
            title=draft.title,
            text=draft.text if self.keep_text else None,
            digest=draft.digest,
            created=None if earlier is None else earlier.created,
            signature=self.searching.record(changes, encoded.sums, text_kept=self.keep_text),
            origin=draft.origin,
            budget=self.budget or 0,
        )
        entry = changes.put(record, reader=encoded.memory.reader, replacing=earlier)
        return _change_of(entry, "replaced" if earlier is not None else "added")

    def _known(self, group: Sequence[Draft]) -> dict[str, DocumentEntry]:
        with self.store.snapshot() as now:
            entries = [entry for draft in group if (entry := now.find(draft.name)) is not None]
            # A damaged one is repaired by adding it again.
            return {entry.name: entry for entry in entries if now.is_intact(entry)}

    def _is_done(self, draft: Draft, known: DocumentEntry | None) -> bool:
        """Whether there is nothing to write: the same text, kept if it is to be, and the budget if one is given."""
        if known is None or not _is_same(draft, known) or self.budget not in (None, known.budget):
            return False
        return not self.keep_text or known.text_bytes is not None

    def _refuses(self, draft: Draft, known: DocumentEntry | None, again: bool = False) -> bool:
        """Whether a name is taken by another text; a file that changed may replace its own document."""
        if known is None or _is_same(draft, known) or self.replace:
            return False
        return again or not draft.origin.source or draft.origin.source != known.source


def cut_to_budget(memory: Memory, budget: int) -> Memory:
    """The memory within a budget; 0: as it is."""
    return within_budget(memory, budget) if budget else memory


def _check_merge(names: Sequence[str]) -> None:
    """Refuse to merge fewer than two documents, or a document with itself."""
    if len(names) < 2:
        raise OptionError.expected("merge", "two documents or more", str(len(names)))
    for name in names:
        if names.count(name) > 1:
            raise OptionError.expected(
                "merge", "documents that differ", f"{quoted(name)} twice", "name it once"
            )


def _name_taken(name: str, source: str = "") -> NameTakenError:
    """The error for another text under a name that exists; one from a file may replace what came from that file."""
    remedy = "replace it (--replace, in Python replace=True), or give the text another name"
    what = f"document {quoted(name)}"
    came = "another text, and the document is not from this file" if source else "another text"
    return NameTakenError.expected(what, "a new name, or the text that was added", came, remedy)


def _is_same(draft: Draft, facts: DocumentEntry | None) -> bool:
    """Whether the stored document was read from the same text."""
    return facts is not None and facts.digest == draft.digest
