"""Learn the map of a reader's token states that search ranks documents by (`attar.search.StateMap`), on a CPU.

    python -m benchmarks.train_search squad-train-part.jsonl.xz squad2-backtranslated.jsonl.xz \\
        squadshifts-train.jsonl.xz --base all-MiniLM-L6-v2 --out map.npz
    python -m benchmarks.fit_search wiki.jsonl.xz --map map.npz --out attar/reader/readers/answers/search.bin

Training to answer takes from a reader's states what a text is about. Two stages bring it back, with the encoder left
as it is: the map imitates the last layer of the encoder that the reader was trained from, then it learns to rank the
passage of a question before other passages, most of them of the same article, by the very signatures that search
compares: whitened states, the root of their sum, and signs (a steep tanh) of the documents' signatures.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer
from torch import Tensor, nn

from attar.search.statistics import WEIGHT_POWER, Statistics, default_statistics, inverse_frequencies
from attar.training.data import Passage, read_passages
from benchmarks.command import run_command
from benchmarks.retrieval.encoders import ReaderEncoder, load_encoder

# Dimensions of the map's points, and of its hidden layer.
SIZE = 128
HIDDEN = 512
# Learning rates of the two stages.
IMITATION_LR = 2e-3
RANKING_LR = 4e-4
# How steep the tanh is that stands for a sign: numbers of a signature are of the size 1 / SIZE.
STEEPNESS = 200.0
# The share of batches whose passages are neighbours in their file, so of one article or two.
NEIGHBOURS = 0.7


class MapNetwork(nn.Module):
    """`StateMap` with gradients: A u + C relu(B u), u = √d h / |h|."""

    def __init__(self, size: int, hidden: int, out: int) -> None:
        super().__init__()
        self.linear, self.hidden = nn.Linear(size, out), nn.Linear(size, hidden)
        self.out = nn.Linear(hidden, out, bias=False)
        nn.init.zeros_(self.out.weight)

    def forward(self, states: Tensor) -> Tensor:
        """The points of states `[n, d]`."""
        scaled = unit(states) * states.shape[1] ** 0.5
        points: Tensor = self.linear(scaled) + self.out(torch.relu(self.hidden(scaled)))
        return points

    def arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """The weights as `StateMap` takes them, biases in the last column."""
        joined = {
            name: torch.cat((part.weight, part.bias[:, None]), 1)
            for name, part in (("linear", self.linear), ("hidden", self.hidden))
        }
        return {name: each.detach().numpy() for name, each in (joined | {"out": self.out.weight}).items()}


@dataclass(frozen=True)
class Text:
    """A text's word pieces `[n]`, states `[n, d]`, and those of the encoder that is imitated, if they are known."""

    ids: Tensor
    states: Tensor
    aims: Tensor | None = None


def unit(rows: Tensor) -> Tensor:
    """Rows of length 1."""
    scaled: Tensor = rows / rows.norm(dim=-1, keepdim=True).clamp(min=1e-12)
    return scaled


class _Root(torch.autograd.Function):
    """The root S of positive semi-definite matrices; its gradient X solves S X + X S = G, without differences."""

    @staticmethod
    def forward(ctx: Any, matrices: Tensor) -> Tensor:
        values, vectors = torch.linalg.eigh(matrices)
        roots = values.clamp(min=0).sqrt()
        ctx.save_for_backward(roots, vectors)
        whole: Tensor = (vectors * roots[:, None]) @ vectors.mT
        return whole

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        roots, vectors = ctx.saved_tensors
        rotated = vectors.mT @ gradient @ vectors
        sums = roots[:, :, None] + roots[:, None, :]
        # Directions in which nothing was written would have gradients without bound.
        least = 1e-2 * roots.amax(-1)[:, None, None] + 1e-9
        solved: Tensor = vectors @ (rotated / (sums + least)) @ vectors.mT
        return solved


