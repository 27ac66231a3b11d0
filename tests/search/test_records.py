"""Records of signatures: documents joined have the sums of both, and sums that nothing real has are left out."""

from dataclasses import replace

import numpy as np
import pytest

from attar.search import SignatureOptions, SignatureRecord, Sums
from attar.search.records import merged

OPTIONS = SignatureOptions(16)


def record_of(sums):
    return SignatureRecord.of(sums, b"statistics", OPTIONS, keep_sums=True).to_bytes()


@pytest.fixture
def sums(corpus, statistics):
    projection = statistics.projection(16)
    return [Sums.of(*each, projection) for each in corpus[:2]]


def test_documents_joined_have_the_sums_of_both(sums):
    joined = SignatureRecord.from_bytes(merged([record_of(each) for each in sums]), OPTIONS).sums()
    np.testing.assert_allclose(joined.triangle, sums[0].triangle + sums[1].triangle)
    assert joined.tokens == sums[0].tokens + sums[1].tokens


@pytest.mark.filterwarnings("error")
def test_sums_that_overflow_are_left_out(sums):
    huge = [record_of(replace(each, total=np.full_like(each.total, 3e38))) for each in sums]
    assert merged(huge) is None
