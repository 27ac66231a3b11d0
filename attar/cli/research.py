"""Readers for real questions (`attar train-questions`, `evaluate-questions`), and the paper (`attar paper …`)."""

import os
import sys
from pathlib import Path
from time import monotonic
from typing import Annotated, Any

import typer

from attar.cli.options import AsJson, ReaderPath, Replace, Resume, options_from
from attar.cli.output import columns, print_json, print_result, progress_bar
from attar.errors import OptionError
from attar.paper.options import BuildOptions, RecallOptions, TrainingOptions
from attar.training.data import QuestionOptions

Device = Annotated[str | None, typer.Option(help="cpu or cuda; by default a GPU if there is one.")]
Jobs = Annotated[
    int, typer.Option(min=0, help="Maximum number of parallel runs; 0: depends on the number of cores.")
]
app = typer.Typer(help="Rerun the paper's experiment.")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


@options_from(QuestionOptions)
def train_questions(
    data: Annotated[
        list[Path],
        typer.Argument(metavar="DATA…", help="Files of questions, .json or .jsonl; .xz and .gz, too."),
    ],
    resume: Resume = False,
    replace: Replace = False,
    as_json: AsJson = False,
    **given: Any,
) -> None:
    """Fine-tune a reader with your own questions.

    Its second look alone is trained on, and its probabilities are calibrated: libraries of the reader stay as they are.

    attar train-questions mine.json --init answers --out tuned
    """
    from attar.training.train import train_questions

    if resume and replace:
        raise OptionError("--resume and --replace exclude each other")
    options = QuestionOptions(data=tuple(map(str, data)), **given)
    began = monotonic()

    def say(line: str) -> None:
        print(f"[{monotonic() - began:6.0f} s] {line}", file=sys.stderr, flush=True)

    with progress_bar() as progress:
        result = train_questions(
            options,
            resume=resume,
            replace=replace,
            progress=progress,
            **({} if as_json else {"say": say}),
        )
    if as_json:
        print_json(result)
        return
    print(result.reader)
    for name, scores in result.held_out.items():
        print(f"{name}, held-out questions: EM {scores.em or 0:.3f}, F1 {scores.f1 or 0:.3f}")


def evaluate_questions(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Questions, as for `attar train-questions`.")],
    reader: ReaderPath = None,
    paragraphs: Annotated[
        str, typer.Option(help="Paragraphs of an article that are one document: a number, or all.")
    ] = "1",
    as_json: AsJson = False,
) -> None:
    """Measure a reader on real questions.

    A row for each number of sentences that are read again. Exact match, F1 and sentences over answerable questions,
    whether refused or not; how often questions that the text does not answer and those of other articles are refused,
    and right answers are not; the error of probabilities; bytes and milliseconds. Below, how often answers that are
    "likely", "possible" or "unsure" are right.

    attar evaluate-questions squad2-dev.json.xz --reader reader --paragraphs 8
    """
    if paragraphs != "all" and not (paragraphs.isdecimal() and int(paragraphs) > 0):
        raise OptionError.expected("--paragraphs", "a number of at least 1, or all", repr(paragraphs))
    from attar.reader.reader import Reader
    from attar.training.data import read_passages
    from attar.training.evaluation import certainty_line, evaluate_reader, group_documents, question_table

    documents = group_documents(read_passages(file), None if paragraphs == "all" else int(paragraphs))
    loaded = Reader.load(reader)
    with progress_bar() as progress:
        rows = evaluate_reader(loaded, documents, progress=progress)
    if as_json:
        about = {"file": file.name, "paragraphs": paragraphs, "reader": loaded.fingerprint}
        print_json(about | {"rows": rows})
        return
    print(f"{file.name}, {paragraphs} per document: {rows[0].scores.questions:,} questions")
    print(columns(question_table(rows)))
    for row in rows:
        print(f"{row.name}, answers by certainty: {certainty_line(row.scores.by_certainty)}")


