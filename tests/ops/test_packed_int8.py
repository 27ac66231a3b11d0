"""Packed memories in int8: no number is off by more than half a level, whatever symmetric matrix came."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attar.errors import DtypeError, ShapeError
from attar.ops.gram import encode
from attar.ops.packed import SCALE_DTYPES, dequantize, pack, quantize, unpack


def memories_of(*shape, spread=1.0):
    """Packed memories of random documents, whose rows differ in size by e^spread and more."""
    f = torch.randn(shape, dtype=torch.float64) * torch.exp(spread * torch.randn(shape[-1]).double())
    return pack(encode(f))


def half_level(scales):
    s = scales.double()
    return pack(s[..., :, None] * s[..., None, :]) / 254


def assert_within_half_a_level(packed, values, scales):
    error = (dequantize(values, scales, dtype=torch.float64) - packed).abs()
    assert (error <= half_level(scales) * (1 + 1e-5)).all()


@pytest.mark.parametrize("scale_dtype", SCALE_DTYPES, ids=str)
@pytest.mark.parametrize("n", [1, 2, 50])
@pytest.mark.parametrize("k", [1, 2, 3, 17, 64])
def test_rounding_errors_are_at_most_half_a_level(k, n, scale_dtype):
    packed = memories_of(4, n, k, spread=3.0)
    values, scales = quantize(packed, scale_dtype=scale_dtype)
    assert (values.dtype, scales.dtype) == (torch.int8, scale_dtype)
    assert (values.shape, scales.shape) == (packed.shape, (4, k))
    assert_within_half_a_level(packed, values, scales)


def test_rows_of_zeros_come_back_as_zeros():
    memory = torch.zeros(3, 3)
    memory[1, 1] = 4.0
    values, scales = quantize(pack(memory))
    assert scales.tolist() == [0.0, 2.0, 0.0]
    assert torch.equal(unpack(dequantize(values, scales)), memory)


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 9), st.integers(0, 2**32 - 1), st.floats(0, 4), st.sampled_from(SCALE_DTYPES))
def test_random_symmetric_matrices_have_the_same_error_bound(k, seed, spread, scale_dtype):
    generator = torch.Generator().manual_seed(seed)
    matrix = torch.randn(k, k, generator=generator, dtype=torch.float64)
    matrix = matrix * torch.exp(spread * torch.randn(k, k, generator=generator, dtype=torch.float64))
    packed = pack(matrix.tril() + matrix.tril(-1).T)
    assert_within_half_a_level(packed, *quantize(packed, scale_dtype=scale_dtype))


@pytest.mark.usefixtures("unchecked_shapes")
def test_invalid_arguments_are_refused():
    values, scales = quantize(torch.ones(2, 6))
    with pytest.raises(ShapeError, match="nearest sizes are 3 and 6"):
        quantize(torch.ones(5))
    with pytest.raises(DtypeError, match=r"scale_dtype: .* got torch.float16"):
        quantize(torch.ones(6), scale_dtype=torch.float16)
    with pytest.raises(DtypeError, match="values: expected int8"):
        dequantize(values.int(), scales)
    with pytest.raises(ShapeError, match=r"scales: expected \[2, 3\], got \[2, 4\]"):
        dequantize(values, torch.ones(2, 4))
