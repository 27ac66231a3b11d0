"""Binary vectors survive a round trip, and other bytes are refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attar.errors import AttarError, OptionError, ShapeError
from attar.vectors import HEADER, pack_queries, pack_readouts, unpack_queries, unpack_readouts

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(st.lists(names, min_size=1, max_size=5), st.integers(1, 7), st.booleans())
def test_queries_survive_a_round_trip(written, size, one):
    count = 3 if one else len(written)
    expected = np.arange(count * size, dtype=np.float32).reshape(count, size)
    about = written[:1] if one else written
    unpacked, numbers = unpack_queries(pack_queries(about, expected), 10)
    assert unpacked == about
    np.testing.assert_array_equal(numbers, expected)


@given(st.integers(0, 5), st.integers(0, 5))
def test_readouts_survive_a_round_trip(count, width):
    expected = np.arange(count * width, dtype=np.float32).reshape(count, width)
    np.testing.assert_array_equal(unpack_readouts(pack_readouts(expected)), expected)


@given(st.binary(max_size=200), st.booleans())
def test_other_bytes_are_refused_with_an_attar_error(data, headed):
    body = b"ATLQ\1\0\0\0" + data if headed else data
    try:
        names, vectors = unpack_queries(body, 10)
    except AttarError:
        return
    # The few that are valid have exactly the content that they claim.
    assert pack_queries(names, vectors)[: HEADER.size] == body[: HEADER.size]
    assert len(pack_queries(names, vectors)) == len(body)


@given(st.integers(0, 60))
def test_a_truncated_body_is_refused(length):
    whole = pack_queries(["emma"], np.ones((2, 5), np.float32))
    assert len(whole) > 60
    with pytest.raises(AttarError):
        unpack_queries(whole[:length], 10)


def test_more_vectors_than_the_limit_are_refused():
    with pytest.raises(OptionError, match="at most 1"):
        unpack_queries(pack_queries(["a"], np.ones((2, 1))), 1)


def test_vectors_that_are_not_a_matrix_are_refused():
    with pytest.raises(ShapeError):
        pack_queries(["a"], np.ones(3))
