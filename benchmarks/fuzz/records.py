"""Targets: the bytes of memories, names and signatures, the store's envelopes, and the store's file."""

import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from attar.memory.cooccurrence import Cooccurrence
from attar.memory.forms import FORMS_OF, INDEXED
from attar.memory.memory import Memory
from attar.memory.phrases import PhraseIndex
from attar.search.records import SignatureRecord
from attar.search.signatures import SignatureOptions, Sums
from attar.search.statistics import Statistics
from attar.store.format import DocumentEntry, decompress, encode, read_entry, unwrap, wrap
from attar.store.store import Store
from attar.text.name_table import NameTable
from benchmarks.fuzz.mutations import mutated_bytes, texts
from benchmarks.fuzz.target import Target, in_fork, refused

READER = "reader-1"
_QUERY = np.ones((1, 4), np.float32)


def memories() -> list[Memory]:
    """One small memory of every mechanism and precision."""
    rng, names = np.random.default_rng(0), NameTable.of("Ann Lee", "Bath", "Zoë Ann")
    shapes = {"none": (4,), "softmax": (5, 4), "keyed": (4, 3), "named": (3, 4)}
    ids = rng.integers(3, 20, 40)
    ids[(ids >= 6) & (ids < 9)] = 9
    about, ends = np.where(ids < 6, ids - 3, -1), np.arange(40) % 4 == 3
    (counts,) = Cooccurrence.count(about, ids, ends, [40], counts=[3], first=3, limit=6, common=0)
    made = []
    for mechanism in sorted(set(FORMS_OF).difference(INDEXED)):
        numbers = rng.standard_normal(shapes.get(mechanism, (4, 4)))
        numbers = numbers if mechanism in shapes else numbers @ numbers.T
        more: dict[str, Any] = {"cooccurrence": counts} if mechanism == "named" else {}
        state = rng.standard_normal(4)
        memory = Memory.of(mechanism, numbers, tokens=5, reader=READER, names=names, state=state, **more)
        made += [memory.astype(precision) for precision in ("float32", "float16", "int8")]
    text, sentences = "Ann Lee met Zoë Ann. Bath is wet.", [(0, 20), (21, 33)]
    index = PhraseIndex.of(
        text, [(0, 7, 0, 1.5), (21, 25, 1, 0.5)], sentences, [[5, 7, 9], [6]], tail=(21, 1, 1)
    )
    vectors, nothing = rng.standard_normal((2, 4)).astype(np.float32), np.zeros(0, np.float32)
    phrases = Memory("phrases", vectors, None, 9, 4, nothing, NameTable(), "phrases", READER, None, index)
    return [*made, phrases, phrases.astype("int8")]


@contextmanager
def memory_target(folder: Path) -> Iterator[Target]:
    """`Memory.from_bytes`: refused, or equal to the original; with a checksum that fits, no worse than refused."""
    originals = memories()

    def check(example: tuple[int, bytes, bool]) -> None:
        number, data, forged = example
        original = originals[number % len(originals)]
        if forged and len(data) > 8:
            data = data[:4] + zlib.crc32(data[8:]).to_bytes(4, "little") + data[8:]
        with refused():
            found = Memory.from_bytes(data)
            if not forged and found != original:
                raise AssertionError("damaged bytes are taken for another memory")
            _use(found, original)

    def mutated(number: int) -> st.SearchStrategy[tuple[int, bytes, bool]]:
        data = originals[number].to_bytes()
        return st.tuples(st.just(number), mutated_bytes(data), st.booleans())

    yield Target(st.integers(0, len(originals) - 1).flatmap(mutated), check)


def _use(memory: Memory, other: Memory) -> None:
    """What a library does with a memory."""
    repr(memory)
    memory.names.resolve(["Ann"])
    if memory.size == 4 and len(memory.numbers) and memory.form in ("triangle", "names"):
        with np.errstate(all="ignore"):
            memory.lookup(_QUERY)
    again = Memory.from_bytes(memory.to_bytes())
    if again.to_bytes() != memory.to_bytes():
        raise AssertionError("a memory that changes when it is written again")
    with np.errstate(all="ignore"), refused():
        memory + other


