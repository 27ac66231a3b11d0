"""Rows of `python -m benchmarks.ops` for `attar.nn`: prepared ridges, adaptive training, readouts along a text."""

import functools
from typing import Any

import torch
from torch import Tensor, nn

from attar.nn import Memories, attention
from attar.nn.mechanisms.base import MatrixMechanism, Mechanism
from attar.ops.along import lookup_along
from benchmarks.comparison import Case, Comparison, Goal, at_most, compare
from benchmarks.timing import Contender, Timer, relative_error, tolerance_for

Shape = tuple[int, int, int]
TOLERANCE = tolerance_for(torch.float32)
CHUNK = 64


def layer_cases(timer: Timer, *, quick: bool = False) -> list[Case]:
    """The rows; sizes are in their names."""
    k, batch = (16, 2) if quick else (256, 8)
    trained: Shape = (2, 70, 8) if quick else (32, 750, 100)
    along: Shape = (2, 128, 8) if quick else (8, 2048, 64)
    prepared = f"CPU lookup in a prepared ridge, k = {k}, {batch} documents"
    adaptive = "CPU adaptive, {} × {} × {}, forward + backward".format(*trained)
    lines = "CPU lookup_along, {}, {} × {:,} × {}, forward + backward"
    gated, chunked = "CPU lookup_along, gated, {} × {:,} × {}", "ten plain lines of chunking"

    def of_lines(name: str) -> Case:
        run = functools.partial(along_vs_lines, timer, along, decayed=name == "decayed")
        return Case(lines.format(name, *along), chunked, at_most(1.2), run)

    def of_tokens(batch: int) -> Case:
        shape = batch, *along[1:]
        run = functools.partial(along_vs_extend, timer, shape)
        return Case(gated.format(*shape), "extend and lookup per token", Goal(20), run)

    gru = "torch.nn.GRU, forward + backward"
    return [
        Case(prepared, "keyed without a ridge", at_most(1.1), lambda: prepared_vs_plain(timer, batch, k)),
        Case(adaptive, gru, at_most(1.5), lambda: adaptive_vs_gru(timer, trained)),
        *map(of_lines, ("linear", "decayed")),
        *map(of_tokens, (1, along[0])),
    ]


@torch.no_grad()
def prepared_vs_plain(timer: Timer, batch: int, k: int) -> Comparison:
    """One query per document."""
    hidden, queries = torch.randn(batch, 300, k), torch.randn(batch, 1, k)
    ridge, plain = attention("keyed", k, ridge=True), attention("keyed", k)

    def contender(name: str, module: Mechanism, memories: Memories) -> Contender:
        exact = attention("keyed", k, ridge=getattr(module, "ridge", 0.0)).double()
        exact.load_state_dict(module.state_dict())

        def error() -> float:
            expected = exact(hidden.double(), queries.double(), values=hidden.double())
            return relative_error(run(), expected)

        @torch.no_grad()
        def run() -> Tensor:
            return module.lookup(memories, queries)

        # G is ill-conditioned in float32: its inverse has fewer digits.
        return Contender(name, run, error, 100 * TOLERANCE)

    return compare(
        contender("attar.nn keyed, ridge, prepared", ridge, ridge.encode(hidden, values=hidden).prepare()),
        [contender("attar.nn keyed", plain, plain.encode(hidden, values=hidden))],
        timer,
    )


def adaptive_vs_gru(timer: Timer, shape: Shape) -> Comparison:
    """A training step of the mechanism whose gates read the memory, and of the encoder that comes before it."""
    hidden, k = torch.randn(shape), shape[2]
    module, gru = attention("adaptive", k), nn.GRU(k, k, batch_first=True)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.3 / k**0.5)

    def gradients(mechanism: Mechanism, x: Tensor) -> list[Tensor]:
        leaf = x.detach().requires_grad_()
        loss = mechanism.encode(leaf).state.sum()
        return list(torch.autograd.grad(loss, [leaf, *mechanism.parameters()]))

    def error() -> float:
        few = hidden[:2, :100]
        exact = attention("adaptive", k, backend="reference").double()
        exact.load_state_dict(module.state_dict())
        pairs = zip(gradients(module, few), gradients(exact, few.double()), strict=True)
        return max(
            relative_error(found.flatten()[None], expected.flatten()[None]) for found, expected in pairs
        )

    def train_gru() -> None:
        gru(hidden.detach().requires_grad_())[0].sum().backward()

    ours = Contender("attar.nn adaptive", lambda: gradients(module, hidden), error, 100 * TOLERANCE)
    return compare(ours, [Contender("torch.nn.GRU", train_gru)], timer)


