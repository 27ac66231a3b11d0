"""Memories of every form: making, looking up, converting, comparing."""

import pickle
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from attar import Memory, ops
from attar.errors import AttarError, DtypeError, OptionError, ShapeError
from attar.memory.cooccurrence import Cooccurrence
from attar.memory.forms import FORMS_OF, INDEXED, UNPACK_FROM
from attar.nn.mechanisms import attention
from attar.text.name_table import NameTable

SIZES = [1, 2, 3, 64, 100]
CLOSE = {"rtol": 1e-4, "atol": 1e-4}
# Phrases have an index, and no module of their own in `attar.nn.attention`: see test_phrases.py.
MECHANISMS = sorted(set(FORMS_OF) - {*INDEXED})


def made(mechanism: str, k: int = 5, tokens: int = 7, **rest) -> Memory:
    """A memory of random numbers."""
    shapes = {"none": (k,), "softmax": (tokens, k), "keyed": (k, 3), "named": (2, k)}
    numbers = np.random.standard_normal(shapes.get(mechanism, (k, k)))
    if mechanism not in shapes:
        numbers = numbers @ numbers.T
    return Memory.of(
        mechanism,
        numbers,
        tokens=tokens,
        reader="r",
        names=NameTable.of("Ann Lee", "Bath"),
        state=[1.0, 2.0],
        **rest,
    )


def states(n: int, k: int) -> Memory:
    return Memory.of_states(np.random.standard_normal((n, k)), reader="r")


class TestMaking:
    @pytest.mark.parametrize("mechanism", MECHANISMS)
    def test_every_mechanism_has_its_form_and_can_be_made_again_from_its_array(self, mechanism):
        memory = made(mechanism)
        assert memory.form == FORMS_OF[mechanism][0]
        assert (
            Memory.of(mechanism, memory.array(), tokens=7, reader="r", names=memory.names, state=[1, 2])
            == memory
        )

    def test_states_are_kept_while_they_are_smaller_than_the_triangle(self):
        assert [states(n, 5).form for n in (0, 2, 3)] == ["states", "states", "triangle"]

    def test_of_matrix_keeps_the_lower_triangle(self):
        memory = Memory.of_matrix([[1.0, np.nan], [2.0, 3.0]], tokens=1, reader="r", mechanism="decayed")
        assert memory.numbers.tolist() == [1.0, 2.0, 3.0]

    def test_vectors_are_cut_or_padded_to_the_names(self):
        table = NameTable.of("Ann", "Bath")
        fewer, more = (
            Memory.of("named", np.ones((rows, 3)), tokens=1, reader="r", names=table) for rows in (1, 4)
        )
        assert fewer.numbers.tolist() == [[1, 1, 1], [0, 0, 0]]
        assert more.numbers.shape == (2, 3)

    def test_a_memory_copies_its_arguments(self):
        matrix, table = np.ones((3, 2), np.float32), NameTable.of("Ann")
        memory = Memory.of("keyed", matrix, tokens=1, reader="r", names=table)
        matrix[:] = 0
        table.learn(["Bath"])
        assert memory.numbers.all()
        assert memory.names.names == ["Ann"]

    def test_numbers_are_read_only(self):
        with pytest.raises(ValueError, match="read-only"):
            made("keyed").numbers[:] = 0

    @pytest.mark.parametrize(
        ("make", "error", "line"),
        [
            (
                lambda: Memory.of("fast", [[1.0]], tokens=1, reader="r"),
                OptionError,
                "mechanism: expected one of none",
            ),
            (lambda: Memory.of("gated", np.ones((2, 3)), tokens=1, reader="r"), ShapeError, r"\[k, k\]"),
            (lambda: Memory.of("none", np.ones((2, 3)), tokens=1, reader="r"), ShapeError, r"\[k\] of none"),
            (lambda: Memory.of("gated", [[1.0]], tokens=-1, reader="r"), OptionError, "tokens: .* got -1"),
            (lambda: Memory.of("gated", [[1.0]], tokens=1, reader="r" * 70_000), OptionError, "fingerprint"),
            (lambda: Memory.of("gated", [[1.0]], tokens=1, reader="r", state=[[1.0]]), ShapeError, "state"),
            (
                lambda: Memory.of_matrix([[1.0]], tokens=1, reader="r", mechanism="keyed"),
                OptionError,
                "Memory.of",
            ),
            (lambda: Memory.of_states([1.0], reader="r"), ShapeError, r"states: expected \[n, k\]"),
            (
                lambda: Memory.of_states([[1.0, 2, 3]], reader="r", mechanism="decayed"),
                OptionError,
                "triangle",
            ),
        ],
    )
    def test_invalid_arguments_are_refused_with_one_line(self, make, error, line):
        with pytest.raises(error, match=line) as refused:
            make()
        assert isinstance(refused.value, AttarError)
        assert "\n" not in str(refused.value)

    @pytest.mark.parametrize(
        ("numbers", "scales", "error"),
        [
            (np.zeros(3, np.float64), None, DtypeError),
            (np.zeros(4, np.float32), None, ShapeError),
            (np.zeros(3, np.int8), None, ShapeError),
            (np.zeros(3, np.float32), np.zeros(2, np.float32), ShapeError),
            (np.zeros(3, np.int8), np.zeros(3, np.float32), ShapeError),
        ],
        ids=["float64", "another triangle", "int8 without scales", "scales without int8", "too many scales"],
    )
    def test_numbers_and_scales_must_fit_the_form(self, numbers, scales, error):
        with pytest.raises(error):
            Memory("triangle", numbers, scales, 1, 2, np.zeros(0, np.float32), NameTable(), "linear", "r")


