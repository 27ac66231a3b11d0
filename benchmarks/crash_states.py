"""What `benchmarks.crash` expects of a store after a kill, by its log, and what is there."""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain, combinations
from pathlib import Path
from typing import IO

from attar.memory.memory import Memory
from attar.store.records import key_of
from attar.store.store import Store
from benchmarks import killed
from benchmarks.killed import Change, with_change


@dataclass
class Ledger:
    """The acknowledged documents of one store, and each writer's change under way, as the log has them."""

    log: IO[str]
    texts: dict[str, str] = field(default_factory=dict)
    begun: dict[int, Change] = field(default_factory=dict)
    changes: int = 0

    def note(self, events: bytes) -> None:
        """Write events to the log and the disk, then count them in."""
        self.log.write(events.decode())
        self.log.flush()
        os.fsync(self.log.fileno())
        for writer, change in map(json.loads, events.splitlines()):
            if change is not None:
                self.begun[writer] = change
            else:
                self.texts = with_change(self.texts, self.begun.pop(writer))
                self.changes += 1

    def states(self) -> Iterator[dict[str, str]]:
        """All states that the store may be in: each change under way is made, or not."""
        under_way = list(self.begun.values())
        for some in chain.from_iterable(combinations(under_way, n) for n in range(len(under_way) + 1)):
            texts = self.texts
            for change in some:
                texts = with_change(texts, change)
            yield texts

    def settle(self, found: dict[str, str]) -> None:
        """Take what was found for acknowledged: nothing may change it but the next writer."""
        self.texts, self.begun = found, {}


def read_texts(store: Store) -> dict[str, str]:
    """Every document's text; raises if one is torn, or if its signature is of another version."""
    texts: dict[str, str] = {}
    with store.snapshot() as snapshot:
        signatures = {signature.key: signature.data for signature in snapshot.signatures()}
        reader = snapshot.header.reader
        for entry in snapshot.documents():
            name = str(entry.name)
            record = snapshot.get(name)
            text, memory = str(record.text), record.memory
            if memory.reader != reader:
                raise AssertionError(
                    f"{name[:40]!r} is of the reader {memory.reader!r}, the store of another"
                )
            is_number = memory.reader in (killed.READER, *killed.READERS)
            if killed.is_torn(text, memory) if is_number else _is_torn(text, memory):
                raise AssertionError(f"{name[:40]!r} is torn: {text[:40]!r}, {memory}")
            if signatures.pop(key_of(name), text.encode()) != text.encode() and is_number:
                raise AssertionError(f"the signature of {name[:40]!r} is of another version")
            texts[name] = text
    if signatures:
        raise AssertionError(f"signatures without documents: {sorted(signatures)[0][:40]!r}")
    return texts


def _is_torn(text: str, memory: Memory) -> bool:
    """Whether a memory is of another text: each phrase says where it stands."""
    index = memory.phrases
    places = zip(index.starts.tolist(), index.lengths.tolist(), strict=True)
    return any(
        text[start : start + length] != index.text_of(phrase) for phrase, (start, length) in enumerate(places)
    )


class Watcher:
    """Reads a store that others change; every call is one look, and raises at half a change."""

    def __init__(self, folder: Path) -> None:
        self.store = Store.open(folder, read_only=True)

    def __call__(self) -> dict[str, str]:
        """Every document's text."""
        texts = read_texts(self.store)
        if len({texts.get(name) for name in killed.PAIR}) > 1:
            raise AssertionError("half a change")
        return texts


def difference(found: dict[str, str], states: list[dict[str, str]]) -> str:
    """Which document is not as in the state that comes nearest."""
    wrong = [
        [name for name in sorted(found.keys() | state.keys()) if found.get(name) != state.get(name)]
        for state in states
    ]
    at = min(range(len(states)), key=lambda n: len(wrong[n]))
    name = wrong[at][0]
    expected, came = (str(texts.get(name))[-60:] for texts in (states[at], found))
    return f"{len(wrong[at])} documents differ, such as {name[:40]!r}: expected {expected!r}, found {came!r}"