def plain_lines(k: Tensor, v: Tensor, q: Tensor) -> Tensor:
    """Chunked linear attention as people write it."""
    q, k, v = (x.view(len(x), -1, CHUNK, x.shape[2]) for x in (q, k, v))
    states = (k.mT @ v).cumsum(1)
    before = nn.functional.pad(states[:, :-1], (0, 0, 0, 0, 1, 0))
    return (q @ before + (q @ k.mT).tril() @ v).flatten(1, 2)


def plain_decayed_lines(k: Tensor, v: Tensor, q: Tensor, alpha: Tensor) -> Tensor:
    """The same with a decay per token."""
    q, k, v = (x.view(len(x), -1, CHUNK, x.shape[2]) for x in (q, k, v))
    logs = alpha.log().view(len(alpha), -1, CHUNK).cumsum(2)
    decays = (logs[..., :, None] - logs[..., None, :]).tril().exp().tril()
    written = (k * (logs[..., -1:] - logs).exp()[..., None]).mT @ v
    before = [torch.zeros_like(written[:, 0])]
    for chunk in range(written.shape[1] - 1):
        before.append(before[-1] * logs[:, chunk, -1].exp()[:, None, None] + written[:, chunk])
    return ((q * logs.exp()[..., None]) @ torch.stack(before, 1) + ((q @ k.mT) * decays) @ v).flatten(1, 2)


def along_vs_lines(timer: Timer, shape: Shape, *, decayed: bool) -> Comparison:
    """Our checks and options, and none."""
    inputs = [torch.randn(shape) for _ in range(3)]
    if decayed:
        inputs.append(0.9 + 0.1 * torch.rand(shape[:2]))
    lines = plain_decayed_lines if decayed else plain_lines

    def ours(k: Tensor, v: Tensor, q: Tensor, alpha: Tensor | None = None) -> Tensor:
        return lookup_along(k, v, q, alpha=alpha)

    def gradients(function: Any, tensors: list[Tensor]) -> list[Tensor]:
        leaves = [x.detach().requires_grad_() for x in tensors]
        return list(torch.autograd.grad(function(*leaves).sum(), leaves))

    exact = gradients(ours, [x.double() for x in inputs])

    def error(function: Any) -> float:
        return max(map(relative_error, gradients(function, inputs), exact))

    contenders = [
        Contender(name, functools.partial(gradients, f, inputs), functools.partial(error, f), 10 * TOLERANCE)
        for name, f in (("attar.ops.lookup_along", ours), ("ten plain lines of chunking", lines))
    ]
    return compare(contenders[0], contenders[1:], timer)


@torch.no_grad()
def along_vs_extend(timer: Timer, shape: Shape) -> Comparison:
    """All positions at once, and token by token."""
    module = attention("gated", shape[2])
    assert isinstance(module, MatrixMechanism)
    hidden, queries = torch.randn(shape), torch.randn(shape)
    few = min(64, shape[1])  # per token each step costs the same: 64 of them are timed

    @torch.no_grad()
    def token_by_token() -> Tensor:
        memories, readouts = module.encode(hidden[:, :0]), []
        for t in range(few):
            memories = module.extend(memories, hidden[:, t : t + 1])
            readouts.append(module.lookup(memories, queries[:, t : t + 1]))
        return torch.cat(readouts, 1)

    @torch.no_grad()
    def run() -> Tensor:
        return module.lookup_along(hidden, queries)

    def error() -> float:
        return relative_error(run()[:, :few], token_by_token().double())

    ours = Contender("attar.nn gated, lookup_along", run, error, 10 * TOLERANCE, amount=float(shape[1]))
    return compare(ours, [Contender("extend per token", token_by_token, amount=float(few))], timer)
