"""Fine-tune and calibrate a reader with questions about documents.

The second look is trained on, by the sentences that the reader finds for each question. Memories do not depend on it:
libraries of the reader stay as they are. `benchmarks/new_reader/` trains a reader from the beginning.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor

from attar.errors import FormatError
from attar.files import lock_run
from attar.nn.spans import SpanNetwork
from attar.progress import Progress, ignore_progress
from attar.reader.folders import Calibration, ReaderFolder
from attar.reader.parts import ReaderParts, load_parts, recalibrate
from attar.reader.reader import Reader
from attar.training.batches import check_special_pieces, span_loss
from attar.training.calibration import FEWEST, calibrate, calibrate_look
from attar.training.data import Passage, QuestionOptions, hold_out, read_passages
from attar.training.evaluation import Scores, evaluate_reader, group_documents
from attar.training.found import FoundBatches, found_rows, from_arrays, known_questions, to_arrays
from attar.training.run import QuestionRun, Row, Say, silent
from attar.training.variants import with_swapped_questions

# How far back towards its weights before a fine-tuned network goes: with none, it refused simple questions of short
# letters, with half of the way it answered more of what is not there.
_BACK = 0.25


@dataclass(frozen=True)
class TrainedReader:
    """A reader's folder, its accuracy on held-out questions, and how it was trained."""

    reader: str
    held_out: dict[str, Scores] = field(default_factory=dict)
    calibration: Calibration | None = None
    history: list[Row] = field(default_factory=list)


def train_questions(
    options: QuestionOptions,
    *,
    resume: bool = False,
    replace: bool = False,
    progress: Progress = ignore_progress,
    say: Say = silent,
) -> TrainedReader:
    """Fine-tune a reader, or calibrate it, write its folder, and return what is known about it.

    A folder with a reader or a run is refused unless `resume` continues it or `replace` starts again.
    """
    run = QuestionRun(options, progress, say)
    with lock_run(run.folder):
        run.begin(resume=resume, replace=replace)
        passages = [passage for path in options.data for passage in read_passages(path)]
        if options.calibrate_only:
            return _calibrate_only(run, options, passages)
        return _fine_tune(run, options, passages)


def _fine_tune(run: QuestionRun, options: QuestionOptions, passages: list[Passage]) -> TrainedReader:
    saved = open_reader(options.init)
    look = saved.look()
    if look is None:
        raise FormatError(f"{options.init} has no second look to train on", "use `answers`")
    training, held = hold_out(passages)
    if not any(map(known_questions, training)):
        files = ", ".join(options.data)
        raise FormatError(f"{files}: no question has an answer in its passage to learn from")
    run.say(f"{len(training):,} passages; held out: {len(held):,}")
    look.encoder.words.requires_grad_(requires_grad=False)
    rows = run.arrays("found", lambda: to_arrays(found_rows(Reader(saved), training, run.progress)))
    batches = partial(
        FoundBatches, from_arrays(rows), tokens=options.batch_tokens, epochs=options.epochs, seed=options.seed
    )
    before = {name: weight.clone() for name, weight in look.state_dict().items()}
    run.fit("second-look", look, partial(span_loss, look), batches, lr=options.lr)
    about = {"training": options.described(), "before": saved.config.about}
    tuned = saved.with_second_look(averaged(look.to("cpu"), before), about)
    tuned.save(options.folder)
    run.say("calibration")
    calibration = calibrate_look(Reader(tuned), with_swapped_questions(held), run.progress)
    if calibration is not None:
        tuned = tuned.recalibrated(None, calibration)
        tuned.save(options.folder)
    return TrainedReader(
        str(options.folder), held_out_scores(tuned, held, run.progress), calibration, run.history
    )


def open_reader(reader: str) -> ReaderParts:
    """A reader to train on."""
    saved = load_parts(ReaderFolder.open(reader))
    check_special_pieces(saved.tokenizer, reader)
    return saved


def averaged(network: SpanNetwork, before: Mapping[str, Tensor]) -> SpanNetwork:
    """The network with its weights a part of the way back to those that it had before.

    It keeps most of what it has learned, and forgets less (Wortsman et al., 2022).
    """
    with torch.no_grad():
        for name, weight in network.state_dict().items():
            weight.lerp_(before[name], _BACK)
    return network


def held_out_scores(parts: ReaderParts, held: Sequence[Passage], progress: Progress) -> dict[str, Scores]:
    """The accuracy on held-out questions, for each number of sentences that are read again."""
    if not any(map(known_questions, held)):
        return {}
    rows = evaluate_reader(Reader(parts), group_documents(held, 1), progress=progress)
    return {row.name: row.scores for row in rows}


def _calibrate_only(run: QuestionRun, options: QuestionOptions, passages: list[Passage]) -> TrainedReader:
    """Write a reader again with a calibration by the questions of the files; nothing is trained."""
    source = ReaderFolder.open(options.init)
    reader, passages = Reader.of(source), with_swapped_questions(passages)
    calibration = calibrate(reader, passages, run.progress)
    if calibration is None:
        expected = f"at least {FEWEST} questions with an answer, and some without"
        raise FormatError.expected(", ".join(options.data), expected, "fewer")
    look = None if reader.second_look is None else calibrate_look(reader, passages, run.progress)
    recalibrate(source, options.folder, calibration, {"calibration": options.described()}, look)
    return TrainedReader(str(options.folder), calibration=calibration)
