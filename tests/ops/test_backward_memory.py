"""What backward costs in bytes, as a slope in n: as F does (n · k), not as every C_t would (n · k²)."""

import weakref
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from attar.ops.gram import encode
from attar.ops.reference import AffineGates
from attar.ops.scan import encode_adaptive

pytestmark = pytest.mark.slow

FLOAT = 4


class Allocations(TorchDispatchMode):
    """Counts the bytes of tensor storages that are made inside its block, and their peak."""

    def __init__(self) -> None:
        super().__init__()
        self.live = self.peak = 0
        self._known: dict[int, weakref.ref[Any]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operation and count what it made, but not what it was given."""
        for tensor in _tensors_in((args, *(kwargs or {}).values())):
            self._count(tensor, made_here=False)
        result = func(*args, **(kwargs or {}))
        for tensor in _tensors_in(result):
            self._count(tensor, made_here=True)
        return result

    def _count(self, tensor: Tensor, *, made_here: bool) -> None:
        storage = tensor.untyped_storage()
        key, size = storage._cdata, storage.nbytes() if made_here else 0
        if key in self._known:
            return

        def freed(_: Any) -> None:
            self.live -= size
            self._known.pop(key, None)

        self._known[key] = weakref.ref(storage, freed)
        self.live += size
        self.peak = max(self.peak, self.live)


def _tensors_in(value: object) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _tensors_in(part)


def peak_bytes(run):
    """The peak of the bytes that `run` allocates for tensors."""
    made = Allocations()
    with made:
        run()
    return made.peak


def slope(train, k):
    """Bytes that one more token costs at the peak of forward and backward."""
    # An adaptive scan is trained a segment of max(k, 32) tokens at a time: two of them, and four.
    lengths = [segments * max(k, 32) for segments in (2, 4)]
    short, long = (peak_bytes(lambda n=n: train(n, k)) for n in lengths)
    return (long - short) / (lengths[1] - lengths[0])


def train_encode(n, k):
    f = torch.randn(1, n, k, requires_grad=True)
    alpha = torch.rand(1, n, requires_grad=True)
    encode(f, alpha=alpha).sum().backward()


def train_adaptive(backward):
    def train(n, k):
        h, f = torch.randn(1, n, 1, requires_grad=True), torch.randn(1, n, k, requires_grad=True)
        cell = AffineGates(torch.zeros(2, 1), torch.zeros(2, k), torch.tensor([9.0, 0.0]))
        encode_adaptive(h, f, cell, backward=backward).sum().backward()

    return train


TRAINS = {
    "encode": train_encode,
    "adaptive, checkpoint": train_adaptive("checkpoint"),
    "adaptive, invert": train_adaptive("invert"),
}


@pytest.mark.parametrize("name", TRAINS)
@pytest.mark.parametrize("k", [16, 64])
def test_backward_keeps_a_few_vectors_per_token(name, k):
    vectors = slope(TRAINS[name], k) / (k * FLOAT)
    # F, its gradient, one memory a segment of k tokens (k²/k), and a few numbers for the gates (≤ 64 bytes).
    assert vectors <= 6 + 64 / (k * FLOAT)


@pytest.mark.parametrize("n", [750, 3000])
def test_backward_of_encode_allocates_little_more_than_the_gradient(n):
    f = torch.randn(2, n, 100, requires_grad=True)
    memory, G = encode(f), torch.randn(2, 100, 100)
    assert peak_bytes(lambda: torch.autograd.grad(memory, f, G)) <= 1.5 * f.nbytes
