"""Memories add up: what is read apart and summed is read together, and a part can be taken out again."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attar.ops.gram import encode

BACKENDS = ["reference", "torch"]


def document(n=11, k=4, batch=2):
    f = torch.randn(batch, n, k).double()
    return f, torch.randn(batch, n).double(), torch.randn(batch, n).double()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("cut", range(12))
def test_continuing_from_any_token_equals_encoding_at_once(backend, cut):
    f, alpha, beta = document()
    first = encode(f[:, :cut], alpha=alpha[:, :cut], beta=beta[:, :cut], backend=backend)
    both = encode(f[:, cut:], alpha=alpha[:, cut:], beta=beta[:, cut:], initial=first, backend=backend)
    torch.testing.assert_close(both, encode(f, alpha=alpha, beta=beta, backend=backend))


@settings(max_examples=25, deadline=None)
@given(cuts=st.lists(st.integers(0, 11), max_size=5).map(sorted))
def test_encoding_in_parts_equals_encoding_at_once(cuts):
    f, alpha, beta = document()
    memory = None
    for start, end in zip([0, *cuts], [*cuts, 11], strict=True):
        part = slice(start, end)
        memory = encode(f[:, part], alpha=alpha[:, part], beta=beta[:, part], initial=memory)
    torch.testing.assert_close(memory, encode(f, alpha=alpha, beta=beta))


@pytest.mark.parametrize("backend", BACKENDS)
def test_continuing_documents_of_different_lengths_equals_encoding_at_once(backend):
    f, alpha, beta = document(batch=3)
    lengths = [0, 4, 11]
    first = encode(f, alpha=alpha, beta=beta, lengths=lengths, backend=backend)
    for row, end in enumerate(lengths):
        rest = (x[row : row + 1, end:] for x in (f, alpha, beta))
        g, a, b = rest
        whole = encode(g, alpha=a, beta=b, initial=first[row : row + 1], backend=backend)
        torch.testing.assert_close(whole[0], encode(f, alpha=alpha, beta=beta)[row])


@pytest.mark.parametrize("backend", BACKENDS)
def test_merging_equals_concatenating(backend):
    a, b = torch.randn(2, 5, 4).double(), torch.randn(2, 9, 4).double()
    merged = encode(a, backend=backend) + encode(b, backend=backend)
    torch.testing.assert_close(merged, encode(torch.cat([a, b], 1), backend=backend))


@pytest.mark.parametrize("backend", BACKENDS)
def test_subtracting_removes_a_part(backend):
    a, b = torch.randn(2, 5, 4).double(), torch.randn(2, 9, 4).double()
    both = encode(torch.cat([a, b], 1), backend=backend)
    torch.testing.assert_close(both - encode(b, backend=backend), encode(a, backend=backend))


@pytest.mark.parametrize("backend", BACKENDS)
def test_order_does_not_matter_without_decay(backend):
    f, _, beta = document()
    order = torch.randperm(11)
    shuffled = encode(f[:, order], beta=beta[:, order], backend=backend)
    torch.testing.assert_close(shuffled, encode(f, beta=beta, backend=backend))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("n", [0, 1, 3, 40], ids="n={}".format)
def test_memories_are_symmetric_and_positive_semidefinite(backend, n):
    f = torch.randn(3, n, 7)
    memory = encode(f, alpha=torch.rand(3, n), beta=torch.rand(3, n), backend=backend)
    torch.testing.assert_close(memory, memory.mT)
    lowest = torch.linalg.eigvalsh(memory.double()).min()
    assert lowest >= -1e-5 * memory.abs().max()


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_pass_through_a_cut(backend):
    f = torch.randn(1, 6, 3).double().requires_grad_()
    alpha = torch.rand(1, 6).double().requires_grad_()
    first = encode(f[:, :2], alpha=alpha[:, :2], backend=backend)
    cut = encode(f[:, 2:], alpha=alpha[:, 2:], initial=first, backend=backend)
    whole = encode(f, alpha=alpha, backend=backend)
    G = torch.randn(1, 3, 3).double()
    for x, y in zip(*(torch.autograd.grad(C, (f, alpha), G) for C in (cut, whole)), strict=True):
        torch.testing.assert_close(x, y)
