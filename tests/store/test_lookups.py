"""Lookups in the store: the readouts of `Memory.lookup`, whatever the memory's form, and one call for many."""

import subprocess
import sys
import threading

import numpy as np
import pytest

from attar.errors import RecordError, ShapeError, UnknownDocumentError
from attar.memory.memory import Memory
from attar.store import lookups
from attar.store.store import Store
from attar.store.transactions import Snapshot
from attar.text.name_table import NameTable

LONG = 512  # from this size on, a fast lookup releases the GIL
SIZE = 40  # its float32 triangle has pages of its own; that of 6 shares one


def memory_of(mechanism, size=SIZE, seed=0):
    rng = np.random.default_rng(seed)
    names = NameTable.of("Ann", "Bob", "Cleo")
    shapes = {"named": (3, size), "none": (size,), "keyed": (size, 5), "softmax": (7, size)}
    numbers = rng.standard_normal(shapes.get(mechanism, (size, size))).astype(np.float32)
    if mechanism in ("linear", "gated"):
        numbers = numbers @ numbers.T
    return Memory.of(mechanism, numbers, tokens=7, reader="r", names=names, state=np.ones(3))


def queries_of(count, size=SIZE):
    return np.random.default_rng(9).standard_normal((count, size)).astype(np.float32)


@pytest.fixture(autouse=True, params=["plain", "fast"])
def implementation(request, monkeypatch):
    """Both implementations, one after the other, however many lookups were made before."""
    compiled = lookups._fast()
    if request.param == "fast":
        assert compiled.now() is not None
    else:
        monkeypatch.setattr(compiled, "module", None)
        monkeypatch.setattr(compiled, "_left", 0)
    return request.param


@pytest.fixture
def store(tmp_path):
    with Store.open(tmp_path / "store") as store:
        yield store


