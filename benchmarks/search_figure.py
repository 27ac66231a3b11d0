"""`python -m benchmarks.search_figure squad.json`: nDCG@10 against bytes per document, of the ways to rank.

The files are what `python -m benchmarks.retrieval SET --json` prints; each becomes a panel.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from attar.errors import FormatError
from benchmarks.command import run_command

FIGURE = "nDCG@10"
# What the name of a row begins with, what the legend calls it, and its marker.
FAMILIES = (
    ("mean vectors", "mean vectors", "v"),
    ("BM25", "BM25", "D"),
    ("MaxSim", "MaxSim of tokens", "^"),
    ("MUVERA", "MUVERA", "s"),
    ("default", "default", "*"),
    ("signature", "signatures", "o"),
)


def read_rows(file: Path) -> dict[str, Any]:
    """What `python -m benchmarks.retrieval --json` printed."""
    try:
        found = json.loads(file.read_bytes())
        if not all(row["bytes"] > 0 and len(row["figures"][FIGURE]) == 3 for row in found["rows"]):
            raise KeyError(FIGURE)
    except (OSError, ValueError, KeyError, TypeError) as fault:
        remedy = "write it by python -m benchmarks.retrieval SET --json"
        raise FormatError.expected(
            str(file), "rows with bytes and nDCG@10", repr(fault)[:80], remedy
        ) from fault
    return dict(found)


def family_of(name: str) -> str:
    """The name in the legend.

    >>> family_of("signature, k = 64, 1-bit"), family_of("signature, k = 128, 1-bit, and word pieces")
    ('signatures', 'signature and word pieces')
    """
    if name.endswith("and word pieces"):
        return "signature and word pieces"
    return next((title for start, title, _ in FAMILIES if name.startswith(start)), "others")


def label_of(name: str) -> str:
    """What is written beside a point: what tells it from its family.

    >>> label_of("signature, k = 64, 1-bit"), label_of("MaxSim of all tokens, float32")
    ('k = 64, 1-bit', 'all tokens, float32')
    """
    for start in ("signature, ", "mean vectors, ", "MaxSim of ", "MUVERA, ", "BM25 of "):
        name = name.removeprefix(start)
    return name.partition(":")[0].removesuffix(", and word pieces")


def draw(sets: Sequence[dict[str, Any]], figure: Path) -> None:
    """The figure of the rows: one panel per set, points with their 95 % intervals."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    markers = {title: marker for _, title, marker in FAMILIES} | {"signature and word pieces": "P"}
    drawn, panels = plt.subplots(1, len(sets), figsize=(7 * len(sets), 4.5), squeeze=False)
    for axes, found in zip(panels[0], sets, strict=True):
        rows = found["rows"]
        for family in dict.fromkeys(family_of(row["name"]) for row in rows):
            own = [row for row in rows if family_of(row["name"]) == family]
            means, lows, highs = zip(*(row["figures"][FIGURE] for row in own), strict=True)
            below = [mean - low for mean, low in zip(means, lows, strict=True)]
            above = [high - mean for mean, high in zip(means, highs, strict=True)]
            sizes = [row["bytes"] for row in own]
            style = {"fmt": markers.get(family, "x"), "capsize": 2, "linestyle": "none", "label": family}
            axes.errorbar(sizes, means, [below, above], **style)
            for row, size, mean in zip(own, sizes, means, strict=True):
                place = {"textcoords": "offset points", "xytext": (5, 4), "fontsize": 6}
                axes.annotate(label_of(row["name"]), (size, mean), **place)
        axes.set(xscale="log", xlabel="bytes per document", ylabel=FIGURE, ylim=(0, 1))
        axes.set_title(f"{found['set']}: {found['documents']:,} documents, {found['queries']:,} queries")
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.grid(visible=True, alpha=0.3)
    panels[0][0].legend(loc="lower right", fontsize=7)
    drawn.tight_layout()
    figure.parent.mkdir(parents=True, exist_ok=True)
    drawn.savefig(figure, dpi=120)
    plt.close(drawn)


def main(
    files: Annotated[list[Path], typer.Argument(help="What python -m benchmarks.retrieval --json printed.")],
    figure: Annotated[Path, typer.Option(help="The picture.")] = Path("docs/figures/search.png"),
) -> None:
    """Draw nDCG@10 against bytes per document."""
    draw([read_rows(file) for file in files], figure)
    print(f"drew {figure}")


if __name__ == "__main__":
    run_command(main)
