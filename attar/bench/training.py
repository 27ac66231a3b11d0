"""Where a training step's time goes: waiting for batches, attention, the rest."""

import time
from collections.abc import Callable, Iterable
from itertools import chain, islice, repeat
from statistics import median
from typing import Any

import torch

from attar.bench.case import Clock, Contender
from attar.bench.clocks import DeviceClock, Effort, WallClock
from attar.nn import Network
from attar.training import (
    Batch,
    ClozeBatches,
    EpochStream,
    TrainingOptions,
    network_options,
    open_splits,
    shared_vocabulary,
    warn_skipped,
    worker_count,
)

# Steps before the clock starts and while it runs. On a GPU kernels are compiled, memory is taken, and the batches
# that were made while nobody asked are used up first; a CPU has nothing of that to wait for.
ON_GPU, ON_CPU = (40, 100), (2, 8)


def profile_step(options: TrainingOptions) -> dict[str, Any]:
    """Train for some steps, batches made beside it, and tell what they cost."""
    on_gpu = torch.cuda.is_available()
    device = "cuda" if on_gpu else "cpu"
    torch.manual_seed(options.seed)
    if on_gpu:
        torch.set_num_threads(1)
        torch.set_float32_matmul_precision("high")
    skip = warn_skipped if options.skip_malformed else None
    vocabulary = shared_vocabulary(options.data, skip=skip)
    split = open_splits(options.data, "training", vocabulary, skip=skip)
    drawn = options.questions if len(split.answers) == 0 else 0
    batches = ClozeBatches(split, vocabulary, size=options.batch_size, draw=drawn, seed=options.seed)
    epochs = EpochStream(batches, workers=worker_count(options.num_workers, on_gpu))
    network = Network(network_options(options, vocabulary)).to(device)
    optimiser = torch.optim.Adam(network.parameters(), options.lr, fused=on_gpu)

    def step(batch: Batch) -> None:
        moved = batch.to(device)
        scores = network(moved.documents, moved.questions).float()
        loss = torch.nn.functional.cross_entropy(scores, moved.answers)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(network.parameters(), options.grad_clip or 1e9)
        optimiser.step()

    warm_up, count = ON_GPU if on_gpu else ON_CPU

    def time_steps(stream: Iterable[Batch]) -> float:
        began = _now(on_gpu)
        for batch in stream:
            step(batch)
        return _now(on_gpu) - began

    stream = chain.from_iterable(repeat(epochs))
    time_steps(islice(stream, warm_up))
    seconds = time_steps(islice(stream, count))
    epochs.close()
    # The same batches, all of them there before the first step: what they took longer above was waiting.
    stream = chain.from_iterable(repeat(epochs))
    ready = [batch.to(device) for batch in islice(stream, warm_up, warm_up + count)]
    unhindered = time_steps(ready)
    epochs.close()
    documents = sum(len(batch.indices) for batch in ready)
    tokens = sum(int(batch.documents.lengths.sum()) for batch in ready)
    # A batch of usual length: attention's time grows with it as the encoders' does.
    usual = sorted(ready, key=lambda batch: batch.documents.ids.shape[1])[count // 2]
    whole, attention = _race(lambda: step(usual), _attention_of(network, usual), on_gpu)
    return {
        "device": torch.cuda.get_device_name() if on_gpu else "CPU",
        "documents a step": options.batch_size,
        "tokens a document": round(tokens / documents),
        "documents a second, loading included": round(documents / seconds),
        "tokens a second, loading included": round(tokens / seconds),
        "ms a step": round(1e3 * seconds / count, 2),
        "ms a step, batches ready beforehand": round(1e3 * unhindered / count, 2),
        "share of time waiting for batches": round(max(0.0, 1 - unhindered / seconds), 3),
        "ms of attention, forward and backward": round(1e3 * attention, 2),
        "share of attention in a step": round(attention / whole, 3),
    }


def _attention_of(network: Network, batch: Batch) -> Callable[[], None]:
    """The mechanism alone, on states of the batch's shape: write, look up, and back."""
    documents, questions = batch.documents, batch.questions
    count, n = documents.ids.shape
    hidden = torch.randn(count, n, network.options.size, device=documents.ids.device, requires_grad=True)
    rows = torch.rand(count, questions.most, network.options.size, device=hidden.device, requires_grad=True)
    written: dict[str, Any] = {}
    if network.options.mechanism == "named":
        written = {"names": documents.names, "count": documents.candidates.shape[1]}
    elif network.options.mechanism == "keyed":
        written = {"values": hidden.detach()[..., : network.options.embedding]}

    def attend() -> None:
        memories = network.mechanism.encode(hidden, documents.lengths, **written)
        network.mechanism.lookup(memories, rows).sum().backward()  # type: ignore[no-untyped-call]
        hidden.grad = rows.grad = None

    return attend


def _race(step: Callable[[], None], attend: Callable[[], None], on_gpu: bool) -> tuple[float, float]:
    """Seconds of a step and of attention, in turns; on a GPU those of its own work, and not of launching it."""
    effort = Effort(budget=0.0, rounds=5, round_seconds=0.0)
    clock: Clock = DeviceClock(effort) if on_gpu else WallClock(effort)
    # Both were held against float64 by the tests of their rooms: here they are only timed.
    contenders = [Contender(name, run, float, 0.0) for name, run in (("step", step), ("attention", attend))]
    whole, attention = map(median, clock.race(contenders))
    return whole, attention


def _now(on_gpu: bool) -> float:
    if on_gpu:
        torch.cuda.synchronize()
    return time.perf_counter()
