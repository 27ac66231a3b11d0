"""The compiled product: what float64 says, for every size and type of number, and BLAS where it is not there."""

import sys
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attar.errors import AttarError
from attar.ops.packed import fast_lookup, products
from attar.ops.packed.lookup import packed_lookup, packed_lookup_many
from attar.ops.packed.products import COMPILED, LazyModule, look_up_at, places_at, product_in_use

# One more and one less than four rows, a vector of sixteen columns, and two; a lookup that lets go of the GIL.
SIZES = [1, 2, 3, 4, 5, 7, 15, 16, 17, 19, 31, 32, 33, 63, 100, 127, 128, 129, 512, 515]
DTYPES = ["float32", "float16", "int8"]


@pytest.fixture(params=["compiled", "BLAS"])
def product(request, monkeypatch):
    """Both products, one after the other."""
    monkeypatch.setattr(COMPILED, "module", fast_lookup if request.param == "compiled" else None)
    monkeypatch.setattr(COMPILED, "_left", 0)
    return request.param


def memory_of(k, dtype, seed=0):
    """A triangle as it is stored, its scales (none but for int8), and the matrix that it stands for."""
    rng = np.random.default_rng(seed)
    numbers = 30 * rng.standard_normal(k * (k + 1) // 2)
    stored = np.rint(numbers).clip(-127, 127).astype(np.int8) if dtype == "int8" else numbers.astype(dtype)
    scales = rng.uniform(0.1, 9.0, k).astype(np.float32) if dtype == "int8" else None
    C = np.zeros((k, k))
    C[np.tril_indices(k)] = stored
    C += np.tril(C, -1).T
    return stored, scales, C if scales is None else C * np.outer(scales, scales.astype(np.float64)) / 127


def read(stored, scales, query):
    """The readout from bytes at an odd address, which nothing may be read behind."""
    odd = np.frombuffer(b"x" + stored.tobytes(), np.uint8)[1:]
    places, readout = places_at(np.array([odd.ctypes.data]), stored.itemsize), np.full_like(query, np.nan)
    places[0, 1] = 0 if scales is None else scales.ctypes.data
    look_up_at(fast_lookup, places, query[None], readout[None])
    return readout


def off_by(found, expected):
    return np.abs(found - expected).max() / max(np.abs(expected).max(), 1e-30)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("k", SIZES)
def test_is_the_product_of_matrix_and_query(k, dtype):
    stored, scales, C = memory_of(k, dtype)
    query = np.random.standard_normal(k).astype(np.float32)
    assert off_by(read(stored, scales, query), C @ query) < 2e-6


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 80), st.sampled_from(DTYPES), st.integers(0, 2**32 - 1))
def test_is_the_product_for_random_memories(k, dtype, seed):
    stored, scales, C = memory_of(k, dtype, seed)
    query = np.random.default_rng(seed + 1).standard_normal(k).astype(np.float32)
    expected = np.abs(C) @ np.abs(query)  # what the rounding of sums may be measured by
    assert (np.abs(read(stored, scales, query) - C @ query) <= 1e-6 * expected + 1e-30).all()


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 9), st.integers(1, 40), st.integers(0, 2**32 - 1))
def test_many_memories_of_different_types_are_read_in_one_call(m, k, seed):
    rng = np.random.default_rng(seed)
    memories = [memory_of(k, rng.choice(DTYPES), seed + row) for row in range(m)]
    queries = rng.standard_normal((m, k)).astype(np.float32)
    places = np.zeros((m, 3), np.int64)
    for place, (stored, scales, _) in zip(places, memories, strict=True):
        at_scales = 0 if scales is None else scales.ctypes.data
        place[:] = stored.ctypes.data, at_scales, stored.itemsize
    readouts = np.full_like(queries, np.nan)
    look_up_at(fast_lookup, places, queries, readouts)
    for readout, query, (*_, C) in zip(readouts, queries, memories, strict=True):
        assert off_by(readout, C @ query) < 1e-5


def test_rows_without_a_memory_are_skipped():
    stored, _, C = memory_of(3, "float32")
    places = places_at(np.array([0, stored.ctypes.data, 0]))
    places[[0, 2], 2] = 0
    readouts = np.full((3, 3), 7, np.float32)
    look_up_at(fast_lookup, places, np.ones((3, 3), np.float32), readouts)
    np.testing.assert_allclose(readouts, [[7] * 3, C.sum(1), [7] * 3], rtol=1e-5)


def test_only_the_readout_is_written():
    stored, _, _ = memory_of(5, "float32")
    room = np.full(15, 7, np.float32)
    packed_lookup(stored, np.ones(5, np.float32), room[5:10])
    assert room[:5].tolist() == room[10:].tolist() == [7] * 5


@pytest.mark.parametrize("place", [0, 7, 135])
def test_nan_affects_only_its_row_and_column(place):
    stored, _, C = memory_of(16, "float32")
    rows, columns = np.tril_indices(16)
    stored[place] = np.nan
    found = read(stored, None, np.ones(16, np.float32))
    touched = {rows[place], columns[place]}
    assert {row for row in range(16) if np.isnan(found[row])} == touched
    others = [row for row in range(16) if row not in touched]
    np.testing.assert_allclose(found[others], C.sum(1)[others], rtol=1e-4)


