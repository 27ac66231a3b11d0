"""Baselines are right; otherwise a comparison with them says nothing."""

import numpy as np
import pytest
import torch

from attar.ops.lookups import softmax_lookup
from attar.paper import table1_methods as baselines


@pytest.mark.parametrize("name", ["numpy", "torch", "sdpa"])
def test_every_softmax_baseline_equals_softmax_lookup(name):
    hidden, query = torch.randn(20, 4), torch.randn(4)
    expected = softmax_lookup(hidden[None].double(), query[None, None].double())[0, 0]
    if name == "numpy":
        found = torch.from_numpy(np.asarray(baselines.softmax_numpy(hidden.numpy(), query.numpy())))
    else:
        found = getattr(baselines, f"softmax_{name}")(hidden, query)
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)


def test_softmax_in_numpy_and_torch_take_many_queries():
    hidden, queries = torch.randn(20, 12), torch.randn(5, 12)
    expected = softmax_lookup(hidden[None], queries[None])[0]
    readouts = torch.from_numpy(baselines.softmax_numpy(hidden.numpy(), queries.numpy()))
    torch.testing.assert_close(readouts, expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(baselines.softmax_torch(hidden, queries), expected, rtol=1e-5, atol=1e-5)


def test_a_token_index_answers_batches_of_queries_as_it_answers_few():
    index = baselines.TokenIndex(np.random.randn(60, 12).astype(np.float32), 10)
    queries = np.random.randn(index.BATCH + 3, 12).astype(np.float32)
    np.testing.assert_allclose(index.lookup(queries)[-2:], index.lookup(queries[-2:]), rtol=1e-4, atol=1e-5)
