"""`attar compare`: the paper's experiment on any cloze set."""

import json
from typing import Annotated, Any

import typer

from attar.cli import train as options_of


def compare(
    data: options_of.Data,
    out: options_of.Out,
    mechanisms: Annotated[
        str, typer.Option(help="Which, with commas between.")
    ] = "none,linear,gated,softmax",
    seeds: Annotated[int, typer.Option(min=1, help="Runs a mechanism.")] = 3,
    side_by_side: Annotated[int, typer.Option(min=0, help="Runs at a time; 0: what the machine takes.")] = 0,
    encoder: options_of.Encoder = "gru",
    head: options_of.Head = "",
    size: options_of.Size = 100,
    embedding: options_of.Embedding = 100,
    dropout: options_of.Dropout = 0.0,
    scale: options_of.Scale = "sqrt",
    epochs: options_of.Epochs = 12,
    batch: options_of.BatchSize = 64,
    questions: options_of.QuestionCount = 5,
    rate: options_of.Rate = 2e-3,
    workers: options_of.Workers = 0,
    skip_malformed: options_of.SkipMalformed = False,
    as_json: options_of.AsJson = False,
) -> None:
    """Train mechanisms under one budget with several seeds; table, figure and JSON in --out.

    Started again, it goes on with the runs that are missing.

    attar compare --data novels --out report
    """
    options_of.need_lightning()
    from attar.cli.cloze import progress_bar
    from attar.training.compare import Comparison, compare
    from attar.training.options import TrainingOptions

    base = TrainingOptions(
        data=tuple(map(str, data)),
        out=str(out),
        encoder=encoder,
        head=head,
        size=size,
        embedding=embedding,
        dropout=dropout,
        scale=options_of.scale_of(scale),
        epochs=epochs,
        batch=batch,
        questions=questions,
        rate=rate,
        workers=workers,
        skip_malformed=skip_malformed,
    )
    names = [name.strip() for name in mechanisms.split(",") if name.strip()]
    comparison = Comparison(base, names, seeds, side_by_side or machine_takes())
    with progress_bar() as progress:
        report = compare(comparison, progress)
    print(json.dumps(report) if as_json else table(report))


def machine_takes() -> int:
    """As many runs as there are cores: on a GPU, too, each run keeps a core busy."""
    import os

    return max(1, (os.cpu_count() or 1) - (os.cpu_count() or 1) // 8)


def table(report: dict[str, Any]) -> str:
    """The report as lines of Markdown."""
    lines = ["| mechanism | test accuracy | seeds ± | 95 % interval | each seed |", "|---|---|---|---|---|"]
    for name, row in report["mechanisms"].items():
        low = sum(low for low, _ in row["intervals"]) / len(row["intervals"])
        high = sum(high for _, high in row["intervals"]) / len(row["intervals"])
        each = " ".join(f"{accuracy:.3f}" for accuracy in row["test"])
        lines.append(f"| {name} | {row['mean']:.3f} | {row['seeds']:.3f} | {low:.3f} … {high:.3f} | {each} |")
    lines += [f"| {name} | {accuracy:.3f} | | | |" for name, accuracy in report["baselines"].items()]
    return "\n".join(lines)
