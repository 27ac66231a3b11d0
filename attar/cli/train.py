"""`attar train`, `attar evaluate` and `attar compare`: readers from cloze sets."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attar.cli.options import AsJson, SkipMalformed, explicit_options, options_from
from attar.cli.output import print_json, progress_bar
from attar.errors import MissingError, OptionError, install_command
from attar.training.options import TrainingOptions

if TYPE_CHECKING:
    from attar.training.evaluation import Score

# Varied by the comparison, or not part of it.
_NOT_COMPARED = ("mechanism", "seed", "init_from", "freeze", "positive", "cooccurrence", "devices")


@options_from(TrainingOptions)
def train(
    context: typer.Context,
    resume: Annotated[bool, typer.Option("--resume", help="Continue a run that was stopped.")] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace a reader or run that is in the folder already.")
    ] = False,
    as_json: AsJson = False,
    **given: Any,
) -> None:
    """Train a reader on cloze sets and write its folder.

    attar train --data novels --mechanism gated --out reader

    attar train --data letters --init-from default --lr 5e-4 --epochs 4 --out reader

    torchrun --nproc-per-node 2 -m attar train --data novels --out reader
    """
    need_lightning()
    from attar.training.data import TrainingData
    from attar.training.fit import is_main_process, train
    from attar.training.run_folder import read_history, refuse_overwriting

    options = training_options(context, given)
    if resume and replace:
        raise OptionError.expected("--resume and --replace", "one of them", "both")
    # Now, and not after minutes of counting words.
    refuse_overwriting(options.folder, resume=resume, replace=replace)
    with progress_bar() as progress:
        data = TrainingData(options, progress)
    folder = train(options, data=data, resume=resume, replace=replace, quiet=as_json)
    if not is_main_process():
        return
    history = read_history(folder)
    best = max(history, key=lambda row: row["validation_accuracy"])
    if as_json:
        print_json({"reader": str(folder), "best": best, "history": history})
    else:
        accuracy = f"validation accuracy {best['validation_accuracy']:.3f} after epoch {best['epoch']:.0f}"
        print(f"{folder}: {accuracy}")


def evaluate(
    data: Annotated[
        list[Path], typer.Option("--data", "-d", help="Folder of a cloze set. Repeat for several sets.")
    ],
    reader: Annotated[Path, typer.Option(help="A reader's folder, as attar train writes it.")],
    split: Annotated[str, typer.Option(help="validation or test.")] = "test",
    batch_size: Annotated[int, typer.Option(min=1, help="Documents per batch.")] = 64,
    by_mentions: Annotated[
        bool, typer.Option("--by-mentions", help="Also score by how often the answer is mentioned.")
    ] = False,
    skip_malformed: SkipMalformed = False,
    as_json: AsJson = False,
) -> None:
    """Measure a reader's accuracy on a cloze set, compared with counting names.

    Prints 95 % confidence intervals, per source if there are several.

    attar evaluate --data novels --reader reader
    """
    import torch

    from attar.reader.files import load_reader
    from attar.training.data import open_splits, warn_skipped
    from attar.training.evaluation import evaluate

    saved = load_reader(reader)
    with progress_bar() as progress:
        skip = warn_skipped if skip_malformed else None
        documents = open_splits(data, split, saved.vocabulary, progress, skip)
        device = "cuda" if torch.cuda.is_available() else "cpu"
        result = evaluate(
            saved.network,
            saved.vocabulary,
            documents,
            batch_size=batch_size,
            device=device,
            progress=progress,
        )
    if as_json:
        print_json({"split": split, "reader": saved.fingerprint} | result.to_json())
        return
    whole = result.whole
    print(f"{split}: {whole.questions:,} questions on {whole.documents:,} documents, 95 % intervals")
    print(_score_line("reader", whole))
    for name, baseline in result.baselines.items():
        print(_score_line(name, baseline))
    if len(result.sources) > 1:
        for source, score in result.sources.items():
            print(_score_line(f"{source}: reader", score))
            for name, scores in result.source_baselines.items():
                print(_score_line(f"{source}: {name}", scores[source]))
    if by_mentions:
        for source, mentions in result.mentions.items():
            for name, score in mentions.items():
                share = score.questions / result.sources[source].questions
                print(f"{_score_line(f'{source}: mentioned {name}', score)}  of {share:.0%}")


def _score_line(what: str, score: "Score") -> str:
    return f"{what:<42} {score.accuracy:.3f}  [{score.low:.3f}, {score.high:.3f}]"


@options_from(TrainingOptions, omit=_NOT_COMPARED, num_workers=0)
def compare(
    mechanisms: Annotated[
        str, typer.Option(help="Mechanisms to compare, separated by commas.")
    ] = "none,linear,gated,softmax",
    seeds: Annotated[int, typer.Option(min=1, help="Runs per mechanism, each with another seed.")] = 3,
    jobs: Annotated[
        int, typer.Option(min=0, help="Maximum number of parallel runs; 0: depends on the number of cores.")
    ] = 0,
    as_json: AsJson = False,
    **given: Any,
) -> None:
    """Train several mechanisms with several seeds under the same conditions, and compare them.

    Prints a table; --out receives the figure and the report as JSON. The same command continues with the runs that
    are missing.

    attar compare --data novels --out report
    """
    need_lightning()
    from attar.training.comparison import Comparison, compare, exit_on_sigterm
    from attar.training.report import markdown_table

    names = [name.strip() for name in mechanisms.split(",") if name.strip()]
    # On a GPU, too, each run keeps a core busy.
    cores = os.cpu_count() or 1
    comparison = Comparison(
        TrainingOptions(**_values(given)), names, seeds, jobs or max(1, cores - cores // 8)
    )
    with exit_on_sigterm(), progress_bar() as progress:
        report = compare(comparison, progress)
    if as_json:
        print_json(report)
    else:
        print(markdown_table(report))


def training_options(context: typer.Context, given: dict[str, Any]) -> TrainingOptions:
    """The options that a command line gives; when fine-tuning, those of the initial reader are kept."""
    given = _values(given)
    if not given["init_from"]:
        return TrainingOptions(**given)
    from attar.training.fit import fine_tuning_options

    return fine_tuning_options(given, explicit_options(context))


def _values(given: dict[str, Any]) -> dict[str, Any]:
    """The values of flags as those of `TrainingOptions`."""
    return given | {"scale": None if given["scale"] == "none" else given["scale"]}


def need_lightning() -> None:
    """Raise an error that says what to install if training cannot run."""
    from importlib.util import find_spec

    for package, name in (("pytorch_lightning", "PyTorch Lightning"), ("tensorboard", "TensorBoard")):
        if find_spec(package) is None:
            raise MissingError.expected("training", name, "none", install_command("train"))
