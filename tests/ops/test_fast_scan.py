"""The adaptive scan where nobody differentiates: gates by sweeps, against the loop that they replace."""

import pytest
import torch

from attar.ops import fast_scan
from attar.ops.reference import AffineGates
from attar.ops.scan import encode_adaptive

CHUNK = 8
STRENGTHS = {"blind": 0.0, "mild": 0.3, "strong": 3.0, "saturated": 100.0}
TOLERANCES = {torch.float64: 1e-12, torch.float32: 2e-5}


@pytest.fixture(autouse=True)
def short_chunks(monkeypatch):
    monkeypatch.setattr(fast_scan, "CHUNK", CHUNK)


def documents(batch=3, n=37, k=5, d=3):
    h, f, root = (torch.randn(shape).double() for shape in ((batch, n, d), (batch, n, k), (batch, k, k)))
    return h, f, root @ root.mT


def gates(strength, d=3, k=5, bias=(2.0, 0.0)):
    tensors = torch.randn(2, d), strength * torch.randn(2, k), torch.tensor(bias), strength * torch.randn(2)
    return AffineGates(*(x.double() for x in tensors))


def cast(cell, dtype):
    return AffineGates(*(x.to(dtype) for x in cell.tensors()))


def assert_exact(h, f, cell, initial=None, lengths=None, dtype=torch.float64):
    expected = encode_adaptive(h, f, cell, initial=initial, lengths=lengths, backend="reference")
    start = None if initial is None else initial.to(dtype)
    narrow = h.to(dtype), f.to(dtype), cast(cell, dtype)
    found = encode_adaptive(*narrow, initial=start, lengths=lengths, backend="torch")
    assert found.dtype == dtype
    error = (found - expected).norm() / expected.norm().clamp_min(1e-300)
    assert error <= TOLERANCES[dtype]


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("strength", STRENGTHS)
@pytest.mark.parametrize("n", [1, 2, CHUNK - 1, CHUNK, CHUNK + 1, 4 * CHUNK + 5], ids="n={}".format)
def test_agrees_with_the_reference_for_gates_of_any_strength(n, strength, dtype):
    h, f, initial = documents(n=n)
    assert_exact(h, f, gates(STRENGTHS[strength]), initial, dtype=dtype)


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("strength", STRENGTHS)
def test_ragged_documents_agree_with_the_reference(strength, dtype):
    h, f, initial = documents(batch=6)
    behind = torch.arange(37) >= torch.tensor([37, 0, 1, 8, 9, 30])[:, None]
    h[behind], f[behind] = torch.nan, torch.nan
    assert_exact(h, f, gates(STRENGTHS[strength]), initial, [37, 0, 1, 8, 9, 30], dtype)


@pytest.mark.parametrize("bias", [(-1e4, 0.0), (0.0, -1e4), (1e4, 1e4), (-40.0, 3.0)], ids=str)
def test_saturated_gates_agree_with_the_reference(bias):
    h, f, initial = documents()
    assert_exact(h, f, gates(1.0, bias=bias), initial)


def test_nan_stays_in_its_document():
    h, f, initial = documents()
    cell = gates(3.0)
    clean = encode_adaptive(h, f, cell, initial=initial)
    f[1, 4] = torch.nan
    dirty = encode_adaptive(h, f, cell, initial=initial)
    assert dirty[1].isnan().all()
    torch.testing.assert_close(dirty[[0, 2]], clean[[0, 2]])


def test_a_long_chunk_of_strong_gates_is_exact(monkeypatch):
    monkeypatch.setattr(fast_scan, "CHUNK", 64)
    h, f, _ = documents(n=64)
    assert_exact(h, f, gates(1.0))


@pytest.mark.parametrize("strength", STRENGTHS)
@pytest.mark.parametrize("backward", ["checkpoint", "invert"])
def test_gradients_agree_with_the_reference_for_gates_of_any_strength(strength, backward):
    h, f, initial = (x.requires_grad_() for x in documents())
    cell = AffineGates(*(x.requires_grad_() for x in gates(STRENGTHS[strength]).tensors()))
    leaves, G = (h, f, initial, *cell.tensors()), torch.randn(3, 5, 5).double()
    results = []
    for options in ({"backend": "reference"}, {"backward": backward}):
        memory = encode_adaptive(h, f, cell, initial=initial, lengths=[37, 20, 0], **options)
        results.append(torch.autograd.grad(memory, leaves, G))
    for expected, found in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-9)
