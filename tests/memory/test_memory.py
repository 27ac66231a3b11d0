"""A memory: what it takes, what a lookup returns, its int8 numbers, equality."""

import pickle
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest
import torch

from attar import ops
from attar.errors import AttarError, DtypeError, OptionError, ShapeError
from attar.memory.memory import Memory
from tests.memory.made import VALUES, K, index_of, memory_of

TEXT = "Ann Lee left. Bob ran home on Monday."
FORMS = pytest.mark.parametrize("form", ["phrases", "ridge"])


class TestMaking:
    def test_a_memory_cannot_be_changed(self):
        memory = memory_of(TEXT)
        with pytest.raises(ValueError, match="read-only"):
            memory.numbers[:] = 0
        with pytest.raises(FrozenInstanceError):
            memory.tokens = 3

    @pytest.mark.parametrize(
        ("changes", "error", "line"),
        [
            ({"form": "triangle"}, OptionError, "form: expected phrases or ridge, got 'triangle'"),
            ({"tokens": -1}, OptionError, "tokens: expected 0 or more, got -1"),
            ({"reader": "r" * 70_000}, OptionError, "fingerprint of at most 65535 bytes"),
            ({"numbers": np.zeros((10, K), np.float32)}, DtypeError, "int8 and float32, got float32 and"),
            ({"scales": np.zeros(10)}, DtypeError, "got int8 and float64; use Memory.quantized"),
            ({"numbers": np.zeros(10, np.int8)}, ShapeError, r"\[count, k\] for phrases, got \[10\]"),
            ({"numbers": np.zeros((10, 0), np.int8)}, ShapeError, r"\[count, k\] for phrases, got \[10, 0\]"),
            ({"scales": np.zeros(3, np.float32)}, ShapeError, r"scales: expected \[10\], got \[3\]"),
            ({"phrases": index_of("Ann.")}, ShapeError, "phrases: expected an index of 10 phrases, got 1"),
            ({"scales": np.full(10, np.nan, np.float32)}, OptionError, "finite numbers, got NaN or infinity"),
            ({"scales": np.full(10, np.inf, np.float32)}, OptionError, "finite numbers, got NaN or infinity"),
        ],
    )
    def test_values_that_do_not_fit_are_refused_in_one_line(self, changes, error, line):
        with pytest.raises(error, match=line) as refused:
            replace(memory_of(TEXT), **changes)
        assert isinstance(refused.value, AttarError)
        assert "\n" not in str(refused.value)


class TestInt8:
    def test_a_number_is_off_by_half_a_level_of_its_row_at_most(self):
        numbers = np.random.default_rng(1).standard_normal((10, K)).astype(np.float32)
        memory = Memory.quantized(numbers, form="phrases", phrases=index_of(TEXT), tokens=7, reader="r")
        largest = np.abs(numbers).max(1, keepdims=True)
        assert (np.abs(memory.dequantized - numbers) <= largest / 254 + 1e-6).all()

    def test_rows_of_zeros_stay_zero(self):
        memory = Memory.quantized(
            np.zeros((1, 2), np.float32), form="phrases", phrases=index_of("Ann"), tokens=1, reader="r"
        )
        assert memory.lookup(np.ones((1, 2))).tolist() == [[0]]


class TestLookup:
    @pytest.mark.parametrize("m", [0, 1, 9])
    def test_phrases_have_one_score_each(self, m):
        memory, queries = memory_of(TEXT), np.random.default_rng(0).standard_normal((m, K))
        expected = queries.astype(np.float32) @ memory.dequantized.T
        np.testing.assert_array_equal(memory.lookup(queries), expected)
        assert memory.lookup(queries).shape == (m, 10)

    @pytest.mark.parametrize("m", [1, 9])
    def test_a_ridge_has_the_readouts_of_attar_ops(self, m):
        memory, queries = memory_of(TEXT, form="ridge"), np.random.default_rng(0).standard_normal((m, K))
        sums = torch.from_numpy(memory.dequantized)[None]
        expected = ops.lookup(ops.ridge_solution(sums), torch.from_numpy(queries).float()[None])[0]
        np.testing.assert_allclose(memory.lookup(queries), expected, rtol=1e-4, atol=1e-4)

    @FORMS
    def test_nothing_was_read(self, form):
        readouts = memory_of("", form=form).lookup(np.ones((2, K)))
        assert readouts.shape == (2, 0 if form == "phrases" else VALUES)
        assert not readouts.any()

    @FORMS
    def test_queries_of_another_size_are_refused(self, form):
        for queries in (np.ones(K), np.ones((2, K + 1))):
            with pytest.raises(ShapeError, match=r"queries: expected \[m, 4\], got \["):
                memory_of(TEXT, form=form).lookup(queries)


class TestValue:
    @FORMS
    def test_a_memory_equals_its_copy_only(self, form):
        memory = memory_of(TEXT, form=form)
        assert memory == pickle.loads(pickle.dumps(memory))
        assert memory != memory_of(TEXT, form=form, seed=1)
        assert memory != replace(memory, tokens=9)
        assert memory != 0
