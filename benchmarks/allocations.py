"""The bytes that a run allocates, and the row that compares those of backward with its input."""

import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from attar import ops
from benchmarks.comparison import Comparison, sampled
from benchmarks.timing import Contender, check, relative_error


class Allocations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the bytes of tensor storages that are made inside its block, and their peak.

    >>> x = torch.zeros(1000)
    >>> with Allocations() as made:
    ...     y = x + x
    ...     del y
    ...     y = x + x
    >>> made.peak, made.live
    (4000, 4000)
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
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


def peak_bytes(run: Callable[[], object], device: torch.device | str = "cpu") -> int:
    """The peak of the bytes that `run` allocates for tensors.

    >>> x = torch.zeros(10, dtype=torch.float64)
    >>> peak_bytes(lambda: (x + 1) * 2)
    160
    """
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        run()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - before
    made = Allocations()
    with made:
        run()
    return made.peak


def backward_bytes(f: Tensor, tolerance: float) -> Comparison:
    """The peak of what backward allocates, compared with the bytes of its input `[B, n, k]`."""
    f.requires_grad_()
    G = torch.randn(f.shape[0], f.shape[2], f.shape[2], device=f.device)
    memory = ops.encode(f)

    def gradient() -> Tensor:
        return torch.autograd.grad(memory, f, G, retain_graph=True)[0]

    def error() -> float:
        few, direction = sampled(f).double(), sampled(G).double()
        return relative_error(sampled(gradient()), torch.bmm(few, direction + direction.mT))

    check(Contender("attar.ops.encode", gradient, error, tolerance))
    return Comparison([peak_bytes(gradient, f.device)], [f.nbytes], "B")
