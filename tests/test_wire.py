"""Bodies pair names with values; binary vectors survive a round trip, and other bytes are refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attar import wire
from attar.errors import AttarError, OptionError, ShapeError

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(st.lists(names, min_size=1, max_size=5), st.integers(1, 7), st.booleans())
def test_queries_survive_a_round_trip(written, size, one):
    count = 3 if one else len(written)
    expected = np.arange(count * size, dtype=np.float32).reshape(count, size)
    about = written[:1] if one else written
    unpacked, numbers = wire.unpack_queries(wire.pack_queries(about, expected), 10)
    assert unpacked == about
    np.testing.assert_array_equal(numbers, expected)


@given(st.integers(0, 5), st.integers(0, 5))
def test_readouts_survive_a_round_trip(count, width):
    expected = np.arange(count * width, dtype=np.float32).reshape(count, width)
    np.testing.assert_array_equal(wire.unpack_readouts(wire.pack_readouts(expected)), expected)


@given(st.binary(max_size=200), st.booleans())
def test_other_bytes_are_refused_with_an_attar_error(data, headed):
    body = b"ATLQ\1\0\0\0" + data if headed else data
    try:
        names, vectors = wire.unpack_queries(body, 10)
    except AttarError:
        return
    # The few that are valid have exactly the content that they claim.
    assert wire.pack_queries(names, vectors)[: wire.HEADER.size] == body[: wire.HEADER.size]
    assert len(wire.pack_queries(names, vectors)) == len(body)


@given(st.integers(0, 60))
def test_a_truncated_body_is_refused(length):
    whole = wire.pack_queries(["emma"], np.ones((2, 5), np.float32))
    assert len(whole) > 60
    with pytest.raises(AttarError):
        wire.unpack_queries(whole[:length], 10)


def test_more_vectors_than_the_limit_are_refused():
    with pytest.raises(OptionError, match="at most 1"):
        wire.unpack_queries(wire.pack_queries(["a"], np.ones((2, 1))), 1)


def test_vectors_that_are_not_a_matrix_are_refused():
    with pytest.raises(ShapeError):
        wire.pack_queries(["a"], np.ones(3))


@pytest.mark.parametrize(
    ("body", "names", "questions"),
    [
        ({"document": "a", "question": "Q"}, ["a"], ["Q"]),
        ({"document": "a", "questions": ["Q", "R"]}, ["a", "a"], ["Q", "R"]),
        ({"documents": ["a", "b"], "question": "Q"}, ["a", "b"], ["Q", "Q"]),
        ({"documents": ["a", "b"], "questions": ["Q", "R"]}, ["a", "b"], ["Q", "R"]),
    ],
)
def test_documents_and_questions_are_paired(body, names, questions):
    ask = wire.Ask(**body)
    assert ask.pairs() == (names, questions)
    assert ask.single == (set(body) == {"document", "question"})


@pytest.mark.parametrize(
    ("body", "error", "message"),
    [
        ({}, OptionError, '"question" or "questions", got neither'),
        ({"document": "a", "documents": ["a"], "question": "Q"}, OptionError, "got both"),
        ({"document": "a"}, OptionError, '"question" or "questions", got neither'),
        ({"documents": [], "question": "Q"}, OptionError, "at least one"),
        ({"document": "a", "questions": []}, OptionError, "at least one"),
        ({"documents": ["a", "b"], "questions": ["Q"] * 3}, ShapeError, "one for each of 2 documents, got 3"),
    ],
)
def test_bodies_without_pairs_are_refused(body, error, message):
    with pytest.raises(error, match=message):
        wire.Ask(**body).pairs()
