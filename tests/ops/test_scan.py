"""Gates that look at the memory: the chunked scan against the plain loop, both ways backward."""

import pytest
import torch
from torch import nn

from attar.errors import DtypeError
from attar.ops import fast_scan, scan
from attar.ops.gram import encode
from attar.ops.reference import AffineGates, squash
from attar.ops.scan import encode_adaptive

BACKWARDS = ["checkpoint", "invert"]
CHUNK = 4


@pytest.fixture(autouse=True)
def short_chunks(monkeypatch):
    """Many chunks at little cost: everything here happens at their borders."""
    monkeypatch.setattr(scan, "CHUNK", CHUNK)
    monkeypatch.setattr(fast_scan, "CHUNK", CHUNK)


class Perceptron(nn.Module):
    """A cell that nobody has heard of."""

    def __init__(self, d, k):
        super().__init__()
        self.hidden, self.out = nn.Linear(d + 2 * k, 6), nn.Linear(6, 2)

    def forward(self, h, f, reading):
        gates = self.out(torch.tanh(self.hidden(torch.cat([h, f, squash(reading)], -1))))
        return torch.sigmoid(gates[:, 0] + 1), torch.sigmoid(gates[:, 1])


class Rewriter(Perceptron):
    """A cell that also decides what is written: f(h, C f)."""

    def __init__(self, d, k):
        super().__init__(d, k)
        self.write = nn.Linear(k, k)

    def forward(self, h, f, reading):
        return *super().forward(h, f, reading), torch.sigmoid(self.write(squash(reading))) * f


def affine(d, k):
    tensors = torch.randn(2, d), torch.randn(2, k), torch.tensor([2.0, 0.0])
    return AffineGates(*(x.double().requires_grad_() for x in tensors))


def with_energy(d, k):
    energy = torch.tensor([1.0, -2.0]).double().requires_grad_()
    return AffineGates(*affine(d, k).tensors(), energy)


def rewriter(d, k):
    return Rewriter(d, k).double()


def perceptron(d, k):
    return Perceptron(d, k).double()


def closure(d, k):
    cell = affine(d, k)
    return lambda h, f, reading: cell(h, f, reading)


CELLS = {"affine": affine, "with energy": with_energy, "perceptron": perceptron, "rewriter": rewriter}
BOTH = [
    pytest.param(cell, backward, id=f"{cell}, {backward}")
    for cell in CELLS
    for backward in BACKWARDS
    if backward == "checkpoint" or cell in ("affine", "with energy")
]


def parameters(cell):
    if isinstance(cell, AffineGates):
        return cell.tensors()
    return tuple(cell.parameters()) if isinstance(cell, nn.Module) else ()


def documents(batch=2, n=11, k=5, d=3):
    shapes = (batch, n, d), (batch, n, k), (batch, k, k)
    h, f, root = (torch.randn(shape).double() for shape in shapes)
    initial = root @ root.mT
    return tuple(x.requires_grad_() for x in (h, f, initial))


def values_and_gradients(inputs, cell, G, **options):
    h, f, initial = inputs
    memory = encode_adaptive(h, f, cell, initial=initial, **options)
    wanted = (*inputs, *parameters(cell))
    return memory, *torch.autograd.grad(memory, wanted, G, allow_unused=True, materialize_grads=True)


def assert_agrees(inputs, cell, lengths=None, **options):
    G = torch.randn_like(inputs[2])
    expected = values_and_gradients(inputs, cell, G, lengths=lengths, backend="reference")
    found = values_and_gradients(inputs, cell, G, lengths=lengths, **options)
    for place, (x, y) in enumerate(zip(found, expected, strict=True)):
        torch.testing.assert_close(x, y, rtol=1e-7, atol=1e-9, msg=lambda m, p=place: f"result {p}: {m}")


@pytest.mark.parametrize(("cell", "backward"), BOTH)
@pytest.mark.parametrize("n", [0, 1, 3, 4, 5, 8, 9, 23], ids="n={}".format)
def test_agrees_with_the_reference_at_chunk_boundaries(backward, cell, n):
    assert_agrees(documents(n=n), CELLS[cell](3, 5), backward=backward)


@pytest.mark.parametrize("backward", BACKWARDS)
@pytest.mark.parametrize("k", [1, 2, 3, 8, 9])
@pytest.mark.parametrize("batch", [0, 1, 3])
def test_agrees_with_the_reference_at_every_size(backward, k, batch):
    assert_agrees(documents(batch=batch, n=10, k=k), affine(3, k), backward=backward)


@pytest.mark.parametrize(("cell", "backward"), BOTH)
def test_agrees_with_the_reference_for_ragged_lengths(backward, cell):
    lengths = [0, 11, 1, 4, 5]
    inputs = documents(batch=5)
    assert_agrees(inputs, CELLS[cell](3, 5), lengths, backward=backward)