class TestLookup:
    @pytest.mark.parametrize("m", [0, 1, UNPACK_FROM - 1, UNPACK_FROM, 20])
    @pytest.mark.parametrize("k", SIZES)
    def test_the_lookup_of_a_triangle_is_C_q(self, k, m):
        memory, queries = made("linear", k), np.random.standard_normal((m, k)).astype(np.float32)
        readouts = memory.lookup(queries)
        assert readouts.dtype == np.float32
        assert np.allclose(readouts, queries @ memory.matrix(), **CLOSE)

    def test_states_have_the_readouts_of_their_triangle(self):
        memory, queries = states(10, 64), np.random.standard_normal((3, 64))
        assert np.allclose(memory.lookup(queries), memory.to_form("triangle").lookup(queries), **CLOSE)

    @pytest.mark.parametrize("mechanism", MECHANISMS)
    @pytest.mark.parametrize("m", [1, 9])
    def test_every_form_has_the_readouts_of_its_mechanism(self, mechanism, m):
        memory, queries = made(mechanism), np.random.standard_normal((m, 5)).astype(np.float32)
        module = attention(mechanism, 5)
        state = torch.from_numpy(memory.array())[None]
        batch = type(module.encode(torch.zeros(1, 1, 5), **extra(mechanism)))(state, torch.tensor([7]))
        expected = module.lookup(batch, torch.from_numpy(queries)[None])[0]
        assert np.allclose(memory.lookup(queries), expected.detach().numpy(), **CLOSE)

    def test_the_readout_without_states_is_zero(self):
        memory = Memory.of("softmax", np.zeros((0, 3)), tokens=0, reader="r")
        assert memory.lookup(np.ones((2, 3))).tolist() == [[0, 0, 0]] * 2

    def test_queries_of_another_size_are_refused(self):
        with pytest.raises(ShapeError, match=r"queries: expected \[m, 5\], got \[5\]"):
            made("linear").lookup(np.ones(5))


def extra(mechanism: str) -> dict[str, torch.Tensor]:
    """The arguments that a mechanism needs in addition to the states."""
    if mechanism == "keyed":
        return {"values": torch.zeros(1, 1, 3)}
    return {"names": torch.zeros(1, 1, dtype=torch.int64)} if mechanism == "named" else {}


class TestPrecisions:
    @pytest.mark.parametrize("mechanism", MECHANISMS)
    @pytest.mark.parametrize(("dtype", "share"), [("float16", 2e-3), ("int8", 2e-2)])
    def test_lower_precision_gives_nearly_the_same_readouts(self, mechanism, dtype, share):
        memory, queries = made(mechanism, 64), np.random.standard_normal((3, 64)) / 8
        narrow = memory.astype(dtype)
        exact = memory.lookup(queries)
        assert narrow.dtype == dtype
        assert narrow.nbytes < 0.6 * memory.nbytes
        assert np.abs(narrow.lookup(queries) - exact).max() <= 4 * share * np.abs(exact).max()

    def test_an_int8_triangle_equals_that_of_attar_ops(self):
        memory = made("gated", 64)
        values, scales = ops.quantize(torch.from_numpy(memory.numbers.copy()))
        narrow = memory.astype("int8")
        assert np.array_equal(narrow.numbers, values)
        assert np.array_equal(narrow.scales, scales)
        assert np.allclose(narrow.to_float32(), ops.dequantize(values, scales), rtol=1e-6, atol=0)

    @pytest.mark.parametrize("m", [1, 9])
    def test_an_int8_lookup_equals_that_of_the_dequantized_memory(self, m):
        memory, queries = made("gated", 64).astype("int8"), np.random.standard_normal((m, 64))
        assert np.allclose(
            memory.lookup(queries), memory.astype("float32").lookup(queries), rtol=1e-3, atol=1e-3
        )

    def test_rows_of_zeros_stay_zero_in_int8(self):
        memory = Memory.of("keyed", np.zeros((3, 2)), tokens=0, reader="r").astype("int8")
        assert memory.lookup(np.ones((1, 3))).tolist() == [[0, 0]]

    def test_numbers_too_large_for_float16_are_refused(self):
        memory = Memory.of("linear", [[1e6]], tokens=1, reader="r")
        with pytest.raises(OptionError, match="up to 65504, got 1e\\+06; use int8"):
            memory.astype("float16")

    def test_an_unknown_precision_is_refused(self):
        with pytest.raises(OptionError, match="one of float32, float16, int8"):
            made("linear").astype("float64")


