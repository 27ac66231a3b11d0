"""The operations on a CPU, compared with torch and softmax: `python -m benchmarks.ops`."""

import math
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attar import ops
from attar.paper import table1 as baselines
from attar.paper.table1 import Floats, this_machine
from benchmarks.command import Only, Quick, run_command
from benchmarks.comparison import Case, Comparison, Goal, at_most, compare, run_cases, sampled
from benchmarks.layers import layer_cases
from benchmarks.timing import QUICK, Contender, Effort, Timer, relative_error, tolerance_for

TOLERANCE = tolerance_for(torch.float32)
GPU_CACHE_BYTES = 256 * 2**20  # well above the second-level cache, 60 MB on an H200

Shape = tuple[int, int, int]


def cpu_cases(effort: Effort, *, quick: bool = False) -> list[Case]:
    """The rows on a CPU; sizes are in their names."""
    one, all_threads = Timer(effort, threads=1), Timer(effort)
    held = 2**20 if quick else 4 * _last_cache_bytes()
    short, long = (75, 300) if quick else (750, 10_000)
    encoded = (4, 50, 20) if quick else (32, 750, 100)
    scanned = (2, 70, 16) if quick else (8, 1024, 128)
    lookup = "CPU lookup, packed float32, k = 100, one thread"
    softmax = "softmax over H, n = {:,}, both out of cache"
    shape = "{} × {} × {} float32".format(*encoded)
    scan = "CPU adaptive scan, {} × {:,} × {}, forward".format(*scanned)
    return [
        Case(lookup, softmax.format(short), Goal(short / 100), lambda: lookup_vs_softmax(one, short, held)),
        Case(lookup, softmax.format(long), Goal(80), lambda: lookup_vs_softmax(one, long, held)),
        Case(f"CPU encode, {shape}", "torch.bmm", at_most(1.2), lambda: encode_vs_bmm(all_threads, encoded)),
        Case(scan, "the plain loop in torch", Goal(3), lambda: scan_vs_loop(all_threads, scanned)),
        *layer_cases(Timer(effort, "cpu", threads=1), quick=quick),
    ]


def lookup_vs_softmax(timer: Timer, n: int, held: int, k: int = 100) -> Comparison:
    """One query to one document at a time, out of many more documents than the cache holds.

    Documents are visited in one random order, again and again. When one is visited again, all the others have
    passed through the cache.
    """
    hidden, packed, exact = _documents(n, k, held)
    query = np.random.default_rng(2).standard_normal(k, dtype=np.float32)
    expected = torch.einsum("nij,j->ni", exact, torch.from_numpy(query).double())
    out = np.empty(k, dtype=np.float32)

    def error() -> float:
        readouts = [ops.packed_lookup(row, query, out=out).copy() for row in packed[: len(expected)]]
        return relative_error(torch.from_numpy(np.stack(readouts)), expected)

    walk = shuffled_forever(list(packed))
    ours = Contender(
        "attar.ops.packed_lookup", lambda: ops.packed_lookup(next(walk), query, out=out), error, TOLERANCE
    )
    return compare(ours, _softmaxes(hidden, query), timer)


def _softmax_sdpa(hidden: Tensor, query: Tensor) -> Tensor:
    """Hᵀ softmax(H q) for one query with PyTorch's fused attention."""
    rows = hidden[None]
    return torch.nn.functional.scaled_dot_product_attention(query[None, None], rows, rows, scale=1.0)[0, 0]


def _softmaxes(hidden: Floats, query: Floats) -> list[Contender]:
    """Softmax over all states in numpy, torch and torch's fused attention."""
    tensors, q = torch.from_numpy(hidden), torch.from_numpy(query)
    few = tensors[:8]
    expected = torch.stack([baselines.softmax_torch(rows.double(), q.double()) for rows in few])

    def contender(name: str, lookup: Callable[..., Any], documents: Any, asked: Any) -> Contender:
        walk = shuffled_forever(list(documents))

        def error() -> float:
            return relative_error(
                torch.stack([torch.as_tensor(lookup(x, asked)) for x in documents[:8]]), expected
            )

        title = f"softmax over H, n = {hidden.shape[1]:,} ({name})"
        return Contender(title, lambda: lookup(next(walk), asked), error, TOLERANCE)

    return [
        contender("numpy", baselines.softmax_numpy, hidden, query),
        contender("torch", baselines.softmax_torch, tensors, q),
        contender("SDPA", _softmax_sdpa, tensors, q),
    ]


