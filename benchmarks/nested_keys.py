"""One memory for every budget: keys trained so that the leading block of C and G is the memory of a smaller k.

    python -m benchmarks.nested_keys --figure docs/figures/nested-keys.png

The task is that of `attar paper recall` with keyed-ridge. The nested network is trained on the sum of the losses of all
cuts of its memories, others on one cut each; the last rows cut the network that was trained on the largest alone.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import torch
import typer
from jaxtyping import Float, Int
from torch import Tensor

from attar.ops import ridge_solution
from attar.paper.compare import aligned_table, load_pyplot
from attar.paper.options import RecallOptions, whole_numbers
from attar.paper.recall import Associator, Sample, draw, estimate, recall_loss, train_network
from benchmarks.command import run_command

CUTS = (8, 16, 32, 64)
MEASURED = 64


class Point(NamedTuple):
    """Recall by length of one network at one cut."""

    network: str
    cut: int
    seed: int
    recall: dict[int, float]


def recall_cut(
    network: Associator, memories: Any, keys: Int[Tensor, "B m"], cut: int
) -> Float[Tensor, "B m v"]:
    """The scores of all values from the first `cut` rows of C and G; C is [k, d], next to it G [k, k]."""
    width = memories.state.shape[2] - memories.state.shape[1] + cut
    solved = ridge_solution(memories.state[:, :cut, :width], ridge=network.mechanism.ridge)
    queries = network.query(network.keys(keys))[..., :cut]
    scores: Tensor = network.head(queries @ solved)
    return scores


def trained(options: RecallOptions, cuts: Sequence[int], seed: int) -> Associator:
    """A network whose loss is the sum over cuts."""
    torch.manual_seed(seed)
    network = Associator("keyed-ridge", max(CUTS), options.vocabulary)
    rng = torch.Generator().manual_seed(seed + 1)

    def loss_of(sample: Sample, memories: Any) -> Tensor:
        losses = [recall_loss(recall_cut(network, memories, sample.keys, cut), sample.values) for cut in cuts]
        return torch.stack(losses).sum()

    train_network(network, options, rng, loss_of)
    return network


@torch.inference_mode()
def measure(network: Associator, options: RecallOptions, cut: int, seed: int) -> dict[int, float]:
    """The share of pairs whose value has the highest score, by length; the same documents for all networks."""
    rng = torch.Generator().manual_seed(1_000 + seed)
    found = {}
    for length in whole_numbers("lengths", options.lengths):
        sample = draw(options, MEASURED, length, rng)
        scores = recall_cut(network, sample.read(network), sample.keys, cut)
        found[length] = (scores.argmax(-1) == sample.values).float().mean().item()
    return found


def points(options: RecallOptions) -> Iterator[Point]:
    """All networks, cuts and seeds."""
    for seed in range(options.seeds):
        nested = trained(options, CUTS, seed)
        apart = {cut: trained(options, [cut], seed) for cut in CUTS}
        for cut in CUTS:
            yield Point("nested", cut, seed, measure(nested, options, cut, seed))
            yield Point("trained apart", cut, seed, measure(apart[cut], options, cut, seed))
            yield Point("largest, cut", cut, seed, measure(apart[max(CUTS)], options, cut, seed))


def plot(found: Sequence[Point], lengths: Sequence[int], file: Path) -> None:
    """Recall against k′, one panel per length."""
    pyplot = load_pyplot()
    size = (1 + 3.2 * len(lengths), 3.4)
    figure, grid = pyplot.subplots(1, len(lengths), figsize=size, layout="constrained", sharey=True)
    for axes, length in zip(grid, lengths, strict=True):
        for name in dict.fromkeys(point.network for point in found):
            means = [
                estimate([p.recall[length] for p in found if (p.network, p.cut) == (name, cut)])
                for cut in CUTS
            ]
            margins = [each.margin or 0.0 for each in means]
            axes.errorbar(
                CUTS, [each.mean for each in means], margins, capsize=2, marker="o", markersize=4, label=name
            )
        axes.set(xscale="log", xlabel="k′", title=f"{length} pairs", xticks=CUTS, xticklabels=CUTS)
        axes.minorticks_off()
        axes.grid(alpha=0.3)
    grid[0].set_ylabel("recall")
    grid[-1].legend(fontsize=8)
    figure.savefig(file, dpi=120)
    pyplot.close(figure)


def main(
    seeds: Annotated[int, typer.Option(min=1, help="Networks of each kind.")] = 3,
    steps: Annotated[int, typer.Option(min=1, help="Training steps.")] = 600,
    figure: Annotated[Path | None, typer.Option(help="Draw a figure into this file.")] = None,
) -> None:
    """Recall of one nested memory at every cut, and of networks trained for each."""
    options = RecallOptions(seeds=seeds, steps=steps)
    lengths = whole_numbers("lengths", options.lengths)
    found = list(points(options))
    rows = []
    for cut in CUTS:
        size = 4 * (cut * max(CUTS) + cut * (cut + 1) // 2)  # C, and half of G, in float32
        for name in dict.fromkeys(point.network for point in found):
            runs = [point for point in found if (point.network, point.cut) == (name, cut)]
            shares = [str(estimate([run.recall[length] for run in runs])) for length in lengths]
            rows.append([str(cut), f"{size:,}", name, *shares])
    print(aligned_table(["k′", "bytes", "network", *(f"{length} pairs" for length in lengths)], rows))
    if figure is not None:
        plot(found, lengths, figure)


if __name__ == "__main__":
    run_command(main)
