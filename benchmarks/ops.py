"""The operations on a CPU, compared with torch and softmax: `python -m benchmarks.ops`."""

import functools
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from attar import ops
from attar.nn import Memories, attention
from attar.nn.mechanisms.base import MatrixMechanism, Mechanism
from attar.ops.along import lookup_along
from attar.paper import table1 as baselines
from attar.paper.table1 import Floats, this_machine
from benchmarks.command import Only, Quick, run_command
from benchmarks.comparison import Case, Comparison, Goal, at_most, compare, run_cases, sampled
from benchmarks.timing import QUICK, Contender, Effort, Timer, relative_error, tolerance_for

TOLERANCE = tolerance_for(torch.float32)

CHUNK = 64

Shape = tuple[int, int, int]


def cpu_cases(effort: Effort, *, quick: bool = False) -> list[Case]:
    """The rows on a CPU; sizes are in their names."""
    one, all_threads = Timer(effort, threads=1), Timer(effort)
    held = 2**20 if quick else 4 * _last_cache_bytes()
    short, long = (75, 300) if quick else (750, 10_000)
    encoded = (4, 50, 20) if quick else (32, 750, 100)
    lookup = "CPU lookup, packed float32, k = 100, one thread"
    softmax = "softmax over H, n = {:,}, both out of cache"
    shape = "{} × {} × {} float32".format(*encoded)
    return [
        Case(lookup, softmax.format(short), Goal(short / 100), lambda: lookup_vs_softmax(one, short, held)),
        Case(lookup, softmax.format(long), Goal(80), lambda: lookup_vs_softmax(one, long, held)),
        Case(f"CPU encode, {shape}", "torch.bmm", at_most(1.2), lambda: encode_vs_bmm(all_threads, encoded)),
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


def encode_vs_bmm(timer: Timer, shape: Shape) -> Comparison:
    """The same Gram product with our checks and without."""
    states = torch.randn(shape)
    expected = ops.encode(sampled(states, 32).double(), backend="reference")

    def contender(name: str, encode: Callable[[Tensor], Tensor]) -> Contender:
        def error() -> float:
            return relative_error(sampled(encode(states), 32), expected)

        return Contender(name, lambda: encode(states), error, TOLERANCE)

    bmm = contender("torch.bmm", lambda f: torch.bmm(f.mT, f))
    return compare(contender("attar.ops.encode", ops.encode), [bmm], timer)


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


def main(only: Only = None, quick: Quick = False) -> None:
    """Compare the operations with torch and softmax; wrong results are not timed."""
    machine = this_machine()  # before the first row adds to its load
    torch.manual_seed(0)
    notes = machine.busy_notes(
        "do not trust rows that use several threads, since threads wait for each other."
    )
    cases = cpu_cases(QUICK if quick else Effort(), quick=quick)
    run_cases(machine, cases, only=only, quick=quick, notes=notes)


if __name__ == "__main__":
    run_command(main)