def test_a_readout_too_large_for_float32_is_not_finite():
    assert np.isinf(read(np.full(3, 3e38, np.float32), None, np.full(2, 3e38, np.float32))).all()


@pytest.mark.parametrize("k", [1, 17, 100, 512])
def test_both_products_give_the_same_readouts(product, k):
    stored, _, C = memory_of(k, "float32")
    queries = np.random.standard_normal((4, k)).astype(np.float32)
    one = packed_lookup(stored, queries[0])
    many = packed_lookup_many([stored, stored.tobytes()], queries, [0, 1, 1, 0])
    of_array = packed_lookup_many(np.stack([stored] * 3), queries, [2, 0, 1, 1])
    assert product_in_use().startswith(product)
    assert off_by(one, C @ queries[0]) < 2e-6
    assert off_by(many, queries @ C) < 2e-6
    assert np.array_equal(many, of_array)
    assert np.array_equal(many[0], one)


def test_no_queries_give_no_readouts(product):
    assert packed_lookup_many(np.zeros((0, 3), np.float32), np.zeros((0, 2), np.float32)).shape == (0, 2)


def test_read_only_queries_are_accepted(product):
    stored, _, C = memory_of(4, "float32")
    query = np.ones(4, np.float32)
    stored.flags.writeable = query.flags.writeable = False
    assert off_by(packed_lookup(stored, query), C.sum(1)) < 1e-6
    assert off_by(packed_lookup_many(stored[None], query[None])[0], C.sum(1)) < 1e-6


def test_float64_uses_blas(product):
    readout = packed_lookup(np.array([1.0, 2.0, 5.0]), np.array([1.0, 1e-12]))
    assert readout.tolist() == [1.0 + 2e-12, 2.0 + 5e-12]


@pytest.mark.usefixtures("unchecked_shapes", "product")
@pytest.mark.parametrize(
    ("packed", "says"),
    [
        (np.zeros(4, np.float32), r"packed: expected \[3\]"),
        (np.zeros(3), "packed: expected float32"),
        (np.zeros(6, np.float32)[::2], "numbers without gaps"),
    ],
)
def test_both_products_raise_the_same_errors(packed, says):
    with pytest.raises(AttarError, match=says):
        packed_lookup(packed, np.zeros(2, np.float32))
    with pytest.raises(AttarError, match=says.replace("packed:", "packed.0.:")):
        packed_lookup_many([packed], np.zeros((1, 2), np.float32))


def test_many_lookups_release_the_gil():
    k, steps, done, interval = 2000, [0], threading.Event(), sys.getswitchinterval()

    def step():
        while not done.wait(0.0001):
            steps[0] += 1

    stored, queries = np.zeros(k * (k + 1) // 2, np.float32), np.zeros((2, k), np.float32)
    places, readouts = places_at(np.array([stored.ctypes.data] * 2)), np.empty_like(queries)
    other = threading.Thread(target=step)
    other.start()
    sys.setswitchinterval(60)
    try:
        moved = []
        for call in (fast_lookup.look_up_each, fast_lookup.look_up_each_released):
            before = steps[0]
            for _ in range(100):
                call(places, queries, readouts)
            moved.append(steps[0] - before)
    finally:
        sys.setswitchinterval(interval)
        done.set()
        other.join()
    assert moved[0] == 0
    assert moved[1] > 0


class TestLazyModule:
    MODULE = "attar.ops.packed.fast_lookup"

    def test_is_imported_in_the_background_after_enough_misses(self):
        module = LazyModule(self.MODULE, patience=3)
        assert module.missed() is None
        assert module.missed() is None
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("import ")]
        module.missed(5)
        assert module.now() is fast_lookup
        assert module.missed() is fast_lookup

    def test_is_imported_only_once(self, monkeypatch):
        started = []
        monkeypatch.setattr(products.threading.Thread, "start", lambda thread: started.append(thread.name))
        module = LazyModule(self.MODULE, patience=1)
        for _ in range(3):
            module.missed()
        assert started == [f"import {self.MODULE}"]

    def test_is_never_loaded_without_numba(self, monkeypatch):
        monkeypatch.setattr(products.importlib.util, "find_spec", lambda name: None)
        module = LazyModule(self.MODULE, patience=1)
        assert module.missed() is None
        assert module.now() is None

    def test_a_failing_compiler_is_warned_of_in_one_line(self, monkeypatch):
        def fail(name):
            raise RuntimeError("no cache\nanywhere")

        monkeypatch.setattr(products.importlib, "import_module", fail)
        with pytest.warns(RuntimeWarning, match=r"could not be compiled, lookups are slower: no cache$"):
            assert LazyModule(self.MODULE).now() is None

    def test_names_the_product_in_use(self, monkeypatch):
        monkeypatch.setattr(products.COMPILED, "module", None)
        assert product_in_use() == "BLAS (sspmv)"
