"""The short way of `packed_lookup`, for plain arrays: the same readouts, and the same complaints."""

import numpy as np
import pytest
import torch

from attar.errors import AttarError
from attar.ops.packed import lookup
from attar.ops.packed.lookup import packed_lookup
from attar.ops.packed.triangle import pack

K = 6


def memory_and_query(dtype=np.float32):
    root = torch.randn(K, K).double()
    C = root @ root.mT
    query = torch.randn(K).double()
    return pack(C).numpy().astype(dtype), query.numpy().astype(dtype), (C @ query).numpy()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("given", [True, False], ids=["out", "no out"])
def test_plain_arrays_skip_the_separate_checks(monkeypatch, dtype, given):
    packed, query, expected = memory_and_query(dtype)
    packed.flags.writeable = query.flags.writeable = False
    monkeypatch.setattr(lookup, "_as_array", None)  # the long way's first step
    out = np.full(K, np.nan, dtype) if given else None
    found = packed_lookup(packed, query, out)
    assert found.dtype == dtype
    assert found is out or not given
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def shut(array):
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    ("packed", "query", "out"),
    [
        (np.zeros(20, np.float32), np.zeros(6, np.float32), None),
        (np.zeros((1, 21), np.float32), np.zeros(6, np.float32), None),
        (np.zeros(42, np.float32)[::2], np.zeros(6, np.float32), None),
        (np.zeros(21, np.float64), np.zeros(6, np.float32), None),
        (np.zeros(21, np.float16), np.zeros(6, np.float16), None),
        (np.zeros(21, np.float32), np.zeros(12, np.float32)[::2], None),
        (np.zeros(0, np.float32), np.zeros(0, np.float32), None),
        (np.zeros(21, np.float32), np.zeros((1, 6), np.float32), None),
        (np.zeros(21, np.float32), np.zeros(6, np.float32), np.zeros(7, np.float32)),
        (np.zeros(21, np.float32), np.zeros(6, np.float32), np.zeros((6, 1), np.float32)),
        (np.zeros(21, np.float32), np.zeros(6, np.float32), np.zeros(6, np.float64)),
        (np.zeros(21, np.float32), np.zeros(6, np.float32), np.zeros(12, np.float32)[::2]),
        (np.zeros(21, np.float32), np.zeros(6, np.float32), shut(np.zeros(6, np.float32))),
    ],
)
def test_invalid_arrays_are_refused(packed, query, out):
    with pytest.raises(AttarError):
        packed_lookup(packed, query, out)


def test_unaligned_arrays_are_read():
    packed, query, expected = memory_and_query()
    odd = np.frombuffer(b"x" + packed.tobytes(), np.uint8)[1:].view(np.float32)
    assert not odd.flags.aligned
    np.testing.assert_allclose(packed_lookup(odd, query), expected, rtol=1e-4, atol=1e-4)