@pytest.mark.parametrize("count", [0, 1, 2, 5])
@pytest.mark.parametrize("size", [1, 6, SIZE])
@pytest.mark.parametrize("mechanism", ["gated", "named", "none", "keyed", "softmax"])
def test_a_lookup_equals_that_of_the_memory(store, mechanism, size, count):
    memory = memory_of(mechanism, size)
    store.put("emma", memory)
    with store.snapshot() as snapshot:
        found = snapshot.lookup("emma", queries_of(count, size))
    np.testing.assert_allclose(found, memory.lookup(queries_of(count, size)), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_lookup_many_equals_the_lookup_of_each_memory(tmp_path, dtype):
    names = [f"document {number}" for number in range(6)]
    with Store.open(tmp_path, dtype=dtype) as store:
        for number, name in enumerate(names):
            store.put(name, memory_of("gated", seed=number))
        chosen, queries = [names[at] for at in (4, 0, 0, 5)], queries_of(4)
        with store.snapshot() as snapshot:
            found = snapshot.lookup_many(chosen, queries)
            each = [
                snapshot.memory(name).lookup(query[None])[0]
                for name, query in zip(chosen, queries, strict=True)
            ]
    np.testing.assert_allclose(found, np.stack(each), rtol=1e-5, atol=1e-5)


def test_memories_of_different_forms_are_looked_up_in_one_call(store):
    short = Memory.of_states(queries_of(3), reader="r")
    store.put("short", short)
    store.put("long", memory_of("gated"))
    queries = queries_of(2)
    with store.snapshot() as snapshot:
        found = snapshot.lookup_many(["short", "long"], queries)
    assert short.form == "states"
    np.testing.assert_allclose(found[0], short.lookup(queries[:1])[0], rtol=1e-5)
    np.testing.assert_allclose(found[1], memory_of("gated").lookup(queries[1:])[0], rtol=1e-5, atol=1e-5)


def test_readouts_narrower_than_queries_are_one_array(store):
    store.put("emma", memory_of("keyed"))
    with store.snapshot() as snapshot:
        assert snapshot.lookup_many(["emma", "emma"], queries_of(2)).shape == (2, 5)


def test_readouts_of_different_widths_are_refused(store):
    store.put("emma", memory_of("keyed"))
    store.put("ann", memory_of("gated"))
    with store.snapshot() as snapshot, pytest.raises(ShapeError, match="one width"):
        snapshot.lookup_many(["emma", "ann"], queries_of(2))


def test_no_names_give_no_readouts(store):
    with store.snapshot() as snapshot:
        assert snapshot.lookup_many([], queries_of(0)).shape == (0, SIZE)


def test_a_count_of_queries_other_than_that_of_names_is_refused(store):
    store.put("emma", memory_of("gated"))
    with store.snapshot() as snapshot, pytest.raises(ShapeError, match="one for each of 2 names"):
        snapshot.lookup_many(["emma", "emma"], queries_of(3))


@pytest.mark.parametrize("queries", [np.zeros(SIZE), np.zeros((1, SIZE + 1))], ids=["flat", "too wide"])
def test_queries_of_another_shape_are_refused(store, queries):
    store.put("emma", memory_of("gated"))
    with store.snapshot() as snapshot, pytest.raises(ShapeError, match="queries"):
        snapshot.lookup("emma", queries)


@pytest.mark.parametrize(
    "given",
    [
        lambda q: np.frombuffer(b"x" + q.tobytes(), np.uint8)[1:].view(np.float32).reshape(q.shape),
        lambda q: np.asfortranarray(q),
        lambda q: q.astype(np.float64),
        lambda q: q.astype(">f4"),
        lambda q: q.tolist(),
        lambda q: np.lib.stride_tricks.as_strided(q, writeable=False),
    ],
    ids=["odd address", "by columns", "float64", "big-endian", "lists", "read-only"],
)
def test_queries_of_any_dtype_and_memory_layout_are_accepted(store, given):
    store.put("emma", memory_of("gated"))
    queries = queries_of(2)
    expected = memory_of("gated").lookup(queries)
    with store.snapshot() as snapshot:
        many, one = (
            snapshot.lookup_many(["emma"] * 2, given(queries)),
            snapshot.lookup("emma", given(queries[:1])),
        )
    np.testing.assert_allclose(many, expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(one, many[:1])


def test_an_unknown_name_raises(store):
    with store.snapshot() as snapshot:
        with pytest.raises(UnknownDocumentError, match="'emma'"):
            snapshot.lookup("emma", queries_of(1))
        with pytest.raises(UnknownDocumentError, match="'emma'"):
            snapshot.lookup_many(["emma"], queries_of(1))


def test_long_names_are_looked_up(store):
    name = "x" * 10_000
    store.put(name, memory_of("gated"))
    with store.snapshot() as snapshot:
        assert snapshot.lookup_many([name], queries_of(1)).shape == (1, SIZE)


def test_a_truncated_record_raises(store, monkeypatch):
    store.put("emma", memory_of("gated"))
    whole = Snapshot._value
    monkeypatch.setattr(Snapshot, "_value", lambda self, name: whole(self, name)[:300])
    with store.snapshot() as snapshot, pytest.raises(RecordError, match="whole record"):
        snapshot.lookup("emma", queries_of(1))


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_a_large_lookup_equals_that_of_the_memory(tmp_path, dtype):
    memory = memory_of("gated", size=LONG)
    with Store.open(tmp_path, dtype=dtype) as store:
        store.put("emma", memory)
        with store.snapshot() as snapshot:
            found, kept = snapshot.lookup("emma", queries_of(1, LONG)), snapshot.memory("emma")
            expected = kept.lookup(queries_of(1, LONG))
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-2)
            del kept, expected


def test_the_fast_lookups_are_compiled_after_enough_plain_ones(store, monkeypatch):
    compiled = lookups._fast()
    monkeypatch.setattr(compiled, "_left", 3)
    monkeypatch.setattr(compiled, "module", None)
    begun = threading.Event()
    monkeypatch.setattr(type(compiled), "now", lambda self: begun.set())
    store.put("emma", memory_of("gated"))
    with store.snapshot() as snapshot:
        snapshot.lookup("emma", queries_of(1))
        assert compiled._left == 2
        assert not begun.is_set()
        snapshot.lookup_many(["emma"] * 2, queries_of(2))
    assert compiled._left == 0
    assert begun.wait(10)


@pytest.mark.slow
def test_opening_and_listing_a_store_loads_no_torch(store):
    code = f"""
import sys
from attar.store import Store
with Store.open({str(store.path)!r}, read_only=True) as store:
    list(store.documents())
assert not {{"torch", "numba"}} & set(sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
