"""Targets: the bytes of memories and signatures, the store's values, and the store's file."""

import os
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from hypothesis import strategies as st

from attar.memory.memory import Memory, unwrap, wrap
from attar.memory.phrases import PhraseIndex
from attar.search.signatures import SignatureRecord, Sums
from attar.search.statistics import Fitting, Statistics
from attar.store.records import DocumentEntry, Record, read_entry, read_text, write_entry, write_text
from attar.store.store import Store
from benchmarks.fuzz.mutations import mutated_bytes
from benchmarks.fuzz.target import Target, in_fork, refused

READER = "reader-1"
_QUERY = np.ones((1, 4), np.float32)


def memories() -> list[Memory]:
    """A small memory of each form, and one without phrases."""
    rng = np.random.default_rng(0)
    text, sentences = "Ann Lee met Zoë Ann. Bath is wet.", [(0, 20), (21, 33)]
    spans = [(0, 7, 0, 1.5), (21, 25, 1, 0.5)]
    index = PhraseIndex.of(text, spans, sentences, [[5, 7, 9], [6]], tail=(21, 1, 1))
    vectors, keys = rng.standard_normal((2, 4)).astype(np.float32), rng.standard_normal((2, 4))
    sums = (keys.T @ np.concatenate((rng.standard_normal((2, 3)), keys), 1)).astype(np.float32)
    nothing = np.zeros((0, 4), np.float32)
    return [
        Memory.quantized(vectors, form="phrases", phrases=index, tokens=9, reader=READER),
        Memory.quantized(sums, form="ridge", phrases=index, tokens=9, reader=READER),
        Memory.quantized(
            nothing, form="phrases", phrases=PhraseIndex.of("", [], [], []), tokens=0, reader=READER
        ),
    ]


def _forged(data: bytes) -> bytes:
    """Damaged bytes with the length and the checksum that fit."""
    if len(data) < 16:
        return data
    length = struct.pack("<I", len(data) - 16)
    checksum = zlib.crc32(data[16:], zlib.crc32(data[:8] + length))
    return data[:8] + struct.pack("<I", checksum) + length + data[16:]


@contextmanager
def memory_target(folder: Path) -> Iterator[Target]:
    """`Memory.from_bytes`: refused, or equal to the original; with a checksum that fits, no worse than refused."""
    originals = memories()

    def check(example: tuple[int, bytes, bool]) -> None:
        number, data, forged = example
        original = originals[number % len(originals)]
        with refused():
            memory = Memory.from_bytes(_forged(data) if forged else data)
            if not forged and memory != original:
                raise AssertionError("damaged bytes are taken for another memory")
            _use(memory, original)

    def mutated(number: int) -> st.SearchStrategy[tuple[int, bytes, bool]]:
        data = originals[number].to_bytes()
        return st.tuples(st.just(number), mutated_bytes(data), st.booleans())

    yield Target(st.integers(0, len(originals) - 1).flatmap(mutated), check)


def _use(memory: Memory, other: Memory) -> None:
    """What a library does with a memory."""
    repr(memory)
    with np.errstate(all="ignore"), refused():
        memory.lookup(_QUERY)
    again = Memory.from_bytes(memory.to_bytes())
    if again.to_bytes() != memory.to_bytes():
        raise AssertionError("a memory that changes when it is written again")
    with np.errstate(all="ignore"), refused():
        memory + other


@contextmanager
def envelope_target(folder: Path) -> Iterator[Target]:
    """The store's entries and texts: refused, or equal to the original."""
    entry, text = DocumentEntry(name="emma", title="Emma", digest=b"\1" * 32, tokens=3), "Emma Woodhouse" * 9
    originals: dict[bytes, tuple[object, bytes, Callable[[bytes], object]]] = {
        b"f": (entry, write_entry(entry), lambda value: read_entry(b"emma", value)),
        b"t": (text, write_text(text, "emma"), lambda value: read_text(value, "emma")),
    }

    def check(example: tuple[bytes, bytes, bool]) -> None:
        kind, data, forged = example
        original, _, read = originals[kind]
        with refused():
            decoded = read(wrap(kind, data, "emma") if forged else data)
            if not forged and decoded != original:
                raise AssertionError("a damaged value is taken for a whole one")

    def mutated(kind: bytes) -> st.SearchStrategy[tuple[bytes, bytes, bool]]:
        value = originals[kind][1]
        payload = bytes(unwrap(kind, value, "emma"))
        return st.tuples(st.just(kind), mutated_bytes(value), st.just(False)) | st.tuples(
            st.just(kind), mutated_bytes(payload), st.just(True)
        )

    yield Target(st.sampled_from(sorted(originals)).flatmap(mutated), check)


@contextmanager
def store_target(folder: Path) -> Iterator[Target]:
    """The store's file: damage is refused or found by the check, or every document is as it was.

    LMDB's first two pages have no checksums, and are left alone.
    """
    place = folder / "store"
    with Store.open(place) as store, store.transaction() as changes:
        for number in range(40):
            memory = memories()[number % 2]
            record = Record.of(
                DocumentEntry(name=f"doc {number}"), memory, text=f"text {number} " * 40 * number
            )
            changes.put(record, reader=READER)
    with Store.open(place) as store:
        expected = _documents(store)
    data = place / "data.mdb"
    whole = data.read_bytes()
    first = 2 * os.sysconf("SC_PAGESIZE")

    def look() -> None:
        with refused(), Store.open(place) as store:
            if not list(store.check()) and _documents(store) != expected:
                raise AssertionError("damage that the check does not find")

    def check(example: bytes) -> None:
        data.write_bytes(whole[:first] + example)
        in_fork(look)

    cut = st.integers(0, len(whole) - first).map(lambda length: whole[first : first + length])
    yield Target(mutated_bytes(whole[first:]) | cut, check)


def _documents(store: Store) -> list[Record]:
    return [store.get(str(entry.name)) for entry in store.documents()]


@contextmanager
def signature_target(folder: Path) -> Iterator[Target]:
    """Statistics and signatures of search: refused, or usable."""
    random = np.random.default_rng(0)
    ids, states = random.integers(0, 40, 30), random.standard_normal((30, 6)).astype(np.float32)
    fitting = Fitting(READER, size=6, pieces=40)
    fitting.add_words(ids)
    fitting.add_states(ids, states)
    statistics = fitting.statistics()
    projection = statistics.projection(4)
    sums = Sums.of(ids, states, projection)
    records = [
        SignatureRecord.of(sums, projection.digest, 4, keep_sums=keep).to_bytes() for keep in (True, False)
    ]

    def check(example: tuple[str, bytes]) -> None:
        kind, data = example
        with refused():
            if kind == "statistics":
                made = Statistics.from_bytes(data).projection(4)
                if not all(np.isfinite(each).all() for each in (made.directions, made.weights, made.scales)):
                    raise AssertionError("a projection that is not finite")
            else:
                record = SignatureRecord.from_bytes(data, 4)
                pieces, counts = record.word_counts
                if len(pieces) != len(counts):
                    raise AssertionError("counts of other word pieces")
                if (kept := record.sums()) is not None:
                    _ = (kept + kept).signature()

    whole = st.tuples(st.just("statistics"), mutated_bytes(statistics.data))
    yield Target(whole | st.tuples(st.just("record"), st.sampled_from(records).flatmap(mutated_bytes)), check)
