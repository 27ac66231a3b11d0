"""The paper's gate in front of the Gram product: f = σ(W h + b) ⊙ h."""

import pytest
import torch

from attar.ops.gram import encode, encode_gated

BACKENDS = ["reference", "torch"]


def gated_inputs(batch=3, n=9, k=5):
    h = torch.randn(batch, n, k).double().requires_grad_()
    weight = torch.randn(k, k).double().requires_grad_()
    bias = torch.randn(k).double().requires_grad_()
    return h, weight, bias


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("lengths", [None, [0, 4, 9]], ids=["full", "ragged"])
def test_equals_encoding_the_gated_states(backend, lengths):
    h, weight, bias = gated_inputs()
    alpha, beta = torch.rand(3, 9).double(), torch.rand(3, 9).double()
    initial = torch.randn(3, 5, 5).double()
    others = {"alpha": alpha, "beta": beta, "lengths": lengths, "initial": initial}
    memory = encode_gated(h, weight, bias, **others, backend=backend)
    f = torch.sigmoid(torch.einsum("bnk,jk->bnj", h, weight) + bias) * h
    expected = encode(f, **others, backend="reference")
    torch.testing.assert_close(memory, expected)
    G = torch.randn(3, 5, 5).double()
    found = torch.autograd.grad(memory, (h, weight, bias), G)
    for name, x, y in zip(
        ["h", "weight", "bias"], found, torch.autograd.grad(expected, (h, weight, bias), G), strict=True
    ):
        torch.testing.assert_close(x, y, msg=lambda m, name=name: f"{name}: {m}")


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_lies_in_padding_does_not_reach_the_gate(backend):
    h, weight, bias = gated_inputs()
    lengths = [0, 4, 9]
    dirty = h.detach().clone()
    dirty[torch.arange(9) >= torch.tensor(lengths)[:, None]] = torch.nan
    dirty.requires_grad_()
    G = torch.randn(3, 5, 5).double()
    grads = []
    for states in (h, dirty):
        memory = encode_gated(states, weight, bias, lengths=lengths, backend=backend)
        grads.append((memory, *torch.autograd.grad(memory, (states, weight, bias), G)))
    for x, y in zip(*grads, strict=True):
        torch.testing.assert_close(x, y)


def test_gradients_equal_finite_differences():
    h, weight, bias = gated_inputs(2, 4, 3)
    assert torch.autograd.gradcheck(lambda *x: encode_gated(*x, lengths=[4, 2]), (h, weight, bias))


def test_parameters_may_have_a_wider_dtype_than_the_states():
    h, weight, bias = gated_inputs()
    memory = encode_gated(h.bfloat16(), weight.float(), bias.float())
    assert memory.dtype == torch.float32
    torch.testing.assert_close(memory.double(), encode_gated(h, weight, bias), rtol=0.05, atol=0.1)
