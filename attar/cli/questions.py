"""`attar train-questions` and `attar evaluate-questions`: readers for real questions."""

import sys
from dataclasses import fields
from pathlib import Path
from time import monotonic
from typing import Annotated, Any

import typer

from attar.cli.options import AsJson, ReaderPath, Replace, Resume, options_from
from attar.cli.output import columns, print_json, progress_bar
from attar.errors import OptionError
from attar.training.options import QuestionOptions

# What a reader to fine-tune has already.
_FIXED = ("size", "word_size", "values", "density", "quick_layers")


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
    """Train a reader, or fine-tune one.

    attar train-questions squad.json.xz --base all-MiniLM-L6-v2 --out reader

    attar train-questions mine.json --init reader --out tuned
    """
    from attar.training.train import train_questions

    if resume and replace:
        raise OptionError("--resume and --replace exclude each other")
    for field in fields(QuestionOptions):
        if given["init"] and field.name in _FIXED and given[field.name] != field.default:
            flag = f"--{field.name.replace('_', '-')}"
            raise OptionError(f"{flag} is fixed by the reader of --init", "leave it out")
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
        figures = ", ".join(f"{measure} {value:.3f}" for measure, value in scores.items())
        print(f"{name} question encoder on held-out questions: {figures}")


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
    from attar.training.evaluation import evaluate_reader, group_documents, question_table
    from attar.training.metrics import certainty_line

    documents = group_documents(read_passages(file), None if paragraphs == "all" else int(paragraphs))
    loaded = Reader.load(reader)
    with progress_bar() as progress:
        rows = evaluate_reader(loaded, documents, progress=progress)
    if as_json:
        about = {"file": file.name, "paragraphs": paragraphs, "reader": loaded.fingerprint}
        print_json(about | {"rows": [row.to_json() for row in rows]})
        return
    print(f"{file.name}, {paragraphs} per document: {rows[0].scores.questions:,} questions")
    print(columns(question_table(rows)))
    for row in rows:
        print(f"{row.name}, answers by certainty: {certainty_line(row.scores.by_certainty)}")
