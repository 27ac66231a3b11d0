"""GPU rows of `attar bench ops`: `encode`, `encode_adaptive` and the memory bank."""

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import cycle
from statistics import median

import torch
from torch import Tensor

from attar import ops
from attar.bench import baselines
from attar.bench.comparison import (
    Case,
    Comparison,
    Goal,
    compare,
    compare_with_limit,
    relative_error,
    sampled,
    tolerance_for,
)
from attar.bench.cost import Contender, Effort, Timer
from attar.bench.ops import Shape, backward_bytes, exact_inputs, scan_inputs, unit_rows
from attar.ops import Backend, MemoryBank

# Several inputs are used in turn, together larger than the second-level cache (60 MB on an H200).
CACHE_BYTES = 256 * 2**20
TOLERANCE = tolerance_for(torch.bfloat16)
# Gates are not linear in what they read, so an error in one reading affects all later ones.
SCAN_TOLERANCE = 4 * TOLERANCE
BANK_TOLERANCES = {torch.bfloat16: 1e-2, torch.int8: 5e-2}
# Different memories in the bank; documents repeat them, since bandwidth does not depend on values.
DIFFERENT = 4096
LOOKUPS_PER_SECOND = 200e6

Inputs = tuple[Tensor, ...]


def gpu_cases(effort: Effort, *, quick: bool = False) -> list[Case]:
    """All rows that need a GPU."""
    timer = Timer(effort, "gpu")
    shape = (16, 96, 128) if quick else (512, 750, 128)
    documents, copied = (10_000, 2**26) if quick else (1_000_000, 2**31)
    banks = [bank_cases(timer, documents, 128, dtype=dtype, copied=copied) for dtype in BANK_TOLERANCES]
    return [*encode_cases(timer, shape), *scan_cases(timer, shape), *banks[0], *banks[1]]


def encode_cases(timer: Timer, shape: Shape, device: str = "cuda") -> list[Case]:
    """`encode` against flash-linear-attention, with and without decay gates, `torch.bmm`, and H's bytes."""
    batch, n, _ = shape
    narrow = (batch, n, 100)
    size, narrow_size = ("{} × {} × {} bf16".format(*s) for s in (shape, narrow))
    fla = "fla chunk_simple_gla, final state"
    cases = [
        Case(
            f"GPU encode, {size}{gates}, {'forward + backward' if backward else 'forward'}",
            fla,
            Goal(5 if backward else 8),
            functools.partial(encode_vs_fla, timer, shape, device, decayed=bool(gates), backward=backward),
        )
        for gates in ("", ", decay gates")
        for backward in (False, True)
    ]
    return [
        *cases,
        Case(
            f"GPU encode, {narrow_size}, forward",
            "torch.bmm",
            Goal(1.3),
            lambda: encode_vs_bmm(timer, documents(narrow, device)),
        ),
        Case(
            f"GPU backward's extra memory, encode, {size}",
            "H's own bytes",
            Goal(1.5, at_least=False),
            lambda: backward_bytes(torch.randn(shape, device=device, dtype=torch.bfloat16), TOLERANCE),
        ),
    ]


@dataclass(frozen=True)
class Encoding:
    """A way to make memories, (f, α) → C or (f, log α) → C; with `G`, the gradients of ⟨G, C⟩ instead."""

    encode: Callable[..., Tensor]
    sets: list[Inputs]
    G: Tensor | None = None
    takes_log: bool = False

    def contender(self, name: str) -> Contender:
        """A contender that takes the next set of inputs at each run."""
        inputs = cycle(self.prepared())
        return Contender(name, lambda: self.results(next(inputs)), self.error, TOLERANCE)

    def prepared(self) -> list[Inputs]:
        """The inputs as `encode` takes them."""
        ready = [(f, *(a.log() for a in gate)) if self.takes_log else (f, *gate) for f, *gate in self.sets]
        return [tuple(x.detach().requires_grad_(self.G is not None) for x in inputs) for inputs in ready]

    def results(self, inputs: Inputs) -> Inputs:
        """The memory, or the gradients of f and of the gates."""
        memory = self.encode(*inputs)
        return (memory,) if self.G is None else tuple(torch.autograd.grad(memory, inputs, self.G))

    def error(self) -> float:
        """The relative error against float64 loops over some of the documents."""
        results = [sampled(x) for x in self.results(self.prepared()[0])]
        exact = Encoding(
            lambda f, alpha=None: ops.encode(f, alpha=alpha, backend="reference"),
            [tuple(sampled(x).double() for x in self.sets[0])],
            None if self.G is None else sampled(self.G).double(),
        )
        expected = list(exact.results(exact.prepared()[0]))
        if self.takes_log and len(expected) == 2:
            expected[1] = expected[1] * exact.sets[0][1]  # ∂/∂ log α = α ∂/∂α
        return max(map(relative_error, results, expected))


