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
    join: options_of.Join = "halves",
    head: options_of.Head = "",
    head_size: options_of.HeadSize = 0,
    alike: options_of.Alike = False,
    size: options_of.Size = 100,
    embedding: options_of.Embedding = 100,
    dropout: options_of.Dropout = 0.0,
    scale: options_of.Scale = "sqrt",
    epochs: options_of.Epochs = 12,
    batch: options_of.BatchSize = 64,
    questions: options_of.QuestionCount = 10,
    rate: options_of.Rate = 4e-3,
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
    from attar.training import Comparison, TrainingOptions, compare, sigterm_ends

    base = TrainingOptions(
        data=tuple(map(str, data)),
        out=str(out),
        encoder=encoder,
        join=join,
        head=head,
        head_size=head_size,
        alike=alike,
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
    with sigterm_ends(), progress_bar() as progress:
        report = compare(comparison, progress)
    print(json.dumps(report) if as_json else table(report))


def machine_takes() -> int:
    """As many runs as there are cores: on a GPU, too, each run keeps a core busy."""
    import os

    return max(1, (os.cpu_count() or 1) - (os.cpu_count() or 1) // 8)


def table(report: dict[str, Any]) -> str:
    """The report as lines of Markdown: the whole test, then each source of several.

    A step is what a mechanism has over the one above it, ± its standard error over seeds.
    """
    rows, sources = report["mechanisms"], next(iter(report["mechanisms"].values()))["sources"]
    lines = ["| test | mechanism | accuracy | seeds ± | step | 95 % interval | each seed |", "|---" * 7 + "|"]
    for source in ["", *sources] if len(sources) > 1 else [""]:
        parts = {name: row["sources"][source] if source else row for name, row in rows.items()}
        lines += lines_of(source or "all", parts)
        for name, baseline in report["baselines"].items():
            accuracy = baseline["sources"].get(source) if source else baseline["accuracy"]
            lines += [] if accuracy is None else [f"| {source or 'all'} | {name} | {accuracy:.3f} | | | | |"]
    return "\n".join(lines)


def lines_of(source: str, parts: dict[str, Any]) -> list[str]:
    """One line a mechanism."""
    from attar.training import step_between

    lines, above = [], None
    for name, row in parts.items():
        low, high = (sum(ends) / len(ends) for ends in zip(*row["intervals"], strict=True))
        step = "" if above is None else "{:+.3f} ± {:.3f}".format(*step_between(above, row))
        each = " ".join(f"{accuracy:.3f}" for accuracy in row["test"])
        spread = f"{row['seeds']:.3f} | {step} | {low:.3f} … {high:.3f}"
        lines.append(f"| {source} | {name} | {row['mean']:.3f} | {spread} | {each} |")
        above = row
    return lines
