"""`attar train`: a reader from cloze sets."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

Data = Annotated[
    list[Path], typer.Option("--data", "-d", help="A cloze set; several are trained on together.")
]
Out = Annotated[Path, typer.Option("--out", "-o", help="The folder to write.")]
Encoder = Annotated[str, typer.Option(help="gru, lookahead, bidirectional or second-order.")]
Join = Annotated[str, typer.Option(help="Both ways as halves of a state, or its sum (not gru).")]
Head = Annotated[str, typer.Option(help="paper or copy; what suits the mechanism otherwise.")]
HeadSize = Annotated[int, typer.Option(min=0, help="Numbers that the paper's head mixes; 0: --size.")]
Alike = Annotated[bool, typer.Option("--alike", help="Start the question's encoder as the document's.")]
Size = Annotated[int, typer.Option(min=1, help="Numbers a state, k.")]
Embedding = Annotated[int, typer.Option(min=1, help="Numbers an embedding.")]
Dropout = Annotated[float, typer.Option(help="Share of numbers dropped in training.")]
Scale = Annotated[str, typer.Option(help="Divide readouts by sqrt or mean of the tokens, or none.")]
Epochs = Annotated[int, typer.Option(min=1)]
BatchSize = Annotated[int, typer.Option(min=1, help="Documents a step, over all processes.")]
QuestionCount = Annotated[int, typer.Option(min=1, help="Questions drawn of each document.")]
Rate = Annotated[float, typer.Option(help="Adam's learning rate, at its highest.")]
Clip = Annotated[float, typer.Option(help="Longest gradient; 0 for any.")]
Workers = Annotated[int, typer.Option(help="Processes that make batches; -1: as many as pay.")]
SkipMalformed = Annotated[bool, typer.Option("--skip-malformed", help="Leave malformed .question files out.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def train(
    context: typer.Context,
    data: Data,
    out: Out,
    start: Annotated[
        str, typer.Option(help="A reader to train on: its folder, or default for the one in the package.")
    ] = "",
    frozen: Annotated[
        bool, typer.Option("--frozen", help="Train only what that reader did not have: see --company.")
    ] = False,
    mechanism: Annotated[
        str, typer.Option(help="none, softmax, linear, gated, decayed, adaptive, keyed or named.")
    ] = "gated",
    encoder: Encoder = "gru",
    join: Join = "halves",
    head: Head = "",
    head_size: HeadSize = 0,
    alike: Alike = False,
    size: Size = 100,
    embedding: Embedding = 100,
    dropout: Dropout = 0.0,
    scale: Scale = "sqrt",
    positive: Annotated[bool, typer.Option("--positive", help="Positive keys and queries (named).")] = False,
    company: Annotated[
        bool, typer.Option("--company", help="Score names also by what stood near them (named).")
    ] = False,
    epochs: Epochs = 12,
    batch: BatchSize = 64,
    questions: QuestionCount = 10,
    rate: Rate = 4e-3,
    clip: Clip = 5.0,
    patience: Annotated[int, typer.Option(help="Stop after so many epochs without a gain; 0: never.")] = 0,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    precision: Annotated[str, typer.Option(help="32, bf16-mixed or 16-mixed.")] = "32",
    workers: Workers = -1,
    processes: Annotated[int, typer.Option(min=1, help="GPUs, or processes without one.")] = 1,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where a run was stopped.")] = False,
    skip_malformed: SkipMalformed = False,
    profile: Annotated[
        bool, typer.Option("--profile", help="Show where a step's time goes, and end.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Train a reader on cloze sets, and write its folder.

    attar train --data novels --mechanism gated --out reader

    attar train --data letters --start default --rate 5e-4 --epochs 4 --out reader

    torchrun --nproc-per-node 2 -m attar train --data novels --out reader --processes 2
    """
    need_lightning()
    from attar.training import TrainingOptions, check_settled, settled_by

    given: dict[str, Any] = {
        "data": tuple(map(str, data)),
        "out": str(out),
        "start": start,
        "frozen": frozen,
        "mechanism": mechanism,
        "encoder": encoder,
        "join": join,
        "head_size": head_size,
        "alike": alike,
        "head": head,
        "size": size,
        "embedding": embedding,
        "dropout": dropout,
        "scale": scale_of(scale),
        "positive": positive,
        "company": company,
        "epochs": epochs,
        "batch": batch,
        "questions": questions,
        "rate": rate,
        "clip": clip,
        "patience": patience,
        "seed": seed,
        "precision": precision,
        "workers": workers,
        "processes": processes,
        "skip_malformed": skip_malformed,
    }
    if start:
        settled = settled_by(start)
        said = said_of(context, settled)
        # Before the options are checked against each other: a reader's own and these may fit no network.
        check_settled({name: given[name] for name in said if given[name] != ""}, settled, start)
        given |= {name: value for name, value in settled.items() if name not in said}
    options = TrainingOptions(**given)
    if profile:
        from attar.bench import profile_step

        shares = profile_step(options)
        print(json.dumps(shares) if as_json else "\n".join(f"{k}: {v}" for k, v in shares.items()))
        return
    from attar.cli.cloze import progress_bar
    from attar.training import HISTORY, RUN, Sets, leads, need_writable, train

    need_writable(options.folder)
    with progress_bar() as progress:
        sets = Sets(options, progress)
    folder = train(options, sets=sets, resume=resume, quiet=as_json)
    if not leads():
        return
    history = json.loads((folder / RUN / HISTORY).read_text(encoding="utf-8"))
    best = max(history, key=lambda row: row["validation_accuracy"])
    if as_json:
        print(json.dumps({"reader": str(folder), "best": best, "history": history}))
    else:
        print(
            f"{folder}: validation accuracy {best['validation_accuracy']:.3f} after epoch {best['epoch']:.0f}"
        )


def said_of(context: typer.Context, names: Iterable[str]) -> set[str]:
    """Of options those that the command line names."""
    sources = {name: context.get_parameter_source(name) for name in names}
    return {name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"}


def scale_of(name: str) -> Any:
    """None for "none"; what else is allowed, the mechanism says."""
    return None if name == "none" else name


def need_lightning() -> None:
    """Say what to install where training cannot run."""
    from importlib.util import find_spec

    from attar.errors import MissingError

    for package, name in (("pytorch_lightning", "PyTorch Lightning"), ("tensorboard", "TensorBoard")):
        if find_spec(package) is None:
            raise MissingError("training", name, "none", "pip install 'attar[train]'")
