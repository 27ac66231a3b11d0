"""The end of a run: measure the network on held-out questions, write the reader, calibrate what it says."""

from pathlib import Path
from typing import Any

from msgspec import to_builtins
from torch import nn

from attar.errors import FormatError, OptionError
from attar.nn.phrases import PhraseNetwork, QuickQuestions
from attar.reader.folders import SHIPPED
from attar.reader.phrase_files import SavedPhrases, save_phrase_reader, with_calibration
from attar.reader.phrases import PhraseReader
from attar.reader.reader import Reader
from attar.training.questions.calibration import FEWEST, calibrate
from attar.training.questions.data import Passage
from attar.training.questions.encoded import Encoded
from attar.training.questions.held_out import accuracy, answer_questions
from attar.training.questions.run import QuestionRun


def finish(
    run: QuestionRun,
    network: PhraseNetwork,
    quick: QuickQuestions | None,
    tokenizer: bytes,
    held: Encoded,
    before: SavedPhrases | None = None,
) -> dict[str, Any]:
    """Measure on held-out questions, write the reader, calibrate what it says, and write that too."""
    if not run.processes.is_main:
        return {}
    options, results = run.options, dict[str, Any]()
    density = options.density if before is None else before.density
    modules: list[nn.Module] = [network, *([] if quick is None else [quick])]
    for module in modules:
        module.to(run.device)
    if held.labelled():
        results["large"] = accuracy(held, answer_questions(network, held, density, run.device))
        if quick is not None:
            results["quick"] = accuracy(held, answer_questions(network, held, density, run.device, quick))
    about = {"training": options.described(), "held_out": results}
    if before is not None:
        about["before"] = before.about
    for module in modules:
        module.to("cpu")
    earlier = None if before is None else before.calibration
    distinct = before is None or before.distinct
    save_phrase_reader(
        options.folder, network, quick, tokenizer, about,
        density=density, calibration=earlier, distinct=distinct,
    )  # fmt: skip
    found = None
    if network.options.match == "static":  # readers of other words are for experiments: they cannot be loaded
        run.say("calibration")
        found = calibrate(load_phrases(options.out), held.passages, progress=run.progress)
    if found is not None:
        with_calibration(options.folder, options.folder, found, {})
    run.say(f"{options.folder}: held-out accuracy {results}")
    calibration = found or earlier
    return {
        "reader": str(options.folder),
        "held_out": results,
        "calibration": None if calibration is None else to_builtins(calibration),
        "history": run.history,
    }


def keep_readout(run: QuestionRun, network: PhraseNetwork, before: PhraseReader) -> dict[str, Any]:
    """Write a reader again with the readout of memories of fixed size."""
    if run.processes.is_main:
        saved = before.saved
        about = saved.about | {"readout": run.options.described()}
        save_phrase_reader(
            run.options.folder, network.to("cpu"), saved.quick, saved.tokenizer.data, about,
            density=saved.density, calibration=saved.calibration, distinct=saved.distinct,
        )  # fmt: skip
    return {"reader": str(run.options.folder), "held_out": {}, "calibration": None, "history": run.history}


def load_phrases(path: str) -> PhraseReader:
    """A reader for real questions."""
    reader = Reader.load(path)
    if not isinstance(reader, PhraseReader):
        remedy = "fine-tune a names reader with attar train --init-from"
        raise OptionError.expected("init", "a reader for real questions", "a names reader", remedy)
    return reader


def calibrate_only(run: QuestionRun, passages: list[Passage]) -> dict[str, Any]:
    """Write a reader again with a calibration by the questions of the files; nothing is trained."""
    if not run.processes.is_main:
        return {}
    options = run.options
    found = calibrate(load_phrases(options.init), passages, options.accuracy or None, run.progress)
    if found is None:
        expected = f"at least {FEWEST} questions with an answer, and some without"
        raise FormatError.expected(", ".join(options.data), expected, "fewer")
    source = Path(options.init) if Path(options.init).is_dir() else SHIPPED / options.init
    with_calibration(source, options.folder, found, {"calibration": options.described()})
    return {"reader": str(options.folder), "held_out": {}, "calibration": to_builtins(found), "history": []}
