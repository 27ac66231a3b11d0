"""`python -m benchmarks.training`: where a training step's time goes: waiting for batches, attention, the rest."""

import json
import tempfile
import time
from collections.abc import Callable, Iterable
from itertools import chain, islice, repeat
from pathlib import Path
from statistics import median
from typing import Any

import torch
import typer

from attar.bench.cost import Contender, Effort, Timer
from attar.cli.options import options_from
from attar.cli.train import training_options
from attar.cloze.build import build_set
from attar.cloze.options import BuildOptions
from attar.nn.network import Network
from attar.training.batches import Batch, ClozeBatches
from attar.training.data import EpochStream, open_splits, shared_vocabulary, warn_skipped, worker_count
from attar.training.options import TrainingOptions, network_options
from benchmarks.command import Json, Quick, run_command
from benchmarks.stories import tell_stories

# Steps before and during timing. On a GPU the first steps compile kernels, allocate memory, and use up the
# batches that were prepared meanwhile.
GPU_STEPS, CPU_STEPS = (40, 100), (2, 8)
STORIES = 2_000


@options_from(TrainingOptions, omit=("out",), data=())
def main(context: typer.Context, json_output: Json = False, quick: Quick = False, **given: Any) -> None:
    """Profile a training step with the options of `attar train`, by default on made-up stories; writes nothing.

    python -m benchmarks.training --data SET --batch-size 512
    """
    with tempfile.TemporaryDirectory(prefix="attar-bench-") as folder:
        data = given["data"] or (str(build_stories(Path(folder), 60 if quick else STORIES)),)
        given |= {"data": tuple(data), "out": folder}
        if quick:
            given |= {"hidden_size": 4, "embedding_size": 4, "batch_size": 8}
        profile = profile_step(training_options(context, given))
    lines = [f"{name}: {value}" for name, value in profile.items()]
    print(json.dumps(profile) if json_output else "\n".join(lines))


def build_stories(folder: Path, count: int) -> Path:
    """A cloze set of made-up stories."""
    texts = folder / "stories.txt"
    texts.write_text("\n\n".join(story.text for story in tell_stories(1, count)))
    build_set([texts], folder / "set", BuildOptions(window=100, vocabulary_size=200, only="training"))
    return folder / "set"


def profile_step(options: TrainingOptions) -> dict[str, Any]:
    """Train for some steps, with batches made in the background, and report where the time goes."""
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

    warm_up, count = GPU_STEPS if on_gpu else CPU_STEPS

    def time_steps(stream: Iterable[Batch]) -> float:
        began = _now(on_gpu)
        for batch in stream:
            step(batch)
        return _now(on_gpu) - began

    stream = chain.from_iterable(repeat(epochs))
    time_steps(islice(stream, warm_up))
    seconds = time_steps(islice(stream, count))
    epochs.close()
    # The same batches, all made before the first step: the difference to the above is waiting.
    stream = chain.from_iterable(repeat(epochs))
    ready = [batch.to(device) for batch in islice(stream, warm_up, warm_up + count)]
    ready_seconds = time_steps(ready)
    epochs.close()
    documents = sum(len(batch.indices) for batch in ready)
    tokens = sum(int(batch.documents.lengths.sum()) for batch in ready)
    # A batch of median length: the times of attention and of the encoders grow with it alike.
    typical = sorted(ready, key=lambda batch: batch.documents.ids.shape[1])[count // 2]
    whole, attention = _time_both(lambda: step(typical), _attention(network, typical), on_gpu)
    return {
        "device": torch.cuda.get_device_name() if on_gpu else "CPU",
        "documents per step": options.batch_size,
        "tokens per document": round(tokens / documents),
        "documents per second, loading included": round(documents / seconds),
        "tokens per second, loading included": round(tokens / seconds),
        "ms per step": round(1e3 * seconds / count, 2),
        "ms per step, batches ready beforehand": round(1e3 * ready_seconds / count, 2),
        "share of time waiting for batches": round(max(0.0, 1 - ready_seconds / seconds), 3),
        "ms of attention, forward and backward": round(1e3 * attention, 2),
        "share of attention in a step": round(attention / whole, 3),
    }


def _attention(network: Network, batch: Batch) -> Callable[[], None]:
    """The mechanism alone on states of the batch's shape: encode, look up, backward."""
    documents, questions = batch.documents, batch.questions
    count, n = documents.ids.shape
    hidden = torch.randn(
        count, n, network.options.hidden_size, device=documents.ids.device, requires_grad=True
    )
    rows = torch.rand(
        count, questions.most, network.options.hidden_size, device=hidden.device, requires_grad=True
    )
    written: dict[str, Any] = {}
    if network.options.mechanism == "named":
        written = {"names": documents.names, "count": documents.candidates.shape[1]}
    elif network.options.mechanism == "keyed":
        written = {"values": hidden.detach()[..., : network.options.embedding_size]}

    def attend() -> None:
        memories = network.mechanism.encode(hidden, documents.lengths, **written)
        network.mechanism.lookup(memories, rows).sum().backward()  # type: ignore[no-untyped-call]
        hidden.grad = rows.grad = None

    return attend


def _time_both(step: Callable[[], None], attend: Callable[[], None], on_gpu: bool) -> tuple[float, float]:
    """Seconds of a step and of attention, timed in turns; on a GPU without kernel launches."""
    timer = Timer(Effort(budget=0.0, rounds=5, round_seconds=0.0), "gpu" if on_gpu else "wall")
    whole, attention = map(median, timer.time([Contender("step", step), Contender("attention", attend)]))
    return whole, attention


def _now(on_gpu: bool) -> float:
    if on_gpu:
        torch.cuda.synchronize()
    return time.perf_counter()


if __name__ == "__main__":
    run_command(main)
