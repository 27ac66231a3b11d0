"""`python -m benchmarks.ops_gpu`: the operations on a GPU, compared with flash-linear-attention (fla) and torch.

fla is imported here and nowhere else. Its layout is [B, T, heads, K].
"""

import functools
import math
from collections.abc import Callable
from dataclasses import replace
from itertools import cycle
from statistics import median
from typing import NamedTuple

import torch
from torch import Tensor

from attar import ops
from attar.ops.bank import MemoryBank
from attar.paper.table1 import this_machine
from benchmarks.command import Only, Quick, run_command
from benchmarks.comparison import Case, Comparison, Goal, compare, compare_with_limit, run_cases, sampled
from benchmarks.timing import QUICK, Contender, Effort, Timer, relative_error, tolerance_for

TOLERANCE = tolerance_for(torch.bfloat16)
# Gates are not linear in what they read, so an error in one reading affects all later ones.
SCAN_TOLERANCE = 4 * TOLERANCE
FLA_ENCODE = "fla chunk_simple_gla, final state"
FLA_SCAN = "fla fused_recurrent_delta_rule"
GPU_CACHE_BYTES = 256 * 2**20  # well above the second-level cache, 60 MB on an H200

# How far readouts may be off, as a share of their norm.
BANK_TOLERANCES = {torch.bfloat16: 1e-2, torch.int8: 5e-2}
# Different memories in the bank; documents repeat them, since bandwidth does not depend on values.
DIFFERENT = 4096

Shape = tuple[int, int, int]


def encode_cases(timer: Timer, shape: Shape, device: str = "cuda") -> list[Case]:
    """`encode`, forward and backward."""
    what = "GPU encode, {} × {} × {} bf16".format(*shape)
    return [
        Case(f"{what}, forward", FLA_ENCODE, Goal(8), lambda: encode_vs_fla(timer, shape, device)),
        Case(
            f"{what}, forward + backward",
            FLA_ENCODE,
            Goal(5),
            lambda: encode_vs_fla(timer, shape, device, backward=True),
        ),
    ]


