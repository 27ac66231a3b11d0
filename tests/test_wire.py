"""Packed vectors: what is packed is unpacked the same, and nothing else is taken for it."""

import contextlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attar import wire as vectors
from attar.errors import AttarError, OptionError, ShapeError

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(st.lists(names, min_size=1, max_size=5), st.integers(1, 7), st.booleans())
def test_queries_come_back_as_they_were(written, size, one):
    count = 3 if one else len(written)
    wanted = np.arange(count * size, dtype=np.float32).reshape(count, size)
    about = written[:1] if one else written
    found, numbers = vectors.unpack_queries(vectors.pack_queries(about, wanted), 10)
    assert found == about
    np.testing.assert_array_equal(numbers, wanted)


@given(st.integers(0, 5), st.integers(0, 5))
def test_readouts_come_back_as_they_were(count, width):
    wanted = np.arange(count * width, dtype=np.float32).reshape(count, width)
    np.testing.assert_array_equal(vectors.unpack_readouts(vectors.pack_readouts(wanted)), wanted)


@given(st.binary(max_size=200), st.booleans())
def test_other_bytes_are_refused_as_such(data, headed):
    body = vectors.ASKED + b"\1\0\0\0" + data if headed else data
    # Anything else than an error of the package's own would come out here.
    with contextlib.suppress(AttarError):
        vectors.unpack_queries(body, 10)


@given(st.integers(0, 60))
def test_a_cut_body_is_refused(length):
    whole = vectors.pack_queries(["emma"], np.ones((2, 5), np.float32))
    assert len(whole) > 60
    with pytest.raises(AttarError):
        vectors.unpack_queries(whole[:length], 10)


def test_more_than_may_be_are_refused():
    with pytest.raises(OptionError, match="at most 1"):
        vectors.unpack_queries(vectors.pack_queries(["a"], np.ones((2, 1))), 1)


def test_vectors_have_two_sides():
    with pytest.raises(ShapeError):
        vectors.pack_queries(["a"], np.ones(3))
