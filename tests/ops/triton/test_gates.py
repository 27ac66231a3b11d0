"""Running products and sums over gates: the kernels against the torch backend's in float64."""

import pytest
import torch

from attar.ops import gram
from attar.ops.triton import gates as kernels

pytestmark = pytest.mark.gpu

BLOCK = 8
LENGTHS = [0, 1, 7, 8, 9, 17]
GATES = {
    "mild": lambda batch, n: 0.9 + 0.15 * torch.rand(batch, n),
    "of both signs": lambda batch, n: torch.randn(batch, n).clamp(-1.2, 1.2),
    "shut now and then": lambda batch, n: torch.rand(batch, n) * (torch.rand(batch, n) > 0.2),
    "all shut": lambda batch, n: torch.zeros(batch, n),
    "all open": lambda batch, n: torch.ones(batch, n),
}


@pytest.fixture
def short_blocks(monkeypatch):
    """Many blocks at little cost: everything here happens at their borders."""
    monkeypatch.setattr(kernels, "BLOCK", BLOCK)


def assert_close(found, expected):
    torch.testing.assert_close(found.cpu().double(), expected, rtol=1e-5, atol=1e-6)


def assert_products_agree(alpha, device):
    after, kept = kernels.decay_after(alpha.to(device))
    expected_after, expected_kept = gram.decay_after(alpha.double())
    assert_close(after, expected_after)
    assert_close(kept, expected_kept)


def assert_sums_agree(alpha, written, device):
    """The torch backend's first sum is ⟨G, C₀⟩; here it is given."""
    G, initial = torch.randn(2, len(alpha), 3, 3)
    first = (G * initial).sum((1, 2))
    found = kernels.energy_before(alpha.to(device), written.to(device), first.to(device))
    assert_close(found, gram.energy_before(alpha.double(), written.double(), initial.double(), G.double()))


def assert_agree(alpha, written, device):
    assert_products_agree(alpha, device)
    assert_sums_agree(alpha, written, device)


@pytest.mark.parametrize("gates", GATES)
@pytest.mark.parametrize("n", LENGTHS, ids="n={}".format)
def test_agree_at_block_boundaries(n, gates, device, short_blocks):
    assert_agree(GATES[gates](2, n), torch.randn(2, n), device)


@pytest.mark.parametrize("batch", [0, 1, 3], ids="batch={}".format)
@pytest.mark.parametrize("n", [0, 9], ids="n={}".format)
def test_agree_for_any_number_of_documents(batch, n, device, short_blocks):
    assert_agree(GATES["mild"](batch, n), torch.randn(batch, n), device)


def test_agree_within_one_block_of_the_usual_size(device):
    assert_agree(GATES["mild"](1, 5), torch.randn(1, 5), device)


VIEWS = {
    "transposed": lambda x: x.T.contiguous().T,
    "strided": lambda x: torch.stack([x, x + 1], -1).flatten(-2)[..., ::2],
    "expanded": lambda x: x[:1].expand(x.shape),
}


@pytest.mark.parametrize("view", VIEWS)
def test_gates_may_have_any_strides(view, device, short_blocks):
    assert_agree(VIEWS[view](GATES["mild"](3, 20)), VIEWS[view](torch.randn(3, 20)), device)


def test_alpha_of_zero_gives_exact_zeros(device, short_blocks):
    alpha = torch.rand(1, 20, device=device) + 0.5
    alpha[0, 12] = 0
    after, kept = kernels.decay_after(alpha)
    assert (after[0, :12] == 0).all()
    assert (after[0, 12:] > 0).all()
    assert kept.item() == 0