def encode_vs_fla(timer: Timer, shape: Shape, device: str, *, decayed: bool, backward: bool) -> Comparison:
    """Ours and fla's; for backward, autograd through a plain scan if fla refuses or is wrong."""
    sets = documents(shape, device, decayed=decayed)
    G = torch.randn(shape[0], shape[2], shape[2], device=device) if backward else None
    ours = Encoding(lambda f, alpha=None: ops.encode(f, alpha=alpha), sets, G).contender("attar.ops.encode")
    fla = Encoding(baselines.fla_memory, sets, G, takes_log=True).contender(
        "fla chunk_simple_gla, final state"
    )
    plain = Encoding(baselines.plain_scan, sets, G).contender("autograd through a plain torch scan")
    return compare(ours, [fla], timer, [plain] if backward else [])


def encode_vs_bmm(timer: Timer, sets: list[Inputs]) -> Comparison:
    """Ours and a batched matrix product where k is not a multiple of the tensor cores' tile."""
    bmm = Encoding(lambda f: torch.bmm(f.mT, f), sets).contender("torch.bmm")
    return compare(Encoding(ops.encode, sets).contender("attar.ops.encode"), [bmm], timer)


def documents(shape: Shape, device: str, *, decayed: bool = False) -> list[Inputs]:
    """Sets of bfloat16 states, and of gates near 1, more than a cache holds."""
    batch, n, k = shape
    count = 2 if device == "cpu" else max(2, -(-CACHE_BYTES // (2 * batch * n * k)))
    states = [torch.randn(shape, device=device, dtype=torch.bfloat16) for _ in range(count)]
    return [(f, 0.95 + 0.05 * torch.rand(batch, n, device=device)) if decayed else (f,) for f in states]


def scan_cases(timer: Timer, shape: Shape, device: str = "cuda") -> list[Case]:
    """The adaptive scan against fla's delta rule, and its backward against its own forward."""
    title = "GPU adaptive scan, {} × {} × {} bf16".format(*shape)
    return [
        Case(
            f"{title}, forward",
            "fla fused_recurrent_delta_rule",
            Goal(3),
            lambda: scan_vs_delta_rule(timer, shape, device),
        ),
        Case(
            f"{title}, forward + backward",
            "its own forward",
            Goal(4, at_least=False),
            lambda: backward_vs_forward(timer, shape, device),
        ),
    ]


def scan_vs_delta_rule(timer: Timer, shape: Shape, device: str) -> Comparison:
    """Two recurrences that read their memory before they write to it."""
    keys, values = (unit_rows(shape, device, torch.bfloat16) for _ in range(2))
    beta = torch.rand(shape[:2], device=device).to(keys.dtype)

    @torch.no_grad()
    def run() -> Tensor:
        return baselines.fla_delta_memory(keys, values, beta)

    def error() -> float:
        expected = baselines.delta_reference(*(sampled(x).double() for x in (keys, values, beta)))
        return relative_error(sampled(run()), expected)

    fla = Contender("fla fused_recurrent_delta_rule", run, error, SCAN_TOLERANCE)
    return compare(_forward(shape, device, "attar.ops.encode_adaptive"), [fla], timer)


def backward_vs_forward(timer: Timer, shape: Shape, device: str) -> Comparison:
    """What a training step costs compared with encoding alone."""
    h, f, cell = scan_inputs(shape, device, torch.bfloat16)
    G = torch.randn(shape[0], shape[2], shape[2], device=device)

    def gradients(h: Tensor, f: Tensor, cell: ops.AffineGates, G: Tensor, backend: Backend) -> Inputs:
        leaves = [x.detach().requires_grad_() for x in (h, f, *cell.tensors())]
        gates = ops.AffineGates(*leaves[2:])
        memory = ops.encode_adaptive(leaves[0], leaves[1], gates, backend=backend)
        return tuple(torch.autograd.grad(memory, leaves, G))

    def error() -> float:
        # Gradients of the gates are sums over the batch: G is zero but for the sampled documents.
        masked = torch.zeros_like(G)
        sampled(masked).copy_(sampled(G))
        results = gradients(h, f, cell, masked, "auto")
        expected = gradients(*exact_inputs(h, f, cell), sampled(G).double(), "reference")
        pairs = [(sampled(a), b) for a, b in zip(results[:2], expected[:2], strict=True)]
        pairs += [(a[None], b[None]) for a, b in zip(results[2:], expected[2:], strict=True)]
        return max(relative_error(*pair) for pair in pairs)

    run = functools.partial(gradients, h, f, cell, G, "auto")
    ours = Contender("attar.ops.encode_adaptive", run, error, SCAN_TOLERANCE)
    return compare(ours, [_forward(shape, device, "its own forward")], timer)


def _forward(shape: Shape, device: str, name: str) -> Contender:
    """Our scan without gradients."""
    sets = cycle([scan_inputs(shape, device, torch.bfloat16) for _ in range(2)])

    @torch.no_grad()
    def run() -> Tensor:
        return ops.encode_adaptive(*next(sets))

    @torch.no_grad()
    def error() -> float:
        h, f, cell = next(sets)
        expected = ops.encode_adaptive(*exact_inputs(h, f, cell), backend="reference")
        return relative_error(sampled(ops.encode_adaptive(h, f, cell)), expected)

    return Contender(name, run, error, SCAN_TOLERANCE)


def bank_cases(
    timer: Timer,
    documents: int,
    size: int,
    *,
    dtype: torch.dtype = torch.bfloat16,
    device: str = "cuda",
    copied: int = 2**31,
) -> list[Case]:
    """The bank's share of the copy bandwidth, and lookups per second; the bank is filled once for both."""
    name = str(dtype).removeprefix("torch.")
    title = f"GPU memory bank, {documents:,} documents, k = {size}, packed {name}"
    bank = functools.cache(lambda: FilledBank(documents, size, dtype, device))
    rate = f"{LOOKUPS_PER_SECOND / 1e6:.0f} M lookups/s"
    return [
        Case(
            f"{title}, bytes per second",
            "copy bandwidth",
            Goal(0.85),
            lambda: bank_vs_copy(timer, bank(), copied),
        ),
        Case(f"{title}, lookups per second", rate, Goal(1.0), lambda: bank_rate(timer, bank())),
    ]


class FilledBank:
    """A bank of real memories, and one query for each document, in random order."""

    def __init__(self, documents: int, size: int, dtype: torch.dtype, device: str) -> None:
        self.bank = MemoryBank(documents, size, dtype=dtype, device=device)
        self.memories = ops.encode(torch.randn(min(DIFFERENT, documents), 64, size, device=device) / 8)
        for first in range(0, documents, len(self.memories)):
            places = torch.arange(first, min(first + len(self.memories), documents), device=device)
            self.bank.write(places, self.memories[: len(places)])
        self.order = torch.randperm(documents, device=device)
        self.queries = torch.randn(documents, size, device=device).bfloat16()
        self.tolerance = BANK_TOLERANCES[dtype]
        # Bytes that a lookup reads and writes: packed memory, query, readout, index.
        self.lookup_bytes = self.bank.nbytes / documents + size * self.queries.element_size() + 4 * size + 8

    def contender(self, amount: float) -> Contender:
        """One run answers every query."""
        return Contender("attar.ops.MemoryBank", self.lookup, self.error, self.tolerance, amount)

    def lookup(self) -> Tensor:
        """All readouts."""
        return self.bank.lookup(self.order, self.queries)

    def error(self) -> float:
        """The relative error of a few hundred readouts against float64 products."""
        few = slice(None, None, max(1, len(self.order) // 256))
        written = self.memories[self.order[few] % len(self.memories)].double()
        return relative_error(
            self.lookup()[few], torch.einsum("qij,qj->qi", written, self.queries[few].double())
        )


def bank_vs_copy(timer: Timer, filled: FilledBank, copied: int) -> Comparison:
    """Bytes per second, compared with a plain copy of a large tensor in the same run."""
    source = torch.zeros(copied, dtype=torch.int8, device=filled.order.device)
    target = torch.empty_like(source)
    copy = Contender("copy bandwidth", lambda: target.copy_(source), amount=2.0 * copied)
    result = compare(filled.contender(filled.lookup_bytes * len(filled.order)), [copy], timer)
    costs = (result.ours, result.theirs or [])
    ours, theirs = (n / median(cost) / 1e12 for n, cost in zip(result.amounts, costs, strict=True))
    return replace(result, note=f"{ours:.2f} TB/s compared with {theirs:.2f} TB/s")


def bank_rate(timer: Timer, filled: FilledBank) -> Comparison:
    """Lookups per second, compared with a fixed rate."""
    result = compare_with_limit(filled.contender(float(len(filled.order))), 1 / LOOKUPS_PER_SECOND, timer)
    return replace(result, note=f"{1 / median(result.ours) / 1e6:.0f} M lookups/s")
