"""The paper's second-order recurrent unit against a GRU with linear memory: accuracy on stories.

    python -m benchmarks.second_order --out second-order

The unit reads its own memory, h_t = GRU([x_t, squash(C h_{t-1})], h_{t-1}) and C ← C + h_t h_tᵀ. Its state is that of
a GRU with linear memory of the same k; "equal parameters" is a GRU with a larger k. "From 0" is the unit whose weights
of what it reads start at 0.
"""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Annotated, Any, NamedTuple
from unittest.mock import patch

import msgspec
import torch
import typer
from jaxtyping import Float, Int
from torch import Tensor, nn

from attar.ops.checks import accumulation_dtype, length_mask, without_autocast
from attar.ops.reference import squash
from attar.paper.build import tell_story
from attar.paper.cloze import document_writer
from attar.paper.network import Network
from attar.paper.options import NetworkOptions, TrainingOptions
from attar.paper.recall import estimate
from attar.paper.sets import ClozeSet
from attar.paper.train import BEST, NETWORK, RUN, WHOLE, TrainingData, TrainingRun, evaluate
from attar.progress import ignore_progress
from benchmarks.command import run_command
from benchmarks.stories import FILLERS

UNITS = ("second-order", "second-order, from 0", "gru, equal state", "gru, equal parameters")


class Unit(nn.Module):
    """All states of padded inputs, in place of a network's document encoder."""

    def __init__(self, input_size: int, size: int) -> None:
        super().__init__()
        self.size = size
        self.of_input = nn.Linear(input_size, 3 * size)
        self.of_state = nn.Linear(size, 3 * size)
        self.of_reading = nn.Linear(size, 3 * size, bias=False)
        for weight in self.parameters():
            nn.init.uniform_(weight, -(size**-0.5), size**-0.5)  # as nn.GRU

    def forward(
        self, x: Float[Tensor, "B n d"], lengths: Int[Tensor, " B"] | None = None
    ) -> Float[Tensor, "B n k"]:
        """Token by token; C is float32 or wider."""
        inputs = self.of_input(x)
        batch, n, _ = inputs.shape
        h, summed = inputs.new_zeros(batch, self.size), accumulation_dtype(inputs.dtype)
        C = inputs.new_zeros(batch, self.size, self.size, dtype=summed)
        states = []
        for t in range(n):
            with without_autocast(inputs):
                read = squash(torch.bmm(C, h.to(summed)[:, :, None])[:, :, 0]).to(inputs.dtype)
            h = self._step(inputs[:, t] + self.of_reading(read), self.of_state(h), h)
            with without_autocast(inputs):
                C = torch.baddbmm(C, h.to(summed)[:, :, None], h.to(summed)[:, None])
            states.append(h)
        found, mask = torch.stack(states, 1), length_mask(lengths, x)
        return found if mask is None else found.masked_fill(~mask[:, :, None], 0)

    def _step(self, entering: Tensor, staying: Tensor, h: Tensor) -> Float[Tensor, "B k"]:
        """The GRU's, from its gates' two sums."""
        reset, update, new = entering.chunk(3, 1)
        held_reset, held_update, held_new = staying.chunk(3, 1)
        update = torch.sigmoid(update + held_update)
        return torch.lerp(torch.tanh(new + torch.sigmoid(reset + held_reset) * held_new), h, update)


class SecondOrderNetwork(Network):
    def __init__(self, options: NetworkOptions, words: int, entities: int) -> None:
        super().__init__(options, words, entities)
        self.document_encoder = Unit(options.embedding_size, options.hidden_size)  # type: ignore[assignment]


class FromZeroNetwork(SecondOrderNetwork):
    """What is read has a size of 1, embeddings of words a tenth: random weights of it drown the words."""

    def __init__(self, options: NetworkOptions, words: int, entities: int) -> None:
        super().__init__(options, words, entities)
        nn.init.zeros_(self.document_encoder.of_reading.weight)  # type: ignore[arg-type, union-attr]