def _documents(n: int, k: int, held: int) -> tuple[Floats, Floats, Tensor]:
    """States and packed memories, `held` bytes of each, and the first memories in full and in float64.

    Few different memories are made and repeated. Each copy has its own place, so none is in the cache.
    """
    shape = (max(2, held // (4 * n * k)), n, k)
    hidden = np.float32(k**-0.5) * np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
    some = torch.from_numpy(hidden[:64])
    packed = ops.pack(ops.encode(some)).numpy()
    count = max(2, held // packed[0].nbytes)
    return hidden, np.resize(packed, (count, packed.shape[1])), ops.encode(some.double())


def shuffled_forever(items: list[Any]) -> Iterator[Any]:
    """The items in one random order, again and again."""
    order = np.random.default_rng(1).permutation(len(items))
    return cycle([items[place] for place in order])


def _last_cache_bytes() -> int:
    """The size of the largest cache of a core; 64 MB where Linux does not tell."""
    files = Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")
    units = {"K": 2**10, "M": 2**20, "G": 2**30}
    sizes = [file.read_text().strip() for file in files]
    return max((int(s[:-1]) * units[s[-1]] for s in sizes if s[-1:] in units), default=64 * 2**20)


def encode_vs_bmm(
    timer: Timer, shape: Shape, device: str = "cpu", dtype: torch.dtype = torch.float32
) -> Comparison:
    """The same Gram product with our checks and without."""
    states = random_states(shape, device, dtype)
    expected = ops.encode(sampled(states[0], 32).double(), backend="reference")

    def contender(name: str, encode: Callable[[Tensor], Tensor]) -> Contender:
        inputs = cycle(states)

        def error() -> float:
            return relative_error(sampled(encode(states[0]), 32), expected)

        return Contender(name, lambda: encode(next(inputs)), error, tolerance_for(dtype))

    bmm = contender("torch.bmm", lambda f: torch.bmm(f.mT, f))
    return compare(contender("attar.ops.encode", ops.encode), [bmm], timer)


def random_states(shape: Shape, device: str, dtype: torch.dtype) -> list[Tensor]:
    """States `[B, n, k]` to take in turn: one tensor for a CPU, more than the cache holds for a GPU."""
    size = math.prod(shape) * dtype.itemsize
    count = 1 if device == "cpu" else max(2, -(-GPU_CACHE_BYTES // size))
    return [torch.randn(shape, device=device, dtype=dtype) for _ in range(count)]


def scan_vs_loop(timer: Timer, shape: Shape) -> Comparison:
    """The chunked adaptive scan and the loop that it replaces."""
    h, f, cell = scan_inputs(shape, "cpu", torch.float32)
    expected = ops.encode_adaptive(*exact_inputs(h, f, cell), backend="reference")

    def contender(name: str, scan: Callable[..., Tensor]) -> Contender:
        @torch.no_grad()
        def run() -> Tensor:
            return scan(h, f, cell)

        # The gates read their own results: an error of 1e-7 in the first reading grows along the document.
        return Contender(name, run, lambda: relative_error(sampled(run()), expected), 10 * TOLERANCE)

    ours = contender("attar.ops.encode_adaptive", ops.encode_adaptive)
    return compare(ours, [contender("the plain loop in torch", plain_adaptive_loop)], timer)


def scan_inputs(shape: Shape, device: str, dtype: torch.dtype) -> tuple[Tensor, Tensor, ops.AffineGates]:
    """States, what is written of them, and gates that forget slowly and depend on the memory."""
    k = shape[2]
    weights = torch.randn(2, 2, k, device=device) / k**0.5
    cell = ops.AffineGates(weights[0], weights[1], torch.tensor([3.0, 0.0], device=device))
    return unit_rows(shape, device, dtype), unit_rows(shape, device, dtype), cell


def unit_rows(shape: Shape, device: str, dtype: torch.dtype) -> Tensor:
    """Random rows of length 1."""
    return torch.nn.functional.normalize(torch.randn(shape, device=device), dim=-1).to(dtype)


def exact_inputs(h: Tensor, f: Tensor, cell: ops.AffineGates) -> tuple[Tensor, Tensor, ops.AffineGates]:
    """Some of the documents, and the gates, in float64."""
    return sampled(h).double(), sampled(f).double(), ops.AffineGates(*(x.double() for x in cell.tensors()))


@torch.no_grad()
def plain_adaptive_loop(h: Tensor, f: Tensor, cell: ops.AffineGates) -> Tensor:
    """The adaptive scan as a good torch user writes it: read, gate, decay and write in place."""
    logits, rows = cell.of_hidden(h).unbind(1), f.unbind(1)
    C = f.new_zeros(f.shape[0], f.shape[2], f.shape[2])
    for token, row in zip(logits, rows, strict=True):
        reading = torch.bmm(C, row[:, :, None])[:, :, 0]
        gates = cell.of_reading(token, row, reading)
        C.mul_(gates[:, :1, None])
        C.baddbmm_(row[:, :, None], (gates[:, 1:] * row)[:, None, :])
    return C


def main(only: Only = None, quick: Quick = False) -> None:
    """Compare the operations with torch and softmax; wrong results are not timed."""
    machine = this_machine()  # before the first row adds to its load
    torch.manual_seed(0)
    notes = machine.busy_notes(
        "do not trust rows that use several threads, since threads wait for each other."
    )
    if machine.gpu:
        notes.append("Rows on a GPU: python -m benchmarks.ops_gpu in a checkout of the repository.")
    cases = cpu_cases(QUICK if quick else Effort(), quick=quick)
    run_cases(machine, cases, only=only, quick=quick, notes=notes)


if __name__ == "__main__":
    run_command(main)
