"""Questions put to memories, and softmax over every state beside them."""

import pytest
import torch

from attar.ops import reference
from attar.ops.gram import encode
from attar.ops.lookups import RIDGE, lookup, ridge_solution, softmax_lookup
from tests.ops.plain_ridge import plain_ridge

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


@pytest.mark.parametrize("batch", [0, 1, 3])
@pytest.mark.parametrize("m", [0, 1, 4])
@pytest.mark.parametrize("k", [1, 5, 16])
def test_lookup_agrees_with_the_reference(batch, m, k):
    memory = torch.randn(batch, k, k).double().requires_grad_()
    queries = torch.randn(batch, m, k).double().requires_grad_()
    readouts, expected = lookup(memory, queries), reference.lookup(memory, queries)
    torch.testing.assert_close(readouts, expected)
    R = torch.randn_like(expected)
    for x, y in zip(
        *(torch.autograd.grad(r, (memory, queries), R) for r in (readouts, expected)), strict=True
    ):
        torch.testing.assert_close(x, y)


def test_queries_meet_the_keys_where_there_are_as_many_values():
    keys, values, queries = torch.randn(3, 1, 9, 4).double().unbind(0)
    expected = torch.einsum("bmk,bnk,bnd->bmd", queries, keys, values)
    torch.testing.assert_close(lookup(keys.mT @ values, queries), expected)


def test_reading_a_memory_is_linear_attention():
    hidden, queries = torch.randn(2, 30, 6).double(), torch.randn(2, 3, 6).double()
    expected = torch.einsum("bnk,bnj,bmj->bmk", hidden, hidden, queries)
    torch.testing.assert_close(lookup(encode(hidden), queries), expected)


@pytest.mark.parametrize("of_memory", DTYPES, ids=str)
@pytest.mark.parametrize("of_queries", DTYPES, ids=str)
def test_lookup_multiplies_in_the_wider_dtype_and_returns_the_queries_dtype(of_memory, of_queries):
    memory, queries = torch.randn(2, 5, 5).to(of_memory), torch.randn(2, 3, 5).to(of_queries)
    readouts = lookup(memory, queries)
    assert readouts.dtype == of_queries
    expected = reference.lookup(memory.double(), queries.double())
    eps = torch.finfo(of_queries).eps + torch.finfo(torch.promote_types(of_memory, of_queries)).eps
    assert (readouts.double() - expected).abs().max() <= 2 * eps * expected.abs().max()


@pytest.mark.parametrize("lengths", [None, [5, 9, 1]], ids=["full", "ragged"])
@pytest.mark.parametrize("m", [1, 4])
def test_softmax_agrees_with_the_reference(lengths, m):
    hidden = torch.randn(3, 9, 4).double().requires_grad_()
    queries = torch.randn(3, m, 4).double().requires_grad_()
    mask = None if lengths is None else torch.arange(9) < torch.tensor(lengths)[:, None]
    readouts = softmax_lookup(hidden, queries, lengths=lengths)
    expected = reference.softmax_lookup(hidden, queries, mask)
    torch.testing.assert_close(readouts, expected)
    R = torch.randn_like(expected)
    for x, y in zip(
        *(torch.autograd.grad(r, (hidden, queries), R) for r in (readouts, expected)), strict=True
    ):
        torch.testing.assert_close(x, y)


@pytest.mark.parametrize(("batch", "n", "m"), [(0, 3, 2), (2, 0, 2), (2, 3, 0)])
def test_softmax_without_documents_tokens_or_queries_reads_zeros(batch, n, m):
    readouts = softmax_lookup(torch.randn(batch, n, 4), torch.randn(batch, m, 4))
    assert readouts.shape == (batch, m, 4)
    assert (readouts == 0).all()


def test_what_lies_in_padding_does_not_leak_into_softmax():
    hidden = torch.randn(3, 6, 4).double()
    lengths = torch.tensor([0, 2, 6])
    dirty = hidden.clone()
    behind = torch.arange(6) >= lengths[:, None]
    dirty[behind] = torch.nan
    dirty.requires_grad_()
    queries = torch.randn(3, 2, 4).double().requires_grad_()
    readouts = softmax_lookup(dirty, queries, lengths=lengths)
    torch.testing.assert_close(readouts, softmax_lookup(hidden, queries, lengths=lengths))
    of_hidden, of_queries = torch.autograd.grad(readouts.square().sum(), (dirty, queries))
    assert of_hidden.isfinite().all()
    assert of_queries.isfinite().all()
    assert (of_hidden[behind] == 0).all()


def test_softmax_of_large_scores_stays_finite():
    hidden = torch.tensor([[[300.0], [-300.0]]])
    assert softmax_lookup(hidden, torch.tensor([[[300.0]]])).item() == 300


def written(keys, values):
    """C next to G of each document, pair by pair."""
    return sum(key[:, :, None] * torch.cat([x, key], 1)[:, None] for key, x in zip(keys, values, strict=True))


def ridge_lookup(memory, queries, ridge=RIDGE):
    return lookup(ridge_solution(memory, ridge=ridge), queries)


class TestRidge:
    @pytest.mark.parametrize("batch", [0, 1, 3])
    @pytest.mark.parametrize("m", [0, 1, 4])
    @pytest.mark.parametrize(("k", "d"), [(1, 1), (5, 3), (3, 16)])
    def test_agrees_with_the_reference(self, batch, m, k, d):
        memory = written(torch.randn(4, batch, k).double(), torch.randn(4, batch, d).double())
        memory, queries = memory.requires_grad_(), torch.randn(batch, m, k).double().requires_grad_()
        readouts, expected = (ridge_lookup(memory, queries, ridge=0.3), plain_ridge(memory, queries, 0.3))
        assert readouts.shape == (batch, m, d)
        torch.testing.assert_close(readouts, expected)
        R = torch.randn_like(expected)
        for x, y in zip(
            *(torch.autograd.grad(r, (memory, queries), R) for r in (readouts, expected)), strict=True
        ):
            torch.testing.assert_close(x, y)

    def test_second_derivatives_equal_finite_differences(self):
        memory = written(torch.randn(4, 2, 3).double(), torch.randn(4, 2, 2).double())
        inputs = memory.requires_grad_(), torch.randn(2, 2, 3).double().requires_grad_()
        assert torch.autograd.gradgradcheck(ridge_lookup, inputs)

    def test_an_empty_memory_reads_as_zero(self):
        assert not ridge_lookup(torch.zeros(2, 3, 7), torch.randn(2, 4, 3)).any()

    @pytest.mark.parametrize("of_queries", DTYPES, ids=str)
    @pytest.mark.parametrize("of_memory", DTYPES, ids=str)
    def test_solves_in_float32_or_wider_and_returns_the_queries_dtype(self, of_memory, of_queries):
        memory, queries = written(torch.randn(9, 2, 3), torch.randn(9, 2, 4)), torch.randn(2, 5, 3)
        found = ridge_lookup(memory.to(of_memory), queries.to(of_queries))
        assert found.dtype == of_queries
        expected = plain_ridge(memory.double(), queries.double(), RIDGE)
        # Half precision rounds the memory and the readouts, not what is between.
        near = 1e-3 if torch.finfo(of_memory).bits >= 32 <= torch.finfo(of_queries).bits else 0.1
        torch.testing.assert_close(found.double(), expected, rtol=near, atol=near)