def long_story(rng: Random, name: str, tokens: int) -> Any:
    """A story of eight facts between remarks without names, of about `tokens` tokens."""
    story = tell_story(rng, name, facts=8)
    sentences, length = list(story.sentences), sum(len(sentence.split()) for sentence in story.sentences)
    while length < tokens - 8:
        remark = rng.choice(FILLERS).lower().replace(".", " .")
        sentences.insert(rng.randrange(len(sentences) + 1), remark)
        length += len(remark.split())
    return msgspec.structs.replace(story, sentences=sentences)


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


class Result(NamedTuple):
    """A network that was trained, and its accuracy on the test split."""

    unit: str
    size: int
    parameters: int
    accuracy: float


def run(unit: str, options: TrainingOptions) -> Result:
    """Train one network, and evaluate its best epoch."""
    torch.set_num_threads(1)
    cloze_set = ClozeSet.open(options.data)
    data = TrainingData.of(cloze_set)
    vocabulary = data.vocabulary
    if unit == UNITS[3]:
        size = equal_size(options.network(), len(vocabulary), vocabulary.entities)
        options = replace(options, hidden_size=size)
    kind = {UNITS[0]: SecondOrderNetwork, UNITS[1]: FromZeroNetwork}.get(unit, Network)
    with patch("attar.paper.train.Network", kind):
        training = TrainingRun(options, data)
    (options.folder / RUN).mkdir(parents=True, exist_ok=True)
    training.finish(lambda line: print(f"{unit}, seed {options.seed}: {line}", flush=True), ignore_progress)
    training.network.load_state_dict(torch.load(options.folder / RUN / BEST, weights_only=True))
    score = evaluate(training.network, cloze_set.encoded("test", vocabulary))[WHOLE][NETWORK]
    size, count = options.hidden_size, parameters(training.network)
    print(
        f"{unit}, seed {options.seed}: k {size}, {count:,} parameters, test {score.accuracy:.3f}", flush=True
    )
    return Result(unit, size, count, score.accuracy)


def main(
    out: Annotated[Path, typer.Option(help="Folder for the set, the runs and the report.")],
    tokens: Annotated[int, typer.Option(help="Tokens per document.")] = 1_000,
    documents: Annotated[int, typer.Option(help="Training documents.")] = 3_000,
    epochs: Annotated[int, typer.Option(help="Epochs.")] = 12,
    size: Annotated[int, typer.Option(help="Hidden size of the unit.")] = 48,
    batch_size: Annotated[int, typer.Option(help="Documents per step.")] = 64,
    lr: Annotated[float, typer.Option(help="Peak learning rate.")] = 1e-2,
    seeds: Annotated[int, typer.Option(help="Networks of each kind.")] = 3,
    jobs: Annotated[int, typer.Option(help="Networks at a time.")] = 9,
) -> None:
    """A table of test accuracy with 95 % intervals over seeds."""
    write_set(out / "set", tokens, documents)
    base = TrainingOptions(
        data=str(out / "set"), out="", mechanism="linear", epochs=epochs, batch_size=batch_size, lr=lr
    )
    base = replace(base, hidden_size=size, embedding_size=size)
    cases = [
        (unit, replace(base, seed=seed, out=str(out / f"run-{number}-{seed}")))
        for seed in range(seeds)
        for number, unit in enumerate(UNITS)
    ]
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        results = list(pool.map(run, *zip(*cases, strict=True)))
    print("| unit | k | parameters | accuracy |\n|---|---|---|---|")
    for unit in UNITS:
        runs = [each for each in results if each.unit == unit]
        accuracy = estimate([each.accuracy for each in runs])
        print(f"| {unit} | {runs[0].size} | {runs[0].parameters:,} | {accuracy} |")


if __name__ == "__main__":
    run_command(main)