@pytest.mark.parametrize(("cell", "backward"), BOTH)
def test_padding_does_not_leak(backward, cell):
    lengths, gates = [0, 6, 11], CELLS[cell](3, 5)
    h, f, initial = documents(batch=3)
    behind = torch.arange(11) >= torch.tensor(lengths)[:, None]
    dirty = []
    for x in (h, f):
        dirty.append(x.detach().clone())
        dirty[-1][behind] = torch.nan
        dirty[-1].requires_grad_()
    G = torch.randn_like(initial)
    expected = values_and_gradients((h, f, initial), gates, G, lengths=lengths, backend="reference")
    options = {"lengths": lengths, "backward": backward}
    found = values_and_gradients((*dirty, initial), gates, G, **options)
    for x, y in zip(found, expected, strict=True):
        torch.testing.assert_close(x, y)
    assert all((gradient[behind] == 0).all() for gradient in found[1:3])


def test_inversion_refuses_a_function_as_a_cell():
    h, f, _ = documents()
    with pytest.raises(DtypeError, match=r"AffineGates, got function; .*'checkpoint'"):
        encode_adaptive(h, f, closure(3, 5), backward="invert")


@pytest.mark.parametrize("backend", ["reference", "torch"])
@pytest.mark.parametrize("cut", [0, 1, 3, 4, 5, 11])
def test_continuing_equals_encoding_at_once(backend, cut):
    h, f, initial = documents()
    cell = affine(3, 5)
    first = encode_adaptive(h[:, :cut], f[:, :cut], cell, initial=initial, backend=backend)
    both = encode_adaptive(h[:, cut:], f[:, cut:], cell, initial=first, backend=backend)
    torch.testing.assert_close(both, encode_adaptive(h, f, cell, initial=initial, backend=backend))


@pytest.mark.parametrize("backend", ["reference", "torch"])
def test_gates_that_ignore_the_memory_reduce_to_encode(backend):
    h, f, initial = documents()

    def blind(states, f, reading):
        return torch.sigmoid(states[:, 0]), torch.sigmoid(states[:, 1])

    alpha, beta = torch.sigmoid(h[..., 0]), torch.sigmoid(h[..., 1])
    memory = encode_adaptive(h, f, blind, initial=initial, backend=backend)
    torch.testing.assert_close(memory, encode(f, alpha=alpha, beta=beta, initial=initial))


@pytest.mark.slow
def test_gradients_equal_finite_differences():
    h, f, initial = documents(batch=2, n=6, k=3)
    cell = with_energy(3, 3)

    def memory(h, f, initial, *tensors):
        return encode_adaptive(h, f, AffineGates(*tensors), initial=initial, lengths=[6, 3])

    assert torch.autograd.gradcheck(memory, (h, f, initial, *cell.tensors()))
    assert torch.autograd.gradgradcheck(memory, (h, f, initial, *cell.tensors()))


def test_weights_may_be_given_per_document():
    h, f, initial = documents(batch=2)
    cells = [with_energy(3, 5) for _ in range(2)]
    logits = torch.cat([cell.of_hidden(h[i : i + 1]) for i, cell in enumerate(cells)])
    V, w = (torch.stack([getattr(c, name) for c in cells]) for name in ("read_weight", "energy_weight"))
    G = torch.randn_like(initial)
    together = encode_adaptive(logits, f, AffineGates(None, V, None, w), initial=initial)
    alone = [
        encode_adaptive(h[i : i + 1], f[i : i + 1], cell, initial=initial[i : i + 1])
        for i, cell in enumerate(cells)
    ]
    leaves = [f, initial, *(x for cell in cells for x in cell.tensors())]
    found, expected = (
        [memory, *torch.autograd.grad(memory, leaves, G)] for memory in (together, torch.cat(alone))
    )
    for x, y in zip(found, expected, strict=True):
        torch.testing.assert_close(x, y)


@pytest.mark.parametrize("backward", BACKWARDS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_half_precision_inputs_are_summed_in_float32(backward, dtype):
    h, f, _ = (x.detach().to(dtype) for x in documents(n=40))
    h.requires_grad_()
    cell = affine(3, 5)
    narrow = AffineGates(*(x.detach().float() for x in cell.tensors()))
    memory = encode_adaptive(h, f, narrow, backward=backward)
    assert memory.dtype == torch.float32
    assert torch.autograd.grad(memory.sum(), h)[0].dtype == dtype
    exact = encode_adaptive(h.double(), f.double(), cell, backend="reference")
    torch.testing.assert_close(memory.double(), exact, rtol=1e-4, atol=1e-4)
