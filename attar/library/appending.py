"""Documents that grow out of others: one continued by a text, and one made of several."""

import hashlib
from collections.abc import Callable, Sequence
from functools import reduce
from operator import add
from typing import TYPE_CHECKING

from attar.errors import OptionError, quoted
from attar.library.adding import change_of, cut_to_budget, name_taken
from attar.library.drafts import Draft, check_string
from attar.library.places import appended_origin, merged_origin
from attar.library.searching import Searching
from attar.memory.phrases import JOINT
from attar.progress import Progress
from attar.results import Change
from attar.store.records import Record, digest_of
from attar.store.store import Store

if TYPE_CHECKING:
    from attar.reader.reader import Reader

# The number of last changes whose ids a document remembers: half a kilobyte.
CHANGE_IDS = 32
_LONGEST_KEY = 255


def append(
    store: Store,
    searching: Searching,
    reader_of: "Callable[[str], Reader]",
    draft: Draft,
    *,
    key: str | None,
    progress: Progress,
) -> Change:
    """Continue a document by a text, with the reader of its memory; once only for a key."""
    name, applied = draft.name, _change_ids(key, draft.digest)
    while True:
        before = store.get(name)
        if applied and applied[0] in before.entry.applied:
            return change_of(before.entry, "appended")
        reader = reader_of(before.memory.reader)
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
                    applied=(*before.entry.applied, *applied)[-CHANGE_IDS:],
                    signature=searching.record(changes, sums, text_kept=False),
                    origin=appended_origin(before, draft.origin.parts, len(JOINT)),
                    budget=before.entry.budget,
                )
                entry = changes.put(record, reader=longer.reader, replacing=before.entry)
                return change_of(entry, "appended")


def merge(
    store: Store,
    searching: Searching,
    new: str,
    documents: Sequence[str | Record],
    *,
    title: str,
    replace: bool,
    keep_text: bool,
    budget: int,
    key: str | None,
) -> Change:
    """Make one document of several; records are documents of other stores. Once only for a key."""
    names = [document if isinstance(document, str) else document.name for document in documents]
    _check_merge(names)
    check_string("title", title)
    applied = _change_ids(key, *map(digest_of, names))
    with store.transaction() as changes:
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
        text = JOINT.join(texts) if keep_text and len(texts) == len(records) else None
        record = Record.of(
            new,
            memory,
            title=title,
            text=text,
            created=None if before is None else before.created,
            applied=applied,
            signature=searching.merged(records),
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


def _check_merge(names: Sequence[str]) -> None:
    """Refuse to merge fewer than two documents, or a document with itself."""
    if len(names) < 2:
        raise OptionError.expected("merge", "two documents or more", str(len(names)))
    for name in names:
        if names.count(name) > 1:
            raise OptionError(f"document {quoted(name)} cannot be merged with itself", "name it once")
