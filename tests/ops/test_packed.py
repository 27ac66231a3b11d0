"""Packed memories: the triangle and back, lookups and updates in place."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attar.errors import DeviceError, DtypeError, OptionError, ShapeError
from attar.ops.gram import encode
from attar.ops.packed import pack, packed_lookup, packed_update, unpack

SIZES = [1, 2, 3, 64, 100, 127, 128, 129]
DTYPES = [np.float32, np.float64]


def symmetric(*shape, dtype=np.float64):
    matrix = np.random.standard_normal((*shape, shape[-1]))
    return (matrix + matrix.swapaxes(-1, -2)).astype(dtype)


def triangle(matrix):
    """The definition: the rows of the lower triangle, one after the other."""
    return np.concatenate([matrix[..., i, : i + 1] for i in range(matrix.shape[-1])], axis=-1)


def close(dtype):
    return {"rtol": 0, "atol": 1e-12 if dtype == np.float64 else 2e-4}


class TestPackAndUnpack:
    @pytest.mark.parametrize("k", SIZES)
    @pytest.mark.parametrize("batch", [(), (3,), (2, 1, 2), (0,)], ids=str)
    def test_pack_is_the_triangle_row_by_row_and_unpack_its_inverse(self, k, batch):
        matrix = symmetric(*batch, k)
        packed = pack(torch.from_numpy(matrix))
        assert np.array_equal(packed.numpy(), triangle(matrix))
        assert np.array_equal(unpack(packed).numpy(), matrix)

    def test_first_and_second_derivatives_equal_finite_differences(self):
        states = torch.randn(2, 3, 3, dtype=torch.float64, requires_grad=True)
        packed = torch.randn(2, 6, dtype=torch.float64, requires_grad=True)
        for function, numbers in ((lambda x: pack(x.mT @ x), states), (unpack, packed)):
            assert torch.autograd.gradcheck(function, numbers)
            assert torch.autograd.gradgradcheck(function, numbers)

    @pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16], ids=str)
    def test_a_memory_that_is_not_symmetric_is_refused(self, dtype):
        states = torch.randn(2, 9, 4)
        pack((states.mT @ states).to(dtype))
        with pytest.raises(
            ShapeError, match="memory: expected a symmetric matrix, got one that is not; keep"
        ):
            pack((states.mT @ torch.randn(2, 9, 4)).to(dtype))

    def test_indices_cached_in_inference_mode_work_with_autograd(self):
        with torch.inference_mode():
            pack(torch.zeros(11, 11))
        memory = torch.zeros(11, 11, requires_grad=True)
        pack(memory).sum().backward()
        assert memory.grad.sum() == 66

    @pytest.mark.parametrize("p", [0, 2, 4, 5049, 5051])
    def test_a_size_of_no_triangle_is_refused(self, p):
        with pytest.raises(ShapeError, match=f"got {p}; the nearest sizes are"):
            unpack(torch.zeros(p))

    @pytest.mark.usefixtures("unchecked_shapes")
    @pytest.mark.parametrize("shape", [(2, 3), (3,), (0, 0), ()], ids=str)
    def test_a_memory_that_is_not_square_is_refused(self, shape):
        with pytest.raises(ShapeError, match="memory: expected"):
            pack(torch.zeros(shape))


@pytest.mark.parametrize("dtype", DTYPES)
class TestLookup:
    @pytest.mark.parametrize("k", [*SIZES, 512, 513])
    def test_is_the_product_of_matrix_and_query(self, k, dtype):
        matrix, query = symmetric(k, dtype=dtype), np.random.standard_normal(k).astype(dtype)
        expected = matrix.astype(np.float64) @ query
        assert np.allclose(packed_lookup(triangle(matrix), query), expected, **close(dtype))

    @pytest.mark.parametrize("m", [0, 1, 5])
    def test_several_queries_equal_one_after_the_other(self, m, dtype):
        packed, queries = triangle(symmetric(7, dtype=dtype)), np.random.standard_normal((m, 7)).astype(dtype)
        expected = np.array([packed_lookup(packed, query) for query in queries]).reshape(m, 7)
        assert np.array_equal(packed_lookup(packed, queries), expected)
        out = np.full_like(queries, np.nan)
        assert packed_lookup(packed, queries, out) is out
        assert np.array_equal(out, expected)

    def test_tensors_give_a_tensor(self, dtype):
        packed, query = (
            torch.from_numpy(np.array([1, 2, 5], dtype)),
            torch.from_numpy(np.array([1, 0], dtype)),
        )
        readout = packed_lookup(packed, query)
        assert isinstance(readout, torch.Tensor)
        assert readout.dtype == packed.dtype
        assert readout.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("dtype", DTYPES)
class TestUpdate:
    @pytest.mark.parametrize("k", [*SIZES, 512])
    def test_adds_the_outer_product_in_place(self, k, dtype):
        matrix, f = symmetric(k, dtype=dtype), np.random.standard_normal(k).astype(dtype)
        packed = triangle(matrix)
        address = packed.ctypes.data
        assert packed_update(packed, f, 0.5) is None
        assert packed.ctypes.data == address
        assert np.allclose(packed, triangle(matrix + 0.5 * np.outer(f, f)), **close(dtype))

    @pytest.mark.parametrize("r", [0, 1, 2, 3, 4, 5, 33])
    @pytest.mark.parametrize("k", [1, 3, 100])
    def test_several_tokens_are_the_sum_of_each(self, r, k, dtype):
        f, weights = np.random.standard_normal((r, k)).astype(dtype), np.random.standard_normal(r)
        start = triangle(symmetric(k, dtype=dtype))
        at_once, one_by_one = start.copy(), start.copy()
        packed_update(at_once, f, weights.astype(dtype))
        for token, weight in zip(f, weights.tolist(), strict=True):
            packed_update(one_by_one, token, weight)
        assert np.allclose(at_once, one_by_one, **close(dtype))


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(st.integers(1, 12), st.integers(0, 9), st.integers(0, 2**32 - 1), st.sampled_from(DTYPES))
def test_a_document_written_token_by_token_is_the_one_encoded_at_once(k, n, seed, dtype):
    f = np.random.default_rng(seed).standard_normal((n, k)).astype(dtype)
    packed = np.zeros(k * (k + 1) // 2, dtype)
    packed_update(packed, f[: n // 2])
    packed_update(packed, f[n // 2 :])
    assert np.allclose(packed, pack(encode(torch.from_numpy(f)[None]))[0].numpy(), **close(dtype))


@pytest.mark.usefixtures("unchecked_shapes")
class TestInvalidArguments:
    packed, query = np.zeros(3, np.float32), np.zeros(2, np.float32)

    @pytest.mark.parametrize(
        ("packed", "query", "kind", "says"),
        [
            (np.zeros(4, np.float32), query, ShapeError, r"packed: expected \[3\].* k = 2, got \[4\]"),
            (packed, np.zeros((1, 2, 2), np.float32), ShapeError, r"queries: expected \[k\] or \[m, k\]"),
            (packed, query.astype(np.float64), DtypeError, "expected float64 as the others, got float32"),
            (packed.astype(np.float16), query, DtypeError, "packed: expected float32 .* got float16"),
            (packed, [0.0, 0.0], DtypeError, "queries: expected a numpy array.* got list"),
            (np.zeros(6, np.float32)[::2], query, ShapeError, "packed: expected numbers without gaps"),
            (np.frombuffer(bytes(13), np.float32, 3, 1), query, ShapeError, "expected numbers without gaps"),
            (torch.zeros(3, requires_grad=True), query, DtypeError, r"call \.detach\(\)"),
            (torch.zeros(3, device="meta"), query, DeviceError, "expected a tensor on the CPU, got meta"),
        ],
    )
    def test_are_refused_by_a_lookup(self, packed, query, kind, says):
        with pytest.raises(kind, match=says):
            packed_lookup(packed, query)

    @pytest.mark.parametrize(
        ("packed", "f", "weight", "kind", "says"),
        [
            (
                np.frombuffer(bytes(12), np.float32),
                query,
                1.0,
                OptionError,
                "read-only memory; update a copy",
            ),
            (packed, np.zeros((1, 1, 2), np.float32), 1.0, ShapeError, r"f: expected \[k\] or \[r, k\]"),
            (
                packed,
                np.zeros((2, 2), np.float32),
                [1.0],
                ShapeError,
                r"weight: expected one number, or \[2\]",
            ),
            (packed, np.zeros(2), 1.0, DtypeError, "packed: expected float64"),
        ],
    )
    def test_are_refused_by_an_update(self, packed, f, weight, kind, says):
        with pytest.raises(kind, match=says):
            packed_update(packed, f, weight)
