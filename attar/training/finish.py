"""The end of a run: measure the network on held-out questions, write the reader, calibrate what it says."""

from dataclasses import dataclass, field
from typing import Any

from attar.errors import FormatError
from attar.nn.phrases import PhraseNetwork, QuickQuestions
from attar.nn.spans import SpanNetwork
from attar.reader.confidence import Calibration
from attar.reader.folders import ReaderFolder
from attar.reader.parts import ReaderParts, recalibrate
from attar.reader.reader import Reader
from attar.training.calibration import FEWEST, calibrate, calibrate_look
from attar.training.data import Passage
from attar.training.held_out import accuracy
from attar.training.question_set import QuestionSet
from attar.training.run import QuestionRun
from attar.training.stage import Row
from attar.training.swaps import with_swapped_questions


@dataclass(frozen=True)
class TrainedReader:
    """A reader's folder, the accuracy of its question encoders on held-out questions, and how it was trained."""

    reader: str
    held_out: dict[str, dict[str, float]] = field(default_factory=dict)
    calibration: Calibration | None = None
    history: list[Row] = field(default_factory=list)


def finish(
    run: QuestionRun,
    network: PhraseNetwork,
    quick: QuickQuestions | None,
    tokenizer: bytes,
    held: QuestionSet,
    before: ReaderParts | None = None,
    look: SpanNetwork | None = None,
) -> TrainedReader:
    """Measure on held-out questions, write the reader, calibrate what it says, and write that too."""
    options, folder = run.options, run.options.folder
    if not run.processes.is_main:
        return TrainedReader(str(folder))
    density = options.density if before is None else before.config.network.density
    held_out = {}
    if held.labelled():
        held_out["large"] = accuracy(network.to(run.device), held, density, run.device)
        if quick is not None:
            held_out["quick"] = accuracy(network, held, density, run.device, quick.to(run.device))
    about: dict[str, Any] = {"training": options.described(), "held_out": held_out}
    if before is not None:
        about["before"] = before.config.about
    calibration = None if before is None else before.config.network.calibration
    parts = ReaderParts.of(
        network.to("cpu"), None if quick is None else quick.to("cpu"), tokenizer, about,
        density=density, calibration=calibration, distinct=before is None or before.config.network.distinct,
    )  # fmt: skip
    if look is not None:
        parts = parts.with_second_look(look.to("cpu"))
    parts.save(folder)
    run.say("calibration")
    asked = with_swapped_questions(held.passages)
    new = calibrate(Reader(parts), asked, run.progress)
    if new is not None:
        parts = parts.recalibrated(new, {})
    if look is not None:
        parts = parts.with_second_look(None, calibrate_look(Reader(parts), asked, run.progress))
    parts.save(folder)
    run.say(f"{folder}: held-out accuracy {held_out}")
    return TrainedReader(str(folder), held_out, new or calibration, run.history)


def keep_readout(run: QuestionRun, network: PhraseNetwork, before: ReaderParts) -> TrainedReader:
    """Write a reader again with the readout of memories of fixed size."""
    if run.processes.is_main:
        config = before.config.network
        about = before.config.about | {"readout": run.options.described()}
        ReaderParts.of(
            network.to("cpu"), before.quick(), before.tokenizer.data, about,
            density=config.density, calibration=config.calibration, distinct=config.distinct,
        ).save(run.options.folder)  # fmt: skip
    return TrainedReader(str(run.options.folder), history=run.history)


def calibrate_only(run: QuestionRun, passages: list[Passage]) -> TrainedReader:
    """Write a reader again with a calibration by the questions of the files; nothing is trained."""
    options, source = run.options, ReaderFolder.open(run.options.init)
    if not run.processes.is_main:
        return TrainedReader(str(options.folder))
    reader, passages = Reader.of(source), with_swapped_questions(passages)
    calibration = calibrate(reader, passages, run.progress)
    if calibration is None:
        expected = f"at least {FEWEST} questions with an answer, and some without"
        raise FormatError.expected(", ".join(options.data), expected, "fewer")
    look = None if reader.second_look is None else calibrate_look(reader, passages, run.progress)
    recalibrate(source, options.folder, calibration, {"calibration": options.described()}, look)
    return TrainedReader(str(options.folder), calibration=calibration)