@contextmanager
def envelope_target(folder: Path) -> Iterator[Target]:
    """The store's envelopes, entries and texts: refused, or equal to the original."""
    entry = DocumentEntry("emma", "Emma", b"\1" * 32, 1, 2, 3, "triangle", "float32", 400, None)
    payloads = {
        b"f": encode(entry),
        b"m": memories()[0].to_bytes(),
        b"t": zlib.compress(b"Emma Woodhouse" * 9),
    }

    def check(example: tuple[bytes, bytes, bool]) -> None:
        kind, data, forged = example
        with refused():
            if forged:
                data = wrap(kind, data)  # type: ignore[arg-type]
            payload = bytes(unwrap(kind, data, "emma"))  # type: ignore[arg-type]
            if not forged and payload != payloads[kind]:
                raise AssertionError("a damaged envelope is taken for a whole one")
            if kind == b"f":
                read_entry(data, "emma")
            elif kind == b"t":
                decompress(payload, "emma")

    def mutated(kind: bytes) -> st.SearchStrategy[tuple[bytes, bytes, bool]]:
        whole = mutated_bytes(wrap(kind, payloads[kind]))  # type: ignore[arg-type]
        inner = mutated_bytes(payloads[kind])
        return st.tuples(st.just(kind), whole, st.just(False)) | st.tuples(
            st.just(kind), inner, st.just(True)
        )

    yield Target(st.sampled_from(sorted(payloads)).flatmap(mutated), check)


@contextmanager
def store_target(folder: Path) -> Iterator[Target]:
    """The store's file: damage is refused or found by the check, or every document is as it was.

    LMDB's first two pages have no checksums (docs/security.md), and are left alone.
    """
    place = folder / "store"
    with Store.open(place) as store, store.transaction() as changes:
        for number, memory in enumerate(memories()):
            changes.put(f"doc {number}", memory.astype("float32"), text=f"text {number} " * 40 * number)
    with Store.open(place) as store:
        expected = {name: store.get(name) for name in map(_name_of, store.documents())}
    data = place / "data.mdb"
    whole = data.read_bytes()
    first = 2 * os.sysconf("SC_PAGESIZE")

    def look() -> None:
        with refused(), Store.open(place) as store:
            if not list(store.check()):
                found = {name: store.get(name) for name in map(_name_of, store.documents())}
                if found != expected:
                    raise AssertionError("damage that the check does not find")

    def check(example: bytes) -> None:
        data.write_bytes(whole[:first] + example)
        in_fork(look)

    cut = st.integers(0, len(whole) - first).map(lambda length: whole[first : first + length])
    yield Target(mutated_bytes(whole[first:]) | cut, check)


def _name_of(entry: Any) -> str:
    return str(entry.name)


@contextmanager
def name_table_target(folder: Path) -> Iterator[Target]:
    """Names that people do not have: learned, resolved, written and read again."""

    def check(example: list[str]) -> None:
        table = NameTable()
        with refused():
            for name in example:
                words = name.split()
                if words:
                    entity = table.learn(words)
                    if table.resolve(words) is None and entity is not None:
                        raise AssertionError(f"{words} was learned and is not found")
            again = NameTable.from_bytes(table.to_bytes())
            if again != table:
                raise AssertionError("a table that changes when it is written")

    yield Target(st.lists(texts.map(_name), max_size=8), check)


@contextmanager
def signature_target(folder: Path) -> Iterator[Target]:
    """Statistics and signatures of search: refused, or usable."""
    random = np.random.default_rng(0)
    ids, states = random.integers(0, 40, 30), random.standard_normal((30, 6)).astype(np.float32)
    statistics = Statistics.empty(READER, size=6, pieces=40).with_document(ids, states)
    projection, options = statistics.projection(4), SignatureOptions(4)
    sums = Sums.of(ids, states, projection)
    records = [
        SignatureRecord.of(sums, projection.digest, options, keep_sums=keep).to_bytes()
        for keep in (True, False)
    ]

    def check(example: tuple[str, bytes]) -> None:
        kind, data = example
        with refused():
            if kind == "statistics":
                made = Statistics.from_bytes(data).projection(4)
                if not all(np.isfinite(each).all() for each in (made.directions, made.weights, made.scales)):
                    raise AssertionError("a projection that is not finite")
            else:
                record = SignatureRecord.from_bytes(data, options)
                pieces, counts = record.word_counts
                if len(pieces) != len(counts):
                    raise AssertionError("counts of other word pieces")
                if (kept := record.sums()) is not None:
                    _ = (kept + kept).signature()

    whole = st.tuples(st.just("statistics"), mutated_bytes(statistics.data))
    yield Target(whole | st.tuples(st.just("record"), st.sampled_from(records).flatmap(mutated_bytes)), check)


def _name(text: str) -> str:
    """What a name can be: texts with half a surrogate pair are refused before names are found."""
    return text[:80].encode(errors="replace").decode()
