"""Signatures: sums add and subtract, the root is one, similar texts score high; records that nothing real has fail."""

from dataclasses import replace

import numpy as np
import pytest

from attar.search.signatures import SignatureRecord, Sums, merged_signature, triangle_of


@pytest.fixture(scope="session")
def projection(statistics):
    return statistics.projection(16)


def matrix(triangle, size):
    whole = np.zeros((size, size))
    whole[triangle_of(size)] = triangle
    return whole + np.triu(whole, 1).T


def test_the_root_squared_is_the_matrix(corpus, projection):
    sums = Sums.of(*corpus[0], projection)
    root, whole = matrix(sums.signature(), 16), matrix(sums.triangle, 16)
    np.testing.assert_allclose(root @ root * np.trace(whole), whole, atol=1e-3 * np.abs(whole).max())
    assert np.linalg.norm(root) == pytest.approx(1.0, abs=1e-5)


def test_sums_of_parts_add_up_to_those_of_the_whole(corpus, projection):
    ids, states = corpus[0]
    both = Sums.of(ids[:15], states[:15], projection) + Sums.of(ids[15:], states[15:], projection)
    whole = Sums.of(ids, states, projection)
    np.testing.assert_allclose(both.triangle, whole.triangle, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(both.pieces, whole.pieces)
    np.testing.assert_array_equal(both.counts, whole.counts)
    assert both.tokens == whole.tokens


def record_of(sums):
    return SignatureRecord.of(sums, b"statistics", 16, keep_sums=True).to_bytes()


@pytest.fixture
def sums(corpus, projection):
    return [Sums.of(*each, projection) for each in corpus[:2]]


def test_documents_joined_have_the_sums_of_both(sums):
    joined = SignatureRecord.from_bytes(merged_signature([record_of(each) for each in sums]), 16).sums()
    np.testing.assert_allclose(joined.triangle, sums[0].triangle + sums[1].triangle)
    assert joined.tokens == sums[0].tokens + sums[1].tokens


@pytest.mark.filterwarnings("error")
def test_sums_that_overflow_are_refused(sums):
    huge = [record_of(replace(each, triangle=np.full_like(each.triangle, 3e38))) for each in sums]
    assert merged_signature(huge) is None


@pytest.mark.filterwarnings("error")
def test_the_root_of_the_largest_sums_is_finite(sums):
    largest = replace(sums[0], triangle=np.full_like(sums[0].triangle, np.finfo(np.float32).max))
    assert np.linalg.norm(largest.signature()) > 0.5
