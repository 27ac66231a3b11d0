"""Adding documents: what is known already is left alone, the rest is read side by side and written as one."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, NamedTuple

from attar.errors import AttarError, FormatError, OptionError, UnknownDocumentError, quoted
from attar.library.drafts import Draft, by_name, in_groups
from attar.memory import Memory
from attar.progress import Progress, tell_nobody
from attar.store import DocumentEntry, Snapshot, Store, Transaction

if TYPE_CHECKING:
    from attar.reader import Reader


class Outcome(NamedTuple):
    """What became of a document, and what the library now has of it."""

    name: str
    change: Literal["added", "replaced", "unchanged", "appended", "merged"]
    tokens: int
    bytes: int


@dataclass(frozen=True)
class Adder:
    """Adds documents to a store; the reader is asked for when there is something to read."""

    store: Store
    reader: Callable[[], "Reader"]
    replace: bool
    keep_text: bool
    reading: Progress = tell_nobody

    def add(self, drafts: Iterable[Draft], batch: int) -> Iterator[Outcome]:
        """Yield what became of each document once it is on the disk; what came before a refused one is added."""
        for group in in_groups(drafts, batch):
            known = self._known(group)
            refused = next((at for at, draft in enumerate(group) if self._refuses(draft, known)), len(group))
            taken = group[:refused]
            new = [draft for draft in taken if not is_same(draft, known.get(draft.name))]
            memories = (
                self.reader().read_many([draft.text for draft in new], progress=self.reading) if new else []
            )
            written, fault = self._write(new, memories)
            for draft in taken:
                if draft.name in written:
                    yield written[draft.name]
                elif draft.name in known and is_same(draft, known[draft.name]):
                    yield unchanged(known[draft.name])
                else:
                    break
            if fault is not None:
                raise fault
            if refused < len(group):
                raise known_name(group[refused].name)

    def add_together(self, drafts: Iterable[Draft]) -> Iterator[Outcome]:
        """Read all documents under one table of names and write them as one change: all of them, or none."""
        group = by_name(drafts)
        known = self._known(group)
        for draft in group:
            if self._refuses(draft, known):
                raise known_name(draft.name)
        if all(is_same(draft, known.get(draft.name)) for draft in group) and self._share_names(group):
            yield from (unchanged(known[draft.name]) for draft in group)
            return
        texts = [draft.text for draft in group]
        memories = self.reader().read_many(texts, together=True, progress=self.reading)
        with self.store.transaction() as changes:
            outcomes = [self._put(changes, *each, again=True) for each in zip(group, memories, strict=True)]
        yield from outcomes

    def _write(
        self, drafts: Sequence[Draft], memories: Sequence[Memory]
    ) -> tuple[dict[str, Outcome], AttarError | None]:
        """Write documents as one change, up to the first that cannot be; give that one's fault too."""
        written: dict[str, Outcome] = {}
        if not drafts:
            return written, None
        fault = None
        with self.store.transaction() as changes:
            for draft, memory in zip(drafts, memories, strict=True):
                try:
                    written[draft.name] = self._put(changes, draft, memory)
                except OptionError as refused:
                    fault = refused
                    break
        return written, fault

    def _put(self, changes: Transaction, draft: Draft, memory: Memory, again: bool = False) -> Outcome:
        # Another process may have written since it was looked up.
        earlier = sound_facts(changes, draft.name)
        if earlier is not None and is_same(draft, earlier) and not again:
            return unchanged(earlier)
        if earlier is not None and not is_same(draft, earlier) and not self.replace:
            raise known_name(draft.name)
        text = draft.text if self.keep_text else None
        facts = changes.put(
            draft.name, fitting(draft, memory, changes), title=draft.title, text=text, digest=draft.digest
        )
        return Outcome(
            facts.name, "replaced" if earlier is not None else "added", facts.tokens, facts.memory_bytes
        )

    def _known(self, group: Sequence[Draft]) -> dict[str, DocumentEntry]:
        with self.store.snapshot() as now:
            found = ((draft.name, sound_facts(now, draft.name)) for draft in group)
            return {name: facts for name, facts in found if facts is not None}

    def _refuses(self, draft: Draft, known: dict[str, DocumentEntry]) -> bool:
        return draft.name in known and not is_same(draft, known[draft.name]) and not self.replace

    def _share_names(self, group: Sequence[Draft]) -> bool:
        """Whether documents were read together before: each one's names are the next one's beginning."""
        with self.store.snapshot() as now:
            tables = [memory.names for memory in now.memories(draft.name for draft in group)]
        return all(a.agrees_with(b) for a, b in pairwise(tables))


def sound_facts(place: Snapshot | Transaction, name: str) -> DocumentEntry | None:
    """What is known of a document that is whole; a damaged one is mended by adding it again, as if it were new."""
    try:
        return place.get(name).entry
    except (UnknownDocumentError, FormatError):
        return None


def is_same(draft: Draft, facts: DocumentEntry | None) -> bool:
    """Whether it is the very text that was read."""
    return facts is not None and facts.digest == draft.digest


def unchanged(facts: DocumentEntry) -> Outcome:
    """What is said of a document that was there."""
    return Outcome(facts.name, "unchanged", facts.tokens, facts.memory_bytes)


def fitting(draft: Draft, memory: Memory, changes: Transaction) -> Memory:
    """The memory in the store's type of number, or whose memory does not fit that."""
    try:
        return memory.astype(changes.header.dtype)
    except OptionError as fault:
        what, remedy = f"memory of {quoted(draft.name)}", "make a library with dtype float32 or int8 for it"
        raise OptionError(what, f"one that {changes.header.dtype} can hold", str(fault), remedy) from fault


def known_name(name: str) -> OptionError:
    """The line for another text under a known name."""
    what, remedy = f"document {quoted(name)}", "replace it (--replace), or give the text another name"
    return OptionError(what, "a new name, or the text that was added", "another text", remedy)
