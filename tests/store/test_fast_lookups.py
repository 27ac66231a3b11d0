"""The fast lookups agree with the plain ones, and never read a record that is not a whole triangle."""

import numpy as np
import pytest

from attar.memory.memory import Memory
from attar.store import lookups
from attar.store.store import Store
from attar.text.names import NameTable

fast_lookups = pytest.importorskip("attar.store.fast_lookups")

SIZE = 40
DTYPES = ["float32", "float16", "int8"]


def memory_of(mechanism="gated", seed=0):
    rng = np.random.default_rng(seed)
    shape = {"softmax": (7, SIZE)}.get(mechanism, (SIZE, SIZE))
    numbers = rng.standard_normal(shape).astype(np.float32)
    if mechanism == "gated":
        numbers = numbers @ numbers.T
    names = NameTable.of("Ann", "Bob", "Cleo")
    return Memory.of(mechanism, numbers, tokens=7, reader="r", names=names, state=np.ones(3))


def queries_of(count, size=SIZE):
    return np.random.default_rng(9).standard_normal((count, size)).astype(np.float32)


def record_in(folder, dtype="float32"):
    with Store.open(folder / dtype, dtype=dtype) as store:
        store.put("emma", memory_of())
        with store.snapshot() as snapshot:
            return bytearray(snapshot._value("emma"))


@pytest.mark.parametrize("dtype", DTYPES)
def test_both_implementations_agree(tmp_path, dtype):
    names = ["gated", "softmax", "gated"]
    with Store.open(tmp_path, dtype=dtype) as store:
        for name in set(names):
            store.put(name, memory_of(name))
        with store.snapshot() as snapshot:
            values, queries = [snapshot._value(name) for name in names], queries_of(3)
            many = [module.look_up_each(values, names, queries) for module in (lookups, fast_lookups)]
            one = [module.look_up(values[0], names[0], queries[:1]) for module in (lookups, fast_lookups)]
            several = [module.look_up(values[0], names[0], queries) for module in (lookups, fast_lookups)]
    for plain, fast in (many, one, several):
        np.testing.assert_allclose(fast, plain, rtol=1e-5, atol=1e-5)


def is_read(value, k=SIZE):
    """Whether the compiled code takes a value for a triangle, by both of its entry points."""
    readout, places = np.empty((1, k), np.float32), np.empty((1, 3), np.int64)
    alone = fast_lookups.multiply_value(id(value), queries_of(1, k), readout)
    values = [value]
    assert fast_lookups.find_triangles(id(values), k, places) == int(alone) == (places[0, 2] > 0)
    return alone


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_whole_triangle_is_read(tmp_path, dtype):
    assert is_read(bytes(record_in(tmp_path, dtype)))


def test_a_triangle_of_another_size_is_not_read(tmp_path):
    assert not is_read(bytes(record_in(tmp_path)), SIZE + 1)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("place", [0, 5, 12, 48, 56, 58, 59, 62, 64, 72, 76])
def test_a_record_with_a_damaged_header_is_not_read(tmp_path, place, dtype):
    value = record_in(tmp_path, dtype)
    value[place] ^= 0x55
    assert not is_read(bytes(value))


@pytest.mark.parametrize("length", [0, 40, 111, 500])
def test_a_truncated_record_is_not_read(tmp_path, length):
    assert not is_read(bytes(record_in(tmp_path))[:length])


@pytest.mark.parametrize("value", [None, 7])
def test_an_object_without_bytes_is_not_read(value):
    assert not is_read(value)
