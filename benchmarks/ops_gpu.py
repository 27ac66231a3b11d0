"""`python -m benchmarks.ops_gpu`: the operations on a GPU, compared with flash-linear-attention (fla) and torch.

fla is imported here and nowhere else. Its layout is [B, T, heads, K].
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from itertools import cycle

import torch
from torch import Tensor

from attar import ops
from attar.ops.checks import Backend
from attar.paper.table1 import this_machine
from benchmarks.allocations import backward_bytes
from benchmarks.bank_gpu import bank_cases
from benchmarks.command import Only, Quick, run_command
from benchmarks.comparison import Case, Comparison, Goal, at_most, compare, run_cases, sampled
from benchmarks.ops import encode_vs_bmm, exact_inputs, random_states, scan_inputs, unit_rows
from benchmarks.timing import QUICK, Contender, Effort, Timer, relative_error, tolerance_for

TOLERANCE = tolerance_for(torch.bfloat16)
# Gates are not linear in what they read, so an error in one reading affects all later ones.
SCAN_TOLERANCE = 4 * TOLERANCE
FLA_ENCODE = "fla chunk_simple_gla, final state"

Shape = tuple[int, int, int]
Inputs = tuple[Tensor, ...]


def encode_cases(timer: Timer, shape: Shape, device: str = "cuda") -> list[Case]:
    """`encode` with and without decay gates, forward and backward; with k that is no multiple of a tile; its bytes."""
    narrow = (*shape[:2], 100)
    size, narrow_size = ("{} × {} × {} bf16".format(*s) for s in (shape, narrow))
    with_torch = Case(
        f"GPU encode, {narrow_size}, forward",
        "torch.bmm",
        Goal(1.3),
        lambda: encode_vs_bmm(timer, narrow, device, torch.bfloat16),
    )
    memory = Case(
        f"GPU backward's extra memory, encode, {size}",
        "H's own bytes",
        at_most(1.5),
        lambda: backward_bytes(torch.randn(shape, device=device, dtype=torch.bfloat16), TOLERANCE),
    )
    with_fla = [
        Case(
            f"GPU encode, {size}{gates}, {'forward + backward' if backward else 'forward'}",
            FLA_ENCODE,
            Goal(5 if backward else 8),
            functools.partial(encode_vs_fla, timer, shape, device, decayed=bool(gates), backward=backward),
        )
        for gates in ("", ", decay gates")
        for backward in (False, True)
    ]
    return [*with_fla, with_torch, memory]


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
    states = random_states(shape, device, torch.bfloat16)
    gates = [(0.95 + 0.05 * torch.rand(shape[:2], device=device),) if decayed else () for _ in states]
    sets = [(f, *gate) for f, gate in zip(states, gates, strict=True)]
    G = torch.randn(shape[0], shape[2], shape[2], device=device) if backward else None
    ours = Encoding(lambda f, alpha=None: ops.encode(f, alpha=alpha), sets, G).contender("attar.ops.encode")
    fla = Encoding(fla_memory, sets, G, takes_log=True).contender(FLA_ENCODE)
    plain = Encoding(plain_scan, sets, G).contender("autograd through a plain torch scan")
    return compare(ours, [fla], timer, [plain] if backward else [])


def plain_scan(f: Tensor, alpha: Tensor | None = None) -> Tensor:
    """C ← α_t C + f_t f_tᵀ, token by token: what autograd gets where there is no closed form."""
    columns = f.float().unbind(1)
    C = columns[0].new_zeros(f.shape[0], f.shape[2], f.shape[2])
    for t, column in enumerate(columns):
        kept = C if alpha is None else C * alpha[:, t, None, None]
        C = torch.baddbmm(kept, column[:, :, None], column[:, None, :])
    return C


def scan_cases(timer: Timer, shape: Shape, device: str = "cuda") -> list[Case]:
    """The adaptive scan against fla's delta rule, and its backward against its own forward."""
    title, rule = "GPU adaptive scan, {} × {} × {} bf16".format(*shape), "fla fused_recurrent_delta_rule"
    forward, backward = f"{title}, forward", f"{title}, forward + backward"
    return [
        Case(forward, rule, Goal(2.5), lambda: scan_vs_delta_rule(timer, shape, device)),
        Case(backward, "its own forward", at_most(4), lambda: backward_vs_forward(timer, shape, device)),
    ]


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


def fla_memory(f: Tensor, log_alpha: Tensor | None = None) -> Tensor:
    """The final state of `chunk_simple_gla` with keys = values = f; it needs queries, which are not used."""
    from fla.ops.simple_gla import chunk_simple_gla

    heads = f[:, :, None]
    gates = None if log_alpha is None else log_alpha[:, :, None]
    _, state = chunk_simple_gla(heads.detach(), heads, heads, gates, scale=1.0, output_final_state=True)
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
