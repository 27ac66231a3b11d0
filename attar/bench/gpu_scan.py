"""GPU rows of `encode_adaptive`: beside fla's delta rule, and its backward beside its own forward."""

from collections.abc import Callable
from itertools import cycle
from typing import TypeVar

import torch
from torch import Tensor

from attar import ops
from attar.bench import peers
from attar.bench.case import Case, Clock, Contender, Goal, Measurement, duel
from attar.bench.gpu_encode import Shape
from attar.bench.referee import sampled, tolerance_of, worst_distance
from attar.ops import Backend

T = TypeVar("T")

# Gates are not linear in what they read, so an error in one token's reading reaches all the later ones.
TOLERANCE = 4 * tolerance_of(torch.bfloat16)


def scan_cases(clock: Clock, shape: Shape, device: str = "cuda") -> list[Case]:
    """The adaptive scan's target rows."""
    size = "{} × {} × {} bf16".format(*shape)
    quicker, cheap = Goal(3), Goal(4, at_least=False)
    return [
        Case(
            f"GPU adaptive scan, {size}, forward",
            "fla fused_recurrent_delta_rule",
            quicker,
            lambda: beside_delta_rule(quicker, clock, shape, device),
        ),
        Case(
            f"GPU adaptive scan, {size}, forward + backward",
            "its own forward",
            cheap,
            lambda: beside_forward(cheap, clock, shape, device),
        ),
    ]


def beside_delta_rule(goal: Goal, clock: Clock, shape: Shape, device: str) -> Measurement:
    """Two recurrences that read their memory before they write to it."""
    keys, values = states(shape, device), states(shape, device)
    beta = torch.rand(shape[:2], device=device).to(keys.dtype)

    def delta_error() -> float:
        few = [sampled(x) for x in (keys, values, beta)]
        expected = peers.delta_reference(*(x.double() for x in few))
        return worst_distance([sampled(peers.fla_delta_memory(keys, values, beta))], [expected])

    theirs = Contender(
        "fla fused_recurrent_delta_rule",
        no_grad(lambda: peers.fla_delta_memory(keys, values, beta)),
        delta_error,
        TOLERANCE,
    )
    return duel(goal, forward(shape, device), [theirs], clock)


def beside_forward(goal: Goal, clock: Clock, shape: Shape, device: str) -> Measurement:
    """What a training step costs more than reading alone."""
    h, f, cell = inputs(shape, device)
    G = torch.randn(shape[0], shape[2], shape[2], device=device)

    def results(
        h: Tensor, f: Tensor, cell: ops.AffineGates, G: Tensor, backend: Backend
    ) -> tuple[Tensor, ...]:
        leaves = [x.detach().requires_grad_() for x in (h, f, *cell.tensors())]
        gates = ops.AffineGates(*leaves[2:])
        memory = ops.encode_adaptive(leaves[0], leaves[1], gates, backend=backend)
        return tuple(torch.autograd.grad(memory, leaves, G))

    def error() -> float:
        # Parameters gather over the batch: with G silent elsewhere, only the sampled documents speak.
        heard = torch.zeros_like(G)
        sampled(heard).copy_(sampled(G))
        found = results(h, f, cell, heard, "auto")
        exact = (sampled(h).double(), sampled(f).double(), double_gates(cell), sampled(G).double())
        expected = results(*exact, "reference")
        pairs = [(sampled(a), b) for a, b in zip(found[:2], expected[:2], strict=True)]
        pairs += [(a[None], b[None]) for a, b in zip(found[2:], expected[2:], strict=True)]
        return worst_distance(*zip(*pairs, strict=True))

    ours = Contender("attar.ops.encode_adaptive", lambda: results(h, f, cell, G, "auto"), error, TOLERANCE)
    return duel(goal, ours, [forward(shape, device, "its own forward")], clock)


def forward(shape: Shape, device: str, name: str = "attar.ops.encode_adaptive") -> Contender:
    """Our scan without gradients."""
    sets = cycle([inputs(shape, device) for _ in range(2)])

    def error() -> float:
        h, f, cell = next(sets)
        exact = (sampled(h).double(), sampled(f).double(), double_gates(cell))
        expected = ops.encode_adaptive(*exact, backend="reference")
        return worst_distance([sampled(ops.encode_adaptive(h, f, cell))], [expected])

    return Contender(name, no_grad(lambda: ops.encode_adaptive(*next(sets))), no_grad(error), TOLERANCE)


def inputs(shape: Shape, device: str) -> tuple[Tensor, Tensor, ops.AffineGates]:
    """States, what is written of them, and gates that forget slowly and do look at the memory."""
    k = shape[2]
    weights = torch.randn(2, k, device=device) / k**0.5, torch.randn(2, k, device=device) / k**0.5
    cell = ops.AffineGates(*weights, torch.tensor([3.0, 0.0], device=device))
    return states(shape, device), states(shape, device), cell


def states(shape: Shape, device: str) -> Tensor:
    """Random rows of length 1, as a delta rule needs its keys to be."""
    return torch.nn.functional.normalize(torch.randn(shape, device=device), dim=-1).bfloat16()


def double_gates(cell: ops.AffineGates) -> ops.AffineGates:
    """The same gates in float64."""
    return ops.AffineGates(*(x.double() for x in cell.tensors()))


def no_grad(run: Callable[[], T]) -> Callable[[], T]:
    """The same run with nothing kept for a backward pass."""

    def silent() -> T:
        with torch.no_grad():
            return run()

    return silent