def encode_vs_fla(timer: Timer, shape: Shape, device: str, *, backward: bool = False) -> Comparison:
    """Ours and fla's memories, or the gradients of ⟨G, C⟩ by f; each run takes the next states."""
    # More than the cache holds.
    size = math.prod(shape) * torch.bfloat16.itemsize
    count = max(2, -(-GPU_CACHE_BYTES // size))
    states = [torch.randn(shape, device=device, dtype=torch.bfloat16) for _ in range(count)]
    G = torch.randn(shape[0], shape[2], shape[2], device=device)

    def result(encode: Callable[[Tensor], Tensor], f: Tensor, G: Tensor) -> Tensor:
        if not backward:
            return encode(f)
        f = f.detach().requires_grad_()
        return torch.autograd.grad(encode(f), f, G)[0]

    def exact(f: Tensor) -> Tensor:
        return ops.encode(f, backend="reference")

    expected = result(exact, sampled(states[0]).double(), sampled(G).double())

    def contender(name: str, encode: Callable[[Tensor], Tensor]) -> Contender:
        inputs = cycle(states)

        def error() -> float:
            return relative_error(sampled(result(encode, states[0], G)), expected)

        return Contender(name, lambda: result(encode, next(inputs), G), error, TOLERANCE)

    return compare(contender("attar.ops.encode", ops.encode), [contender(FLA_ENCODE, fla_memory)], timer)


def scan_cases(timer: Timer, shape: Shape, device: str = "cuda") -> list[Case]:
    """The adaptive scan against fla's delta rule."""
    title = "GPU adaptive scan, {} × {} × {} bf16, forward".format(*shape)
    return [Case(title, FLA_SCAN, Goal(2.5), lambda: scan_vs_delta_rule(timer, shape, device))]


def scan_vs_delta_rule(timer: Timer, shape: Shape, device: str) -> Comparison:
    """Two recurrences that read their memory before they write to it."""
    keys, values = (unit_rows(shape, device, torch.bfloat16) for _ in range(2))
    beta = torch.rand(shape[:2], device=device).to(keys.dtype)

    @torch.no_grad()
    def run() -> Tensor:
        return fla_delta_memory(keys, values, beta)

    def error() -> float:
        expected = delta_reference(*(sampled(x).double() for x in (keys, values, beta)))
        return relative_error(sampled(run()), expected)

    fla = Contender(FLA_SCAN, run, error, SCAN_TOLERANCE)
    return compare(_forward(shape, device), [fla], timer)


def _forward(shape: Shape, device: str) -> Contender:
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

    return Contender("attar.ops.encode_adaptive", run, error, SCAN_TOLERANCE)


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


def fla_memory(f: Tensor) -> Tensor:
    """The final state of `chunk_simple_gla` with keys = values = f; it needs queries, which are not used."""
    from fla.ops.simple_gla import chunk_simple_gla

    heads = f[:, :, None]
    _, state = chunk_simple_gla(heads.detach(), heads, heads, None, scale=1.0, output_final_state=True)
    memory: Tensor = state[:, 0]
    return memory


def fla_delta_memory(keys: Tensor, values: Tensor, beta: Tensor) -> Tensor:
    """The final state of `fused_recurrent_delta_rule`, which also reads its memory before it writes."""
    from fla.ops.delta_rule import fused_recurrent_delta_rule

    heads, written = keys[:, :, None], values[:, :, None]
    _, state = fused_recurrent_delta_rule(
        heads, heads, written, beta[:, :, None], scale=1.0, output_final_state=True
    )
    memory: Tensor = state[:, 0]
    return memory


def delta_reference(keys: Tensor, values: Tensor, beta: Tensor) -> Tensor:
    """The delta rule as a plain loop, S ← S + k (β (v − Sᵀ k))ᵀ: the reference for `fla_delta_memory`.

    >>> one = torch.ones(1, 2, 1)
    >>> delta_reference(one, 3 * one, one[..., 0]).item()  # a value that is known is not written again
    3.0
    """
    S = keys.new_zeros(keys.shape[0], keys.shape[2], values.shape[2])
    for k, v, b in zip(keys.unbind(1), values.unbind(1), beta.unbind(1), strict=True):
        change = b[:, None] * (v - torch.einsum("bkv,bk->bv", S, k))
        S = S + k[:, :, None] * change[:, None, :]
    return S


class BankKind(NamedTuple):
    """A bank to measure: its memories, and the rate to reach, in lookups per second."""

    what: str
    size: int
    values: int | None
    dtype: torch.dtype
    rate: float


BANKS = (
    BankKind("k = 128, symmetric, bfloat16", 128, None, torch.bfloat16, 200e6),
    BankKind("k = 128, symmetric, int8", 128, None, torch.int8, 330e6),
    BankKind("k = d = 64, prepared ridge, bfloat16", 64, 64, torch.bfloat16, 100e6),
    BankKind("k = d = 64, prepared ridge, int8", 64, 64, torch.int8, 100e6),
)


def bank_cases(timer: Timer, documents: int, *, copied: int = 2**31) -> list[Case]:
    """Each bank's share of the copy bandwidth, and lookups per second; a bank is filled once for both."""
    cases = []
    for kind in BANKS:
        title = f"GPU memory bank, {documents:,} documents, {kind.what}"
        bank = functools.cache(functools.partial(FilledBank, documents, kind, "cuda"))
        cases += [
            Case(
                f"{title}, bytes per second",
                "copy bandwidth",
                Goal(0.85),
                functools.partial(bank_vs_copy, timer, bank, copied),
            ),
            Case(
                f"{title}, lookups per second",
                f"{kind.rate / 1e6:.0f} M lookups/s",
                Goal(1.0),
                functools.partial(bank_rate, timer, bank, kind.rate),
            ),
        ]
    return cases


class FilledBank:
    """A bank of real memories, and one query for each document, in random order."""

    def __init__(self, documents: int, kind: BankKind, device: str) -> None:
        size = kind.size
        self.bank = MemoryBank(documents, size, values=kind.values, dtype=kind.dtype, device=device)
        hidden = torch.randn(min(DIFFERENT, documents), 256 if kind.values else 64, size, device=device) / 8
        if kind.values is None:
            self.memories = ops.encode(hidden)
        else:
            values = torch.randn(*hidden.shape[:2], kind.values, device=device)
            self.memories = ops.ridge_solution(hidden.mT @ torch.cat([values, hidden], 2))
        for first in range(0, documents, len(self.memories)):
            places = torch.arange(first, min(first + len(self.memories), documents), device=device)
            self.bank.write(places, self.memories[: len(places)])
        self.order = torch.randperm(documents, device=device)
        self.queries = torch.randn(documents, size, device=device).bfloat16()
        self.tolerance = BANK_TOLERANCES[kind.dtype]
        # Bytes that a lookup reads and writes: memory, query, readout, index.
        readout = 4 * (kind.values or size)
        self.lookup_bytes = self.bank.nbytes / documents + size * self.queries.element_size() + readout + 8

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
            self.lookup()[few], torch.einsum("qij,qi->qj", written, self.queries[few].double())
        )


def bank_vs_copy(timer: Timer, made: Callable[[], FilledBank], copied: int) -> Comparison:
    """Bytes per second, compared with a plain copy of a large tensor in the same run."""
    filled = made()
    source = torch.zeros(copied, dtype=torch.int8, device=filled.order.device)
    target = torch.empty_like(source)
    copy = Contender("copy bandwidth", lambda: target.copy_(source), amount=2.0 * copied)
    result = compare(filled.contender(filled.lookup_bytes * len(filled.order)), [copy], timer)
    costs = (result.ours, result.theirs or [])
    ours, theirs = (n / median(cost) / 1e12 for n, cost in zip(result.amounts, costs, strict=True))
    return replace(result, note=f"{ours:.2f} TB/s compared with {theirs:.2f} TB/s")


def bank_rate(timer: Timer, made: Callable[[], FilledBank], rate: float) -> Comparison:
    """Lookups per second, compared with a fixed rate."""
    filled = made()
    result = compare_with_limit(filled.contender(float(len(filled.order))), 1 / rate, timer)
    return replace(result, note=f"{1 / median(result.ours) / 1e6:.0f} M lookups/s")


def main(only: Only = None, quick: Quick = False) -> None:
    """Compare the operations on a GPU with flash-linear-attention and torch."""
    machine = this_machine()
    if not torch.cuda.is_available():
        note = "These rows need a CUDA device; this machine has none."
        run_cases(machine, [], notes=[note])
        return
    torch.manual_seed(0)
    # Short rounds: a launch queue holds about a thousand kernels.
    timer = Timer(QUICK if quick else Effort(round_seconds=0.004), "gpu")
    shape = (16, 96, 128) if quick else (512, 750, 128)
    documents, copied = (10_000, 2**26) if quick else (1_000_000, 2**31)
    cases = [*encode_cases(timer, shape), *scan_cases(timer, shape)]
    cases += bank_cases(timer, documents, copied=copied)
    run_cases(machine, cases, only=only, quick=quick, notes=machine.busy_notes())


if __name__ == "__main__":
    run_command(main)
