"""The paper's second-order recurrent unit against a GRU with linear memory: accuracy on stories, and time in GRUs.

    python -m benchmarks.second_order --out second-order

The unit reads its own memory, h_t = GRU([x_t, squash(C h_{t-1})], h_{t-1}) and C ← C + h_t h_tᵀ. In a chunk that starts
from C₀, C h = C₀ h + Hᵀ (H h) with the chunk's own states H, so C is written once per chunk. On a GPU, training replays
one CUDA graph of all tokens. Its state is that of a GRU with linear memory of the same k; "equal parameters" is a GRU
with a larger k.
"""

import json
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Annotated, Any
from unittest.mock import patch

import torch
import typer
from jaxtyping import Float, Int
from torch import Tensor, nn

from attar.ops.checks import length_mask
from attar.ops.reference import squash
from attar.paper.build import tell_story
from attar.paper.cloze import document_writer
from attar.paper.evaluate import evaluate
from attar.paper.network import Network
from attar.paper.options import NetworkOptions, TrainingOptions
from attar.paper.recall import estimate
from attar.paper.sets import ClozeSet
from attar.paper.timing import Contender, Effort, Timer
from attar.paper.train import BEST, RUN, TrainingData, TrainingRun
from attar.progress import ignore_progress
from benchmarks.command import run_command
from benchmarks.stories import FILLERS

CHUNK = 16
UNITS = ("second-order", "gru, equal state", "gru, equal parameters")


class Unit(nn.Module):
    """All states of padded inputs."""

    def __init__(self, input_size: int, size: int) -> None:
        super().__init__()
        self.size = size
        self.of_input = nn.Linear(input_size, 3 * size)
        self.of_state = nn.Linear(size, 3 * size)
        self.of_reading = nn.Linear(size, 3 * size, bias=False)
        for weight in self.parameters():
            nn.init.uniform_(weight, -(size**-0.5), size**-0.5)  # as nn.GRU

    def forward(self, x: Float[Tensor, "B n d"]) -> Float[Tensor, "B n k"]:
        batch, n, _ = x.shape
        inputs = self.of_input(x)
        h, C = x.new_zeros(batch, self.size), x.new_zeros(batch, self.size, self.size)
        chunks: list[Tensor] = []
        for start in range(0, n, CHUNK):
            states = x.new_zeros(batch, 0, self.size)
            for t in range(start, min(start + CHUNK, n)):
                read = torch.bmm(C, h[:, :, None])
                if t > start:
                    read = torch.baddbmm(read, states.mT, torch.bmm(states, h[:, :, None]))
                entering = inputs[:, t] + self.of_reading(squash(read[:, :, 0]))
                h = self._step(entering, self.of_state(h), h)
                states = torch.cat([states, h[:, None]], 1)
            C = torch.baddbmm(C, states.mT, states)
            chunks.append(states)
        return torch.cat(chunks, 1)

    def _step(self, entering: Tensor, staying: Tensor, h: Tensor) -> Float[Tensor, "B k"]:
        """The GRU's, from its gates' two sums."""
        reset, update, new = entering.chunk(3, 1)
        held_reset, held_update, held_new = staying.chunk(3, 1)
        update = torch.sigmoid(update + held_update)
        return torch.lerp(torch.tanh(new + torch.sigmoid(reset + held_reset) * held_new), h, update)


class SecondOrderEncoder(nn.Module):
    """In place of a network's document encoder."""

    def __init__(self, input_size: int, size: int) -> None:
        super().__init__()
        self.unit = Unit(input_size, size)
        self.shape: tuple[int, int] | None = None  # of the CUDA graph

    def capture(self, batch: int, n: int) -> None:
        """Make training replay a graph: steps of other shapes are padded to this one."""
        self.shape = batch, n
        sample = torch.zeros(batch, n, self.unit.of_input.in_features, device="cuda", requires_grad=True)
        torch.cuda.make_graphed_callables(self.unit, (sample,))

    def forward(
        self, x: Float[Tensor, "B n d"], lengths: Int[Tensor, " B"], ends: Tensor | None = None
    ) -> Float[Tensor, "B n k"]:
        batch, n, _ = x.shape
        mask = length_mask(lengths, x)
        if self.shape is not None and self.training:
            x = nn.functional.pad(x, (0, 0, 0, self.shape[1] - n, 0, self.shape[0] - batch))
        states: Tensor = self.unit(x)[:batch, :n]
        return states if mask is None else states.masked_fill(~mask[:, :, None], 0)


class SecondOrderNetwork(Network):
    def __init__(self, options: NetworkOptions, words: int, entities: int) -> None:
        super().__init__(options, words, entities)
        self.document_encoder = SecondOrderEncoder(options.embedding_size, options.hidden_size)  # type: ignore[assignment]


def long_story(rng: Random, name: str, tokens: int) -> Any:
    """A story of eight facts between remarks without names, of about `tokens` tokens."""
    story = tell_story(rng, name, facts=8)
    sentences, length = list(story.sentences), sum(map(len, story.sentences))
    while length < tokens - 8:
        remark = rng.choice(FILLERS).lower().replace(".", " .").split()
        sentences.insert(rng.randrange(len(sentences) + 1), remark)
        length += len(remark)
    return replace(story, sentences=sentences)


