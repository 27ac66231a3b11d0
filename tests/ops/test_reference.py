"""The reference is checked by hand: if it is wrong, everything that it vouches for is."""

import torch

from attar.ops import reference
from attar.ops.reference import AffineGates, squash

F = torch.tensor([[[1.0, 2.0], [3.0, -1.0]]], dtype=torch.float64)


def test_memory_is_the_sum_of_outer_products():
    # [1 2]ᵀ[1 2] + [3 -1]ᵀ[3 -1] = [[1+9, 2-3], [2-3, 4+1]]
    assert reference.encode(F)[0].tolist() == [[10.0, -1.0], [-1.0, 5.0]]


def test_alpha_decays_what_was_there_and_beta_scales_what_is_written():
    alpha, beta = torch.tensor([[5.0, 0.5]]), torch.tensor([[2.0, 3.0]])
    # α₀ decays an empty memory; then 0.5 · 2 · [[1, 2], [2, 4]] + 3 · [[9, -3], [-3, 1]]
    assert reference.encode(F, alpha, beta)[0].tolist() == [[28.0, -7.0], [-7.0, 7.0]]


def test_an_initial_memory_is_decayed_by_every_gate():
    alpha = torch.tensor([[0.5, 0.25]], dtype=torch.float64)
    nothing = torch.zeros_like(F)
    assert reference.encode(nothing, alpha, initial=8 * torch.eye(2)[None])[0].tolist() == [[1, 0], [0, 1]]


def test_padding_changes_nothing():
    mask = torch.tensor([[True, False]])
    alpha = torch.full((1, 2), 0.5)
    noisy = F.clone()
    noisy[0, 1] = torch.nan
    assert reference.encode(noisy, alpha, mask=mask)[0].tolist() == [[1.0, 2.0], [2.0, 4.0]]


def test_the_loop_equals_the_closed_form():
    f, alpha, beta = torch.randn(3, 7, 4).double(), torch.rand(3, 7).double(), torch.rand(3, 7).double()
    C0 = torch.randn(3, 4, 4).double()
    after = torch.stack([alpha[:, t + 1 :].prod(1) for t in range(7)], 1)
    expected = torch.einsum("bn,bni,bnj->bij", after * beta, f, f) + alpha.prod(1)[:, None, None] * C0
    torch.testing.assert_close(reference.encode(f, alpha, beta, initial=C0), expected)


def test_adaptive_gates_read_the_memory_before_the_write():
    read = []

    def cell(h, f, reading):
        read.append(reading[0].tolist())
        return h[:, 0], reading[:, 0] + 1

    h = torch.tensor([[[0.0], [0.5]]], dtype=torch.float64)
    C = reference.encode_adaptive(h, F, cell)
    # C₀ = 0 reads 0, so β = 1; then C₁ f = [[1, 2], [2, 4]] [3, -1] = [1, 2], so β = 2, α = 0.5
    assert read == [[0.0, 0.0], [1.0, 2.0]]
    assert C[0].tolist() == [[0.5 + 18, 1 - 6], [1 - 6, 2 + 2]]


def test_a_lookup_equals_the_product_computed_by_hand():
    C, q = torch.tensor([[[1.0, 2.0], [3.0, 4.0]]]), torch.tensor([[[1.0, 0.0], [1.0, 1.0]]])
    assert reference.lookup(C, q)[0].tolist() == [[1.0, 2.0], [4.0, 6.0]]


def test_softmax_of_equal_scores_is_the_mean():
    H, q = torch.tensor([[[1.0, 0.0], [3.0, 0.0], [9.0, 9.0]]]), torch.tensor([[[0.0, 1.0]]])
    mask = torch.tensor([[True, True, False]])
    assert reference.softmax_lookup(H, q, mask)[0].tolist() == [[2.0, 0.0]]


def test_gates_equal_those_computed_by_hand():
    cell = AffineGates(torch.tensor([[1.0], [0.0]]), torch.tensor([[0.0], [1.0]]), torch.tensor([0.0, 1.0]))
    alpha, beta = cell(torch.tensor([[2.0]]), torch.tensor([[3.0]]), torch.tensor([[1.0]]))
    # α = σ(1 · 2), β = σ(1 / √(1 + 1²) + 1)
    torch.testing.assert_close(alpha, torch.sigmoid(torch.tensor([2.0])))
    torch.testing.assert_close(beta, torch.sigmoid(torch.tensor([1 / 2**0.5 + 1])))


def test_squash_is_differentiable_at_zero():
    reading = torch.zeros(1, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(squash, reading)
