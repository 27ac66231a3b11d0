"""The bytes that tensors take while something runs: live storages on a CPU, the allocator's peak on a GPU."""

import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode


class Allocations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the tensors' storages that are made inside its block, and the most that lived at once.

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
        """Run the operation and note what it made; what came in from outside is nobody's fault here."""
        for tensor in tensors_in((args, *(kwargs or {}).values())):
            self._note(tensor, made_here=False)
        result = func(*args, **(kwargs or {}))
        for tensor in tensors_in(result):
            self._note(tensor, made_here=True)
        return result

    def _note(self, tensor: Tensor, *, made_here: bool) -> None:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._known:
            return
        size = storage.nbytes() if made_here else 0
        self._known[key] = weakref.ref(storage, self._forget(key, size))
        self.live += size
        self.peak = max(self.peak, self.live)

    def _forget(self, key: int, size: int) -> Callable[[Any], None]:
        def gone(_: Any) -> None:
            self.live -= size
            self._known.pop(key, None)

        return gone


def tensors_in(value: object) -> Iterator[Tensor]:
    """The tensors in an operation's arguments or results, however they are nested."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for part in value:
            yield from tensors_in(part)


def peak_bytes(run: Callable[[], object], device: torch.device | str = "cpu") -> int:
    """The most bytes that `run` had made at once, over what there was before it.

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
