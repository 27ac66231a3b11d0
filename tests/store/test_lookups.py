"""Lookups in the store: the readouts of `Memory.lookup`, whatever the memory's form, and one call for many."""

import numpy as np
import pytest

from attar.errors import FormatError, ShapeError
from attar.memory import Memory
from attar.store import Store, UnknownNameError
from attar.store.lookups import triangle_in
from attar.text.names import NameTable

SIZE = 40  # its float32 triangle has pages of its own; that of 6 shares one


def memory_of(mechanism, size=SIZE, seed=0):
    rng = np.random.default_rng(seed)
    names = NameTable()
    for name in ("Ann", "Bob", "Cleo"):
        names.learn([name])
    shapes = {"named": (3, size), "none": (size,), "keyed": (size, 5), "softmax": (7, size)}
    numbers = rng.standard_normal(shapes.get(mechanism, (size, size))).astype(np.float32)
    if mechanism in ("linear", "gated"):
        numbers = numbers @ numbers.T
    return Memory.of(mechanism, numbers, tokens=7, reader="r", names=names, state=np.ones(3))


def queries_of(count, size=SIZE):
    return np.random.default_rng(9).standard_normal((count, size)).astype(np.float32)


@pytest.fixture
def store(tmp_path):
    with Store.open(tmp_path / "store") as store:
        yield store


@pytest.mark.parametrize("count", [0, 1, 2, 5])
@pytest.mark.parametrize("size", [1, 6, SIZE])
@pytest.mark.parametrize("mechanism", ["gated", "named", "none", "keyed", "softmax"])
def test_a_lookup_is_the_memorys_own(store, mechanism, size, count):
    memory = memory_of(mechanism, size)
    store.put("emma", memory)
    with store.reading() as now:
        found = now.lookup("emma", queries_of(count, size))
    np.testing.assert_allclose(found, memory.lookup(queries_of(count, size)), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_many_lookups_are_those_of_each_memory(tmp_path, dtype):
    names = [f"document {number}" for number in range(6)]
    with Store.open(tmp_path, dtype=dtype) as store:
        for number, name in enumerate(names):
            store.put(name, memory_of("gated", seed=number))
        chosen, queries = [names[at] for at in (4, 0, 0, 5)], queries_of(4)
        with store.reading() as now:
            found = now.lookup_many(chosen, queries)
            each = [
                now.memory(name).lookup(query[None])[0] for name, query in zip(chosen, queries, strict=True)
            ]
    np.testing.assert_allclose(found, np.stack(each), rtol=1e-5, atol=1e-5)


def test_states_and_triangles_are_looked_up_in_one_call(store):
    short = Memory.of_states(queries_of(3), reader="r")
    store.put("short", short)
    store.put("long", memory_of("gated"))
    queries = queries_of(2)
    with store.reading() as now:
        found = now.lookup_many(["short", "long"], queries)
    assert short.form == "states"
    np.testing.assert_allclose(found[0], short.lookup(queries[:1])[0], rtol=1e-5)
    np.testing.assert_allclose(found[1], memory_of("gated").lookup(queries[1:])[0], rtol=1e-5, atol=1e-5)


def test_readouts_of_another_width_come_in_one_array_too(store):
    store.put("emma", memory_of("keyed"))
    with store.reading() as now:
        assert now.lookup_many(["emma", "emma"], queries_of(2)).shape == (2, 5)


def test_readouts_of_different_widths_are_refused(store):
    store.put("emma", memory_of("keyed"))
    store.put("ann", memory_of("gated"))
    with store.reading() as now, pytest.raises(ShapeError, match="one width"):
        now.lookup_many(["emma", "ann"], queries_of(2))


def test_no_names_have_no_readouts(store):
    with store.reading() as now:
        assert now.lookup_many([], queries_of(0)).shape == (0, SIZE)


def test_a_query_for_each_name_is_needed(store):
    store.put("emma", memory_of("gated"))
    with store.reading() as now, pytest.raises(ShapeError, match="one for each of 2 names"):
        now.lookup_many(["emma", "emma"], queries_of(3))


@pytest.mark.parametrize("queries", [np.zeros(SIZE), np.zeros((1, SIZE + 1))], ids=["flat", "too wide"])
def test_queries_of_another_shape_are_refused(store, queries):
    store.put("emma", memory_of("gated"))
    with store.reading() as now, pytest.raises(ShapeError, match="queries"):
        now.lookup("emma", queries)


def test_an_unknown_name_is_named(store):
    with store.reading() as now:
        with pytest.raises(UnknownNameError, match="'emma'"):
            now.lookup("emma", queries_of(1))
        with pytest.raises(UnknownNameError, match="'emma'"):
            now.lookup_many(["emma"], queries_of(1))


def test_long_names_are_looked_up(store):
    name = "x" * 10_000
    store.put(name, memory_of("gated"))
    with store.reading() as now:
        assert now.lookup_many([name], queries_of(1)).shape == (1, SIZE)


def test_a_whole_float32_triangle_is_read_in_place(store):
    memory = memory_of("gated")
    store.put("emma", memory)
    with store.reading() as now:
        found = triangle_in(now._value("emma"), SIZE)
        assert found is not None
        assert not found.flags.owndata
        np.testing.assert_array_equal(found, memory.numbers)
        del found


@pytest.mark.parametrize("place", [0, 5, 12, 48, 56, 58, 62, 64, 72])
def test_a_damaged_header_is_never_read_in_place(store, place):
    store.put("emma", memory_of("gated"))
    with store.reading() as now:
        value = bytearray(now._value("emma"))
    value[place] ^= 0x55
    assert triangle_in(bytes(value), SIZE) is None


@pytest.mark.parametrize("length", [0, 40, 111, 500])
def test_a_record_that_is_cut_is_never_read_in_place(store, length):
    store.put("emma", memory_of("gated"))
    with store.reading() as now:
        assert triangle_in(bytes(now._value("emma"))[:length], SIZE) is None


def test_a_damaged_record_is_reported_and_not_looked_up(store, monkeypatch):
    from attar.store.reading import Reading

    store.put("emma", memory_of("gated"))
    whole = Reading._value
    monkeypatch.setattr(Reading, "_value", lambda self, name: whole(self, name)[:300])
    with store.reading() as now, pytest.raises(FormatError, match="whole record"):
        now.lookup("emma", queries_of(1))
