"""GPU rows of `encode`: beside flash-linear-attention, `torch.bmm` and H's own bytes."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import cycle

import torch
from torch import Tensor

from attar import ops
from attar.bench import peers
from attar.bench.allocations import peak_bytes
from attar.bench.case import Case, Clock, Contender, Goal, Measurement, duel, weigh
from attar.bench.referee import sampled, tolerance_of, worst_distance

# Inputs take turns until they fill a second-level cache several times over (60 MB on an H200).
CACHE_BYTES = 256 * 2**20

Shape = tuple[int, int, int]
Inputs = tuple[Tensor, ...]


def encode_cases(clock: Clock, shape: Shape, device: str = "cuda") -> list[Case]:
    """The target rows, without gates and, where fla has them too, with decay gates."""
    batch, n, _ = shape
    size, narrow = ("{} × {} × {} bf16".format(*s) for s in (shape, (batch, n, 100)))
    fla, bmm, memory = "fla chunk_simple_gla, final state", "torch.bmm", "H's own bytes"
    eight, five, third, half = Goal(8), Goal(5), Goal(1.3), Goal(1.5, at_least=False)

    def beside(goal: Goal, *, decayed: bool = False, backward: bool = False) -> Callable[[], Measurement]:
        return lambda: beside_fla(goal, clock, documents(shape, device, decayed=decayed), backward)

    return [
        Case(f"GPU encode, {size}, forward", fla, eight, beside(eight)),
        Case(f"GPU encode, {size}, forward + backward", fla, five, beside(five, backward=True)),
        Case(f"GPU encode, {size}, decay gates, forward", fla, eight, beside(eight, decayed=True)),
        Case(
            f"GPU encode, {size}, decay gates, forward + backward",
            fla,
            five,
            beside(five, decayed=True, backward=True),
        ),
        Case(
            f"GPU encode, {narrow}, forward",
            bmm,
            third,
            lambda: beside_bmm(third, clock, documents((batch, n, 100), device)),
        ),
        Case(
            f"GPU backward's extra memory, encode, {size}",
            memory,
            half,
            lambda: extra_memory(half, documents(shape, device)[0]),
        ),
    ]


@dataclass(frozen=True)
class Encoding:
    """One way to make memories, (f, α) → C or (f, log α) → C; with `G`, the gradients of ⟨G, C⟩ as well."""

    encode: Callable[..., Tensor]
    sets: list[Inputs]
    G: Tensor | None = None
    takes_log: bool = False

    def contender(self, name: str) -> Contender:
        """Itself, ready to be checked and timed; each run takes the next set of inputs."""
        turns = cycle(self.given())
        return Contender(name, lambda: self.results(next(turns)), self.error, tolerance_of(torch.bfloat16))

    def given(self) -> list[Inputs]:
        """Its inputs, made ready before any clock runs."""
        ready = [(f, *(a.log() for a in gate)) if self.takes_log else (f, *gate) for f, *gate in self.sets]
        return [tuple(x.detach().requires_grad_(self.G is not None) for x in inputs) for inputs in ready]

    def results(self, inputs: Inputs) -> Inputs:
        """The memory, or the gradients of f and of the gates."""
        memory = self.encode(*inputs)
        return (memory,) if self.G is None else tuple(torch.autograd.grad(memory, inputs, self.G))

    def error(self) -> float:
        """The distance to float64 loops over a few of the documents that it ran on."""
        found = [sampled(x) for x in self.results(self.given()[0])]
        exact = Encoding(
            lambda f, alpha=None: ops.encode(f, alpha=alpha, backend="reference"),
            [tuple(sampled(x).double() for x in self.sets[0])],
            None if self.G is None else sampled(self.G).double(),
        )
        expected = list(exact.results(exact.given()[0]))
        if self.takes_log and len(expected) == 2:
            expected[1] = expected[1] * exact.sets[0][1]  # ∂/∂ log α = α ∂/∂α
        return worst_distance(found, expected)


def beside_fla(goal: Goal, clock: Clock, sets: list[Inputs], backward: bool) -> Measurement:
    """Ours and fla's; backward, autograd through a plain scan where fla refuses or is wrong."""
    G = direction(sets) if backward else None
    ours = Encoding(lambda f, alpha=None: ops.encode(f, alpha=alpha), sets, G)
    theirs = Encoding(peers.fla_memory, sets, G, takes_log=True)
    fla = theirs.contender("fla chunk_simple_gla, final state")
    plain = Encoding(peers.plain_scan, sets, G).contender("autograd through a plain torch scan")
    return duel(goal, ours.contender("attar.ops.encode"), [fla], clock, [plain] if backward else [])


def beside_bmm(goal: Goal, clock: Clock, sets: list[Inputs]) -> Measurement:
    """Ours and a batched matrix product where k is no multiple of what tensor cores like."""
    theirs = Encoding(lambda f: torch.bmm(f.mT, f), sets).contender("torch.bmm")
    return duel(goal, Encoding(ops.encode, sets).contender("attar.ops.encode"), [theirs], clock)


def extra_memory(goal: Goal, inputs: Inputs) -> Measurement:
    """What backward has made at its peak, counted from its call, beside the bytes of H."""
    ours = Encoding(ops.encode, [inputs], direction([inputs]))
    (f,) = ours.given()[0]
    memory = ops.encode(f)

    def made() -> int:
        return peak_bytes(lambda: torch.autograd.grad(memory, f, ours.G), f.device)

    return weigh(goal, ours.contender("attar.ops.encode"), made, f.nbytes)


def documents(
    shape: Shape, device: str, *, decayed: bool = False, dtype: torch.dtype = torch.bfloat16
) -> list[Inputs]:
    """Sets of states, and of gates near 1, more than a cache can hold."""
    batch, n, k = shape
    count = 2 if device == "cpu" else max(2, -(-CACHE_BYTES // (batch * n * k * dtype.itemsize)))
    sets: list[Inputs] = []
    for _ in range(count):
        f = torch.randn(shape, device=device, dtype=dtype)
        sets.append((f, 0.95 + 0.05 * torch.rand(batch, n, device=device)) if decayed else (f,))
    return sets


def direction(sets: list[Inputs]) -> Tensor:
    """A random G = ∂L/∂C."""
    batch, _, k = sets[0][0].shape
    return torch.randn(batch, k, k, device=sets[0][0].device)