class TestForms:
    def test_states_become_a_triangle(self):
        memory = states(2, 5)
        assert memory.to_form("triangle").form == "triangle"
        assert np.allclose(memory.to_form("triangle").matrix(), memory.matrix(), **CLOSE)

    def test_converting_to_the_same_form_returns_the_memory(self):
        memory = made("keyed")
        assert memory.to_form("rectangle") is memory

    def test_other_forms_cannot_be_converted(self):
        with pytest.raises(OptionError, match="form: expected rectangle"):
            made("keyed").to_form("triangle")

    def test_only_a_triangle_or_states_have_a_matrix(self):
        with pytest.raises(OptionError, match=r"Memory\.array"):
            made("keyed").matrix()


def counts_of(count: int, times: int = 1) -> Cooccurrence:
    """Names 0 and 1, with the ids 2 and 3, in a sentence with the word 9, repeated `times` times."""
    names, ids, ends = [0, 1, -1] * times, [2, 3, 9] * times, [False, False, True] * times
    options = {"counts": [count], "first": 2, "limit": 6, "common": 0}
    return Cooccurrence.count(names, ids, ends, [len(ids)], **options)[0]


class TestCooccurrence:
    def test_a_memory_has_no_counts_by_default(self):
        assert made("named").cooccurrence is None

    def test_counts_of_fewer_names_are_padded(self):
        table = NameTable.of("Ann", "Bath", "Rome")
        memory = Memory.of(
            "named", np.ones((2, 3)), tokens=1, reader="r", names=table, cooccurrence=counts_of(2)
        )
        assert memory.cooccurrence == counts_of(3)

    def test_counts_of_more_names_are_refused(self):
        with pytest.raises(ShapeError, match="cooccurrence: expected counts of 2 names, got those of 3"):
            made("named", cooccurrence=counts_of(3))

    @pytest.mark.parametrize("mechanism", sorted(set(MECHANISMS) - {"named"}))
    def test_counts_in_other_forms_are_refused(self, mechanism):
        with pytest.raises(OptionError, match="cooccurrence: expected a memory with one vector per name"):
            made(mechanism, cooccurrence=counts_of(2))

    @pytest.mark.parametrize("dtype", ["float16", "int8"])
    def test_counts_do_not_depend_on_the_precision(self, dtype):
        memory = made("named", cooccurrence=counts_of(2))
        assert memory.astype(dtype).cooccurrence == memory.cooccurrence

    def test_nbytes_includes_the_counts(self):
        assert made("named", cooccurrence=counts_of(2)).nbytes == made("named").nbytes + counts_of(2).nbytes

    def test_memories_with_different_counts_are_not_equal(self):
        memory = made("named", cooccurrence=counts_of(2))
        assert memory == pickle.loads(pickle.dumps(memory))
        assert memory != replace(memory, cooccurrence=None)
        assert memory != replace(memory, cooccurrence=counts_of(2, times=2))

    def test_repr_mentions_cooccurrence(self):
        text = repr(made("named", 4, cooccurrence=counts_of(2)))
        assert (
            text == "<Memory: named names, size 4, 7 tokens, 2 names with co-occurrence, 62 bytes of float32>"
        )


class TestValue:
    @pytest.mark.parametrize("mechanism", MECHANISMS)
    def test_a_memory_equals_its_copy_only(self, mechanism):
        memory, other = made(mechanism), made(mechanism)
        assert memory == pickle.loads(pickle.dumps(memory))
        assert memory != other
        assert memory != memory.astype("float16")
        assert memory != 0

    def test_repr_shows_mechanism_form_and_sizes(self):
        assert (
            repr(made("gated", 4))
            == "<Memory: gated triangle, size 4, 7 tokens, 2 names, 40 bytes of float32>"
        )

    def test_an_unknown_attribute_raises_attribute_error(self):
        with pytest.raises(AttributeError, match="no attribute 'nams'"):
            made("gated").nams  # noqa: B018

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "code",
        [
            "import attar.memory",
            "import attar; m = attar.Memory.of('linear', [[1.0]], tokens=1, reader='r')"
            "; attar.Memory.from_bytes((m + m).to_bytes()).names",
        ],
        ids=["import", "make, add, write and read"],
    )
    def test_a_memory_needs_no_torch(self, code):
        code += "; import sys; assert 'torch' not in sys.modules"
        subprocess.run([sys.executable, "-c", code], check=True)
