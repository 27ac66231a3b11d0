"""The GRU's kernels beside PyTorch's own GRU: states and all gradients, forward and backward, ragged."""

import pytest
import torch
from torch import nn

pytest.importorskip("triton")

from attar.paper.gru_kernel import scan_gru

pytestmark = pytest.mark.gpu
# float16 operands hold 11 bits: what tf32 holds.
CLOSE = {"atol": 4e-3, "rtol": 4e-3}


def flat_gates(gru: nn.GRU, x: torch.Tensor) -> torch.Tensor:
    k = gru.hidden_size
    bias = gru.bias_ih_l0 + torch.cat([gru.bias_hh_l0[: 2 * k], torch.zeros_like(gru.bias_hh_l0[2 * k :])])
    return nn.functional.linear(x, gru.weight_ih_l0, bias)


def one_by_one(
    gru: nn.GRU, x: torch.Tensor, initial: torch.Tensor, starts: list[int], lengths: list[int], step: int
):
    """Each sequence alone through PyTorch's GRU."""
    hidden = torch.zeros(len(x), gru.hidden_size, device=x.device)
    for s, (start, length) in enumerate(zip(starts, lengths, strict=True)):
        tokens = start + step * torch.arange(length, device=x.device)
        if length:
            states, _ = gru(x[tokens][None], initial[s][None, None])
            hidden = hidden.index_copy(0, tokens, states[0])
    return hidden


def case(k: int, device: str):
    torch.manual_seed(k)
    gru = nn.GRU(6, k, batch_first=True).to(device)
    x = torch.randn(40, 6, device=device, requires_grad=True)
    return gru, x


FORWARD = ([0, 12, 20, 33], [12, 5, 0, 7], 1)
BACKWARD = ([11, 16, 39, 30], [12, 5, 1, 9], -1)


@pytest.mark.parametrize("sequences", [FORWARD, BACKWARD], ids=["forward", "backward"])
@pytest.mark.parametrize("k", [1, 5, 16, 50, 100, 128], ids="k={}".format)
def test_states_and_gradients_are_those_of_pytorch(k, sequences, device):
    starts, lengths, step = sequences
    gru, x = case(k, device)
    initial = (torch.rand(len(starts), k, device=device) - 0.5).requires_grad_()
    places = [torch.tensor(numbers, dtype=torch.int32, device=device) for numbers in (starts, lengths)]
    expected = one_by_one(gru, x, initial, starts, lengths, step)
    gates = flat_gates(gru, x)
    found = scan_gru(gates, gru.weight_hh_l0, gru.bias_hh_l0[2 * k :], initial, *places, step)
    torch.testing.assert_close(found, expected, **CLOSE)
    G = torch.randn_like(expected)
    wanted = [x, initial, *gru.parameters()]
    for ours, theirs in zip(
        torch.autograd.grad(found, wanted, G), torch.autograd.grad(expected, wanted, G), strict=True
    ):
        torch.testing.assert_close(ours, theirs, atol=4e-3 * max(1.0, float(theirs.abs().max())), rtol=4e-3)


def test_more_sequences_than_one_tile_agree_with_pytorch(device):
    gru, x = case(8, device)
    starts, lengths = list(range(40)), [1] * 40
    initial = torch.zeros(40, 8, device=device)
    places = [torch.tensor(numbers, dtype=torch.int32, device=device) for numbers in (starts, lengths)]
    found = scan_gru(flat_gates(gru, x), gru.weight_hh_l0, gru.bias_hh_l0[16:], initial, *places, 1)
    torch.testing.assert_close(found, one_by_one(gru, x, initial, starts, lengths, 1), **CLOSE)


def test_no_sequences_give_zeros(device):
    gru, x = case(8, device)
    nothing = torch.zeros(0, dtype=torch.int32, device=device)
    gates = flat_gates(gru, x)
    found = scan_gru(gates, gru.weight_hh_l0, gru.bias_hh_l0[16:], x.new_zeros(0, 8), nothing, nothing, 1)
    assert found.abs().sum() == 0
    (grad,) = torch.autograd.grad(found.sum(), gates)
    assert grad.abs().sum() == 0


@pytest.mark.parametrize("size", [1e-6, 1e6], ids="{:g}".format)
def test_gradients_of_any_magnitude_are_precise(size, device):
    gru, x = case(16, device)
    starts, lengths, step = FORWARD
    initial = torch.zeros(4, 16, device=device)
    places = [torch.tensor(numbers, dtype=torch.int32, device=device) for numbers in (starts, lengths)]
    found = scan_gru(flat_gates(gru, x), gru.weight_hh_l0, gru.bias_hh_l0[32:], initial, *places, step)
    expected = one_by_one(gru, x, initial, starts, lengths, step)
    G = size * torch.randn_like(expected)
    (ours,), (theirs,) = torch.autograd.grad(found, x, G), torch.autograd.grad(expected, x, G)
    torch.testing.assert_close(ours / size, theirs / size, atol=4e-3, rtol=4e-3)