@app.command()
@options_from(BuildOptions)
def build(
    sources: Annotated[
        list[Path],
        typer.Argument(
            metavar="SOURCE…", help="Files of any kind that `attar add` reads, and folders of these."
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to write.")],
    replace: Replace = False,
    as_json: AsJson = False,
    **given: Any,
) -> None:
    """Build a set of cloze questions from plain English text.

    attar paper build novels.tar.xz --out novels
    """
    from attar.paper.build import build_set

    with progress_bar() as progress:
        about = build_set(sources, out, BuildOptions(**given), replace=replace, progress=progress)
    lines = [
        f"{split}: {row['documents']:,} documents from {row['sources']:,} texts, "
        f"{row['questions']:,} questions, {row['names_per_document']} names per document"
        for split, row in about["splits"].items()
    ]
    print_result(about, "\n".join(lines), as_json=as_json)


@app.command()
@options_from(TrainingOptions)
def train(
    resume: Resume = False,
    replace: Replace = False,
    as_json: AsJson = False,
    **given: Any,
) -> None:
    """Train a network on cloze sets and write its folder; prints a line per epoch.

    attar paper train --data novels --mechanism gated --out network
    """
    from attar.paper.train import train

    if resume and replace:
        raise OptionError("--resume and --replace exclude each other")
    options = TrainingOptions(**given)
    with progress_bar() as progress:
        history = train(options, resume=resume, replace=replace, say=_say, progress=progress)
    best = max(history, key=lambda row: row["validation_accuracy"])
    accuracy = f"validation accuracy {best['validation_accuracy']:.3f} after epoch {best['epoch']:.0f}"
    report = {"network": options.out, "best": best, "history": history}
    print_result(report, f"{options.out}: {accuracy}", as_json=as_json)


@app.command()
def evaluate(
    network: Annotated[Path, typer.Argument(metavar="NETWORK", help="Folder of a trained network.")],
    data: Annotated[Path, typer.Option("--data", "-d", help="Folder of a cloze set.")],
    split: Annotated[str, typer.Option(help="validation or test.")] = "test",
    as_json: AsJson = False,
) -> None:
    """Measure a network's accuracy on a cloze set, compared with counting names.

    Prints 95 % confidence intervals, per source if there are several.

    attar paper evaluate network --data novels
    """
    from attar.paper.network import load_network
    from attar.paper.sets import ClozeSet
    from attar.paper.train import NETWORK, WHOLE, evaluate

    saved = load_network(network)
    with progress_bar() as progress:
        cloze_set = ClozeSet.open(data, progress=progress)
        documents = cloze_set.encoded(split, saved.vocabulary)
        result = evaluate(saved.network, documents, progress=progress)
    whole = result[WHOLE][NETWORK]
    lines = [f"{split}: {whole.questions:,} questions on {whole.documents:,} documents, 95 % intervals"]
    for part, scores in result.items():
        for name, score in scores.items():
            label = name if part == WHOLE else f"{part}: {name}"
            lines.append(f"{label:<42} {score.accuracy:.3f}  [{score.low:.3f}, {score.high:.3f}]")
    print_result({"split": split, "scores": result}, "\n".join(lines), as_json=as_json)


@app.command()
@options_from(TrainingOptions, omit=("mechanism", "seed"), data="")
def compare(
    mechanisms: Annotated[
        str, typer.Option(help="Mechanisms to compare, separated by commas.")
    ] = "none,linear,gated,softmax",
    seeds: Annotated[int, typer.Option(min=1, help="Runs per mechanism, each with another seed.")] = 3,
    minutes: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Without --data: made-up stories and small networks, for about these minutes on 2 cores.",
        ),
    ] = None,
    jobs: Jobs = 0,
    as_json: AsJson = False,
    **given: Any,
) -> None:
    """Train several mechanisms with several seeds under the same conditions, and compare them.

    Prints a line per epoch, then a table; --out receives the figure and the report as JSON. The same command continues
    with the runs that are missing.

    attar paper compare --data novels --out report

    attar paper compare --minutes 10 --out report
    """
    from attar.paper.build import SMALL, write_stories
    from attar.paper.compare import Comparison, compare, markdown_table

    if bool(given["data"]) == (minutes is not None):
        raise OptionError(
            "a comparison needs a set or a time", "give --data, or --minutes 10 for made-up stories"
        )
    if minutes is not None:
        stories = Path(given["out"]) / "stories"
        write_stories(stories)
        given |= SMALL | {"data": str(stories), "epochs": minutes}

    names = [name.strip() for name in mechanisms.split(",") if name.strip()]
    # On a GPU, too, each run keeps a core busy.
    cores = os.cpu_count() or 1
    comparison = Comparison(TrainingOptions(**given), names, seeds, jobs or max(1, cores - cores // 8))
    with progress_bar() as progress:
        report = compare(comparison, say=_say, progress=progress)
    print_result(report, markdown_table(report), as_json=as_json)


@app.command()
@options_from(RecallOptions)
def recall(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the report as JSON and the figure.")],
    jobs: Jobs = 0,
    device: Device = None,
    as_json: AsJson = False,
    **given: Any,
) -> None:
    """Measure how many pairs of a key and a value a memory recalls, against the bytes that it takes.

    Prints a line per trained network, then tables: recall with 95 % intervals over seeds, and for distinct pairs what
    merging and subtracting memories costs. The delta rules are references.

    attar paper recall --out recall

    attar paper recall --out rare --task rare --sizes 64 --lengths 32,128,512 --vocabulary 64
    """
    from attar.paper.recall import recall, recall_tables
    from attar.paper.table1 import choose_device

    options, device = RecallOptions(**given), choose_device(device)
    # On a GPU a few processes fill the gaps between small kernels.
    jobs = jobs or (4 if device == "cuda" else os.cpu_count() or 1)
    with progress_bar() as progress:
        report = recall(options, out, device=device, jobs=jobs, say=_say, progress=progress)
    print_result(report, recall_tables(report), as_json=as_json)


@app.command()
def table1(
    size: Annotated[int, typer.Option(min=1, help="Hidden size k; 100 in the paper.")] = 100,
    device: Device = None,
    plot: Annotated[Path | None, typer.Option(help="Save a log-log plot: .png, .svg or .pdf.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Tiny sizes, to test that it runs.")] = False,
    as_json: AsJson = False,
) -> None:
    """Measure the paper's Table 1 on this machine.

    `attar bench` is its short name. Time per question, stored bytes and time to write of softmax, linear and gated
    attention as documents grow, predicted and measured.

    attar paper table1 --plot table1.png
    """
    # BLAS reads the variable when numpy is first imported: rows are measured on one thread.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from attar.paper.table1 import check_plot_file, describe_table1, draw_table1, measure_table

    if plot is not None:
        check_plot_file(plot)
    with progress_bar() as progress:
        table = measure_table(size, device, quick=quick, progress=progress)
    if plot is not None:
        draw_table1(table, plot)
    if as_json:
        print_json(table)
    else:
        print(describe_table1(table))
