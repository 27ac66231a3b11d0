"""Records of signatures: documents joined have the sums of both, and sums that nothing real has are refused."""

from dataclasses import replace

import numpy as np
import pytest

from attar.errors import RecordError
from attar.search.signatures import SignatureRecord, Sums, merged


def record_of(sums):
    return SignatureRecord.of(sums, b"statistics", 16, keep_sums=True).to_bytes()


@pytest.fixture
def sums(corpus, statistics):
    projection = statistics.projection(16)
    return [Sums.of(*each, projection) for each in corpus[:2]]


def test_documents_joined_have_the_sums_of_both(sums):
    joined = SignatureRecord.from_bytes(merged([record_of(each) for each in sums]), 16).sums()
    np.testing.assert_allclose(joined.triangle, sums[0].triangle + sums[1].triangle)
    assert joined.tokens == sums[0].tokens + sums[1].tokens


@pytest.mark.filterwarnings("error")
def test_sums_that_overflow_are_refused(sums):
    huge = [record_of(replace(each, total=np.full_like(each.total, 3e38))) for each in sums]
    with pytest.raises(RecordError, match="too large to add"):
        merged(huge)


@pytest.mark.filterwarnings("error")
def test_the_root_of_the_largest_sums_is_finite(sums):
    largest = replace(sums[0], triangle=np.full_like(sums[0].triangle, np.finfo(np.float32).max))
    assert np.linalg.norm(largest.signature()) > 0.5
