"""Accuracy by how often the answer is mentioned in its document, for the networks of an `attar paper compare`.

python -m benchmarks.mentions report --data set
"""

from collections import defaultdict
from pathlib import Path
from typing import Annotated

import torch
import typer

from attar.paper.batches import ClozeBatches
from attar.paper.network import Network, load_network
from attar.paper.recall import estimate
from attar.paper.sets import ClozeSet, EncodedSplit
from benchmarks.command import run_command

# The least mentions of each group.
GROUPS = {"once": 1, "twice": 2, "3 to 5": 3, "6 or more": 6}


@torch.inference_mode()
def by_mentions(network: Network, split: EncodedSplit) -> dict[str, dict[str, tuple[int, int]]]:
    """By source, then by group: right answers, and questions."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    network = network.to(device).eval()
    bounds = torch.tensor(list(GROUPS.values()))
    tallies: dict[str, dict[str, tuple[int, int]]] = defaultdict(lambda: dict.fromkeys(GROUPS, (0, 0)))
    for batch in ClozeBatches(split, size=128):
        moved = batch.to(device)
        right = network(moved.documents, moved.questions).argmax(1).cpu() == batch.answers
        mentions = batch.counts[batch.questions.documents, batch.answers]
        group = torch.bucketize(mentions, bounds, right=True) - 1
        source = torch.from_numpy(split.source_of)[batch.indices[batch.questions.documents]]
        for at, title in enumerate(split.sources.tolist()):
            for number, name in enumerate(GROUPS):
                chosen = (source == at) & (group == number)
                found, asked = tallies[title][name]
                tallies[title][name] = found + int(right[chosen].sum()), asked + int(chosen.sum())
    return tallies


def main(
    report: Annotated[Path, typer.Argument(help="The --out of attar paper compare.")],
    data: Annotated[Path, typer.Option(help="Folder of its cloze set.")],
) -> None:
    """A table of test accuracy by mentions, means over seeds with 95 % intervals."""
    cloze_set, runs = ClozeSet.open(data), defaultdict(list)
    for folder in sorted((report / "runs").glob("*/result.json")):
        saved = load_network(folder.parent)
        tallies = by_mentions(saved.network, cloze_set.encoded("test", saved.vocabulary))
        runs[saved.network.options.mechanism].append(tallies)
    print(f"| test | mechanism | {' | '.join(GROUPS)} |\n" + "|---" * (len(GROUPS) + 2) + "|")
    for mechanism, seeds in runs.items():
        for source in seeds[0]:
            cells = [
                str(estimate([seed[source][name][0] / max(1, seed[source][name][1]) for seed in seeds]))
                + f" of {seeds[0][source][name][1]:,}"
                for name in GROUPS
            ]
            print(f"| {source} | {mechanism} | {' | '.join(cells)} |")


if __name__ == "__main__":
    run_command(main)
