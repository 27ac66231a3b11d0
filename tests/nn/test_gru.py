"""Encoders on our own GRU kernel read as on PyTorch's: states, carried states and gradients."""

import pytest
import torch

pytest.importorskip("triton")

from attar.nn import gru
from attar.nn.encoders import encoder

pytestmark = pytest.mark.gpu


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gru", "lookahead", "bidirectional"])
@pytest.mark.parametrize("lengths", [None, [7, 0, 3]], ids=["full", "ragged"])
def test_the_kernel_agrees_with_torch_gru(name, lengths, device, monkeypatch):
    reads = encoder(name, 5, 6).to(device)
    x = torch.randn(3, 7, 5, device=device, requires_grad=True)
    ends = torch.tensor(
        [[0, 1, 0, 0, 0, 1, 0], [1, 0, 0, 0, 0, 0, 0], [0, 0, 1, 0, 0, 0, 1]], dtype=torch.bool
    )
    results = []
    for fused in (False, True):
        monkeypatch.setattr(gru, "uses_kernel", lambda layer, x, fused=fused: fused)
        hidden, state = reads(x, lengths, sentence_ends=ends)
        weights = torch.arange(hidden.numel(), device=device).view_as(hidden).cos()
        grads = torch.autograd.grad((hidden * weights).sum() + state.sum(), [x, *reads.parameters()])
        results.append([hidden, state, *grads])
    for ours, theirs in zip(results[1], results[0], strict=True):
        torch.testing.assert_close(ours, theirs, atol=4e-3, rtol=4e-3)


def test_a_sentence_ends_with_its_document(device):
    last, counts = gru._sentences(torch.tensor([[False, True, False], [False, False, True]]), [1, 3])
    assert last.tolist() == [5, 0]
    assert counts.tolist() == [3, 1]


def test_no_tokens_give_no_sentences():
    last, counts = gru._sentences(torch.zeros(2, 3, dtype=torch.bool), [0, 0])
    assert len(last) == len(counts) == 0