def signatures(points: Sequence[Tensor]) -> Tensor:
    """The signatures `[B, k * k]` of weighted points `[n, k]` of each text."""
    sums = torch.stack([each.mT @ each for each in points])
    scaled = sums / sums.diagonal(dim1=1, dim2=2).mean(-1).clamp(min=1e-12)[:, None, None]
    roots = _Root.apply(scaled).flatten(1)  # type: ignore[no-untyped-call]
    return unit(roots)


def encode(encoder: ReaderEncoder, texts: Sequence[str], base: ReaderEncoder | None) -> list[Text]:
    """The states of texts; what the base makes of them only where it cuts them into as many word pieces."""
    aims: Iterator[Any] = iter(() if base is None else base.encode(texts))
    found = []
    for ids, states in encoder.encode(texts):
        aim = next(aims, None)
        same = aim is not None and len(aim[0]) == len(ids)
        half = torch.from_numpy(states).half()
        found.append(
            Text(torch.from_numpy(ids), half, torch.from_numpy(aim[1]).half() if aim and same else None)
        )
    return found


def imitate(network: MapNetwork, texts: Sequence[Text], weights: Tensor, steps: int) -> float:
    """Learn the directions of most variance of the base's states, of equal variance; what is left unexplained."""
    known = [(text.ids, text.states, text.aims) for text in texts if text.aims is not None]
    ids, states, aims = (torch.cat(each) for each in zip(*known, strict=True))
    sample = unit(aims[:: max(1, len(aims) // 300_000)].float())
    mean = sample.mean(0)
    values, vectors = torch.linalg.eigh(torch.cov((sample - mean).T))
    size = network.linear.out_features
    directions = vectors.flip(1)[:, :size] / values.flip(0)[:size].clamp(min=1e-9).sqrt()
    optimizer = torch.optim.AdamW(network.parameters(), lr=IMITATION_LR, weight_decay=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, IMITATION_LR, total_steps=steps)
    left = 1.0
    for _ in range(steps):
        at = torch.randint(len(ids), (2_048,))
        aim = (unit(aims[at].float()) - mean) @ directions
        weight = weights[ids[at]][:, None]
        loss = (weight * (network(states[at].float()) - aim) ** 2).sum() / (weight * aim**2).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        left = 0.98 * left + 0.02 * loss.item()
    return left


def ranking_loss(
    network: MapNetwork, passages: Sequence[Text], questions: Sequence[Text], weights: Tensor, scale: Tensor
) -> Tensor:
    """How badly each question's passage is told from the others, by signatures; questions are in their order."""
    mapped = [
        torch.split(
            unit(network(torch.cat([text.states for text in texts]).float())), [len(t.ids) for t in texts]
        )
        for texts in (passages, questions)
    ]
    every = torch.cat(mapped[0])
    mean = every.mean(0)
    covariance = torch.cov((every - mean).T, correction=0)
    root = torch.linalg.cholesky(covariance + 1e-4 * covariance.diagonal().mean() * torch.eye(len(mean)))
    documents, asked = (
        signatures(
            [
                torch.linalg.solve_triangular(root, (each - mean).T, upper=False).T
                * weights[text.ids].sqrt()[:, None]
                for text, each in zip(texts, points, strict=True)
            ]
        )
        for texts, points in zip((passages, questions), mapped, strict=True)
    )
    scores = asked @ torch.tanh(STEEPNESS * documents).T
    scores = (scores - scores.mean(1, keepdim=True)) / scores.std(1, keepdim=True).detach().clamp(min=1e-9)
    return nn.functional.cross_entropy(scale * scores, torch.arange(len(questions)))


def rank(
    network: MapNetwork,
    passages: Sequence[Text],
    pairs: Sequence[tuple[Text, int]],
    weights: Tensor,
    *,
    steps: int,
    batch_size: int,
) -> float:
    """Learn to rank; `pairs` are questions and the number of their passage, neighbours next to each other."""
    random = np.random.default_rng(0)
    scale = nn.Parameter(torch.tensor(3.0))
    groups = [{"params": [*network.parameters()]}, {"params": [scale]}]
    optimizer = torch.optim.AdamW(groups, lr=RANKING_LR, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, [RANKING_LR, 0.01], total_steps=steps, pct_start=0.1
    )
    average = 0.0
    for step in range(steps):
        pool = np.arange(len(pairs))
        if random.random() < NEIGHBOURS:
            start = int(random.integers(len(pairs)))
            pool = pool[max(0, start - 4 * batch_size) : start + 4 * batch_size]
        chosen: dict[int, Text] = {}  # one question per passage
        for at in random.permutation(pool):
            question, number = pairs[at]
            chosen.setdefault(number, question)
            if len(chosen) == batch_size:
                break
        loss = ranking_loss(
            network, [passages[number] for number in chosen], list(chosen.values()), weights, scale
        )
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        average = loss.item() if not step else 0.98 * average + 0.02 * loss.item()
        if step % 50 == 49:
            print(f"{step + 1} of {steps} steps, loss {average:.3f}", flush=True)
    return average


def piece_weights(encoder: ReaderEncoder, texts: Sequence[str]) -> Tensor:
    """What each word piece weighs, by the statistics that the reader has, or by these texts."""
    statistics = default_statistics(encoder.fingerprint)
    if statistics is None:
        statistics = Statistics.empty(encoder.fingerprint, size=encoder.size, pieces=encoder.pieces)
        for ids, _ in encoder.reader.tokenizer.read_sentences(texts):
            statistics = statistics.with_words(ids)
    frequencies = inverse_frequencies(statistics.frequencies, statistics.documents)
    return torch.from_numpy(frequencies) ** WEIGHT_POWER


def train(
    encoder: ReaderEncoder,
    base: ReaderEncoder,
    data: Sequence[Passage],
    *,
    imitation_steps: int,
    steps: int,
    batch_size: int = 64,
    per_passage: int = 3,
    size: int = SIZE,
    hidden: int = HIDDEN,
) -> MapNetwork:
    """The map of an encoder's states, learned from passages and their questions."""
    torch.manual_seed(0)
    texts = [passage.text for passage in data]
    weights = piece_weights(encoder, texts)
    # Every third passage and question is enough to imitate.
    asked = [(q.text, at) for at, p in enumerate(data) for q in p.questions[:per_passage]]
    passages = encode(encoder, texts[::3], base)
    questions = encode(encoder, [question for question, _ in asked[::3]], base)
    network = MapNetwork(encoder.size, hidden, size)
    left = imitate(network, [*passages, *questions], weights, imitation_steps)
    print(f"imitation: {left:.3f} of the variance unexplained", flush=True)
    passages = encode(encoder, texts, None)
    questions = encode(encoder, [question for question, _ in asked], None)
    pairs = [(text, at) for text, (_, at) in zip(questions, asked, strict=True)]
    rank(network, passages, pairs, weights, steps=steps, batch_size=batch_size)
    return network


def main(
    data: Annotated[list[Path], typer.Argument(help="Questions in SQuAD's format or JSON lines.")],
    base: Annotated[Path, typer.Option(help="The folder of the encoder that the reader was trained from.")],
    out: Annotated[Path, typer.Option(help="File to write, .npz.")],
    reader: Annotated[Path | None, typer.Option(help="A reader's folder.")] = None,
    imitation_steps: Annotated[int, typer.Option(min=1, help="Steps of imitation.")] = 3_000,
    steps: Annotated[int, typer.Option(min=1, help="Steps of ranking.")] = 1_300,
    batch_size: Annotated[int, typer.Option(min=2, help="Passages per step of ranking.")] = 64,
) -> None:
    """Learn the map and write it to a file."""
    passages = [passage for path in data for passage in read_passages(path) if passage.questions]
    own, published = load_encoder(reader), load_encoder(base)
    network = train(
        own, published, passages, imitation_steps=imitation_steps, steps=steps, batch_size=batch_size
    )
    arrays = network.arrays()
    np.savez(out, linear=arrays["linear"], hidden=arrays["hidden"], out=arrays["out"])


if __name__ == "__main__":
    run_command(main)