def write_set(folder: Path, tokens: int, documents: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    rng = Random(0)
    for split, count in {"training": documents, "validation": 200, "test": 500}.items():
        with document_writer(folder / f"{split}.parquet") as write:
            for number in range(min(count, documents)):
                write(long_story(rng, f"{split} {number}", tokens))


def parameters(module: nn.Module) -> int:
    return sum(weight.numel() for weight in module.parameters())


def equal_size(options: NetworkOptions, words: int, entities: int) -> int:
    """The hidden size of the GRU network whose parameters are nearest in number."""
    wanted = parameters(SecondOrderNetwork(options, words, entities))
    sizes = range(options.hidden_size, 2 * options.hidden_size)

    def gap(size: int) -> int:
        return abs(parameters(Network(replace(options, hidden_size=size), words, entities)) - wanted)

    return min(sizes, key=gap)


def run(unit: str, options: TrainingOptions, graphs: bool) -> dict[str, Any]:
    """Train one network, and evaluate its best epoch."""
    torch.set_num_threads(1)
    cloze_set = ClozeSet.open(options.data)
    data = TrainingData.of(cloze_set)
    vocabulary = data.vocabulary
    if unit == UNITS[2]:
        size = equal_size(options.network(), len(vocabulary), vocabulary.entities)
        options = replace(options, hidden_size=size)
    kind = SecondOrderNetwork if unit == UNITS[0] else Network
    with patch("attar.paper.train.Network", kind):
        training = TrainingRun(options, data)
    encoder: Any = training.network.document_encoder
    if graphs and isinstance(encoder, SecondOrderEncoder):
        training.network.train()
        encoder.capture(options.batch_size, int(data.training.lengths.max()))
    (options.folder / RUN).mkdir(parents=True, exist_ok=True)
    training.finish(lambda line: print(f"{unit}, seed {options.seed}: {line}", flush=True), ignore_progress)
    training.network.load_state_dict(torch.load(options.folder / RUN / BEST, weights_only=True))
    score = evaluate(training.network, cloze_set.encoded("test", vocabulary)).network
    return {
        "unit": unit,
        "seed": options.seed,
        "hidden_size": options.hidden_size,
        "parameters": parameters(training.network),
        "test": score.accuracy,
        "validation": [row["validation_accuracy"] for row in training.history],
    }


def measure_time(batch: int, n: int, size: int, graphs: bool) -> dict[str, float]:
    """Seconds of forward and backward: the median of interleaved rounds."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x = torch.randn(batch, n, size, device=device, requires_grad=True)
    unit, gru = SecondOrderEncoder(size, size).to(device), nn.GRU(size, size, batch_first=True).to(device)
    lengths = torch.full((batch,), n)
    if graphs:
        unit.capture(batch, n)

    def finish(states: Tensor) -> None:
        states.sum().backward()  # type: ignore[no-untyped-call]
        if device == "cuda":
            torch.cuda.synchronize()

    contenders = [
        Contender("second-order", lambda: finish(unit(x, lengths))),
        Contender("gru", lambda: finish(gru(x)[0])),
    ]
    seconds = Timer(Effort(budget=5.0, rounds=3)).time(contenders)
    return {
        contender.name: sorted(times)[len(times) // 2]
        for contender, times in zip(contenders, seconds, strict=True)
    }


def main(
    out: Annotated[Path, typer.Option(help="Folder for the set, the runs and the report.")],
    tokens: Annotated[int, typer.Option(help="Tokens per document.")] = 1_000,
    documents: Annotated[int, typer.Option(help="Training documents.")] = 3_000,
    epochs: Annotated[int, typer.Option(help="Epochs.")] = 12,
    size: Annotated[int, typer.Option(help="Hidden size of the unit.")] = 48,
    seeds: Annotated[int, typer.Option(help="Networks of each kind.")] = 3,
    jobs: Annotated[int, typer.Option(help="Networks at a time.")] = 9,
    graphs: Annotated[bool, typer.Option(help="Replay CUDA graphs.")] = True,
) -> None:
    """A table of test accuracy with 95 % intervals over seeds, and the time of a step in GRUs."""
    graphs = graphs and torch.cuda.is_available()
    write_set(out / "set", tokens, documents)
    base = TrainingOptions(
        data=str(out / "set"), out="", mechanism="linear", epochs=epochs, batch_size=64, lr=1e-2
    )
    base = replace(base, hidden_size=size, embedding_size=size)
    timed = measure_time(64, tokens, size, graphs)
    ratio = timed["second-order"] / timed["gru"]
    print(f"forward and backward, 64 x {tokens} x {size}: {ratio:.2f} GRUs, {timed}", flush=True)
    cases = [
        (unit, replace(base, seed=seed, out=str(out / f"run-{number}-{seed}")), graphs)
        for seed in range(seeds)
        for number, unit in enumerate(UNITS)
    ]
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        results = list(pool.map(run, *zip(*cases, strict=True)))
    report = {"tokens": tokens, "seconds": timed, "runs": results}
    (out / "second-order.json").write_text(json.dumps(report, indent=1) + "\n")
    print("| unit | k | parameters | accuracy |\n|---|---|---|---|")
    for unit in UNITS:
        runs = [each for each in results if each["unit"] == unit]
        accuracy = estimate([each["test"] for each in runs])
        print(f"| {unit} | {runs[0]['hidden_size']} | {runs[0]['parameters']:,} | {accuracy} |")


if __name__ == "__main__":
    run_command(main)
