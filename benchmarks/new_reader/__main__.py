"""Train a new reader: the stages in order, each a file of the run's folder, and the reader at the end. On a GPU.

    python -m benchmarks.new_reader squad.json.xz --base all-MiniLM-L6-v2 --exclude test.json --out reader

    questions with answers ─→ first teacher ─→ its labels of questions whose answers are unknown
    both                   ─→ teacher       ─→ its labels of all questions: scores of every word piece
    labels                 ─→ second look: reads a question with a few sentences
    labels                 ─→ student: the network of the reader, which reads passages without a question
    student                ─→ quick question encoder
    student in int8        ─→ calibration by held-out questions

A teacher reads question and passage together, again for every question: it is more accurate, and too slow to be a
reader. Without questions whose answers are unknown there is one teacher. A stage whose file is there is not repeated.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Annotated, Any, ClassVar, TypeVar

import numpy as np
import torch
import typer
from numpy.typing import NDArray
from torch import nn

from attar.cli.options import Replace, Resume, options_from
from attar.cli.output import progress_bar
from attar.errors import FormatError, OptionError
from attar.files import lock_run
from attar.nn.phrases import PhraseNetwork, QuickQuestions
from attar.nn.spans import SpanNetwork
from attar.nn.transformer import Transformer
from attar.options import PhraseOptions, option
from attar.progress import Progress, ignore_progress
from attar.reader.folders import POSITIONS
from attar.reader.parts import ReaderParts
from attar.reader.reader import Reader
from attar.reader.windows import PieceTokenizer
from attar.training.batches import Array, span_loss
from attar.training.calibration import calibrate, calibrate_look
from attar.training.data import Passage, RunOptions, hold_out, read_passages
from attar.training.run import QuestionRun, Say, make_loader, silent
from attar.training.train import TrainedReader, held_out_scores, open_reader
from attar.training.variants import with_swapped_questions
from benchmarks.command import run_command
from benchmarks.held_out import without_overlap
from benchmarks.new_reader.look import SentenceBatches, look_loss, look_set
from benchmarks.new_reader.published import Base, RelativeTransformer, load_base, load_mpnet
from benchmarks.new_reader.questions import QuestionBatches, QuestionsAlone, QuestionSet
from benchmarks.new_reader.student import imitation_loss, new_quick, student_loss, student_set
from benchmarks.new_reader.teacher import (
    TEACHER_FLOOR,
    PairBatches,
    TeacherLabels,
    label,
    pseudo_labels,
    with_golds,
)

# Learning rates and epochs that were measured once.
_LOOK_LR = 1.6e-4
_QUICK_EPOCHS = 3
_QUICK_LAYERS = 2
# Phrases that a new reader keeps per word piece.
_DENSITY = 0.4
# Questions per step while the quick encoder imitates the large one.
_IMITATED = 1_024


Module = TypeVar("Module", bound=nn.Module)


@dataclass(frozen=True)
class NewReaderOptions(RunOptions):
    """One run: a new reader from a published encoder, or `init` trained on; each is taught by a teacher."""

    paths: ClassVar[tuple[str, ...]] = ("base", "init", "teacher", "look_base", "exclude")
    init: str = option("", "Train this reader on, with --teacher.")
    base: str = option("", "Folder of a published encoder to start from.")
    teacher: str = option("", "Folder of MPNet, to teach the reader; --base does otherwise.")
    look_base: str = option(
        "", "Folder of a published encoder that the second look starts from; the reader's own otherwise."
    )
    exclude: str = option("", "Test set; passages that share 13 consecutive words with it are left out.")
    values: int = option(0, "Size d of values; 0: no memories of fixed size. Given by --init.", min=0)
    epochs: int = option(7, "Epochs of the student.", min=1)
    look_epochs: int = option(6, "Epochs of the second look.", min=1)
    lr: float = option(2e-4, "Peak learning rate of AdamW.", min=0)
    batch_tokens: int = option(12_000, "Word pieces of passages per step, with padding.", min=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if bool(self.base) == bool(self.init):
            came = "both" if self.base else "neither"
            raise OptionError.expected("--base and --init", "one of them", came)
        if self.init and not self.teacher:
            raise OptionError("--init needs --teacher", "`attar train-questions` fine-tunes without one")

    @property
    def files(self) -> tuple[str, ...]:
        return (*self.data, self.exclude) if self.exclude else self.data


class Run(QuestionRun):
    """A run with its options; a network that a stage begins with is the same, whichever stages were skipped before."""

    options: NewReaderOptions

    def module(self, make: Callable[[], Module]) -> Module:
        torch.manual_seed(self.options.seed)
        return make()


def train_reader(
    options: NewReaderOptions,
    *,
    resume: bool = False,
    replace: bool = False,
    progress: Progress = ignore_progress,
    say: Say = silent,
) -> TrainedReader:
    """Train a reader through all stages, and write its folder."""
    run = Run(options, progress, say)
    with lock_run(run.folder):
        run.begin(resume=resume, replace=replace)
        passages = [passage for path in options.data for passage in read_passages(path)]
        if options.exclude:
            passages = without_overlap(passages, read_passages(options.exclude))
        return _train(run, passages)


def _train(run: Run, passages: list[Passage]) -> TrainedReader:
    options = run.options
    saved = open_reader(options.init) if options.init else None
    base = load_base(options.base) if saved is None else Base(saved.options.encoder, {}, saved.tokenizer.data)
    training, held = _split(run, passages, PieceTokenizer(base.tokenizer))
    labels = _teach(run, base, training)
    network = run.module(lambda: _new_network(options, base)) if saved is None else saved.network()
    look = run.module(lambda: _new_look(options, network.encoder))
    _fit_second_look(run, look, training, labels)

    data, weights = student_set(training, labels)
    encoder = network.encoder
    kept: list[nn.Module] = [encoder.words]  # the second look has the same
    if saved is not None:  # the layers that documents are ranked by stay as well
        kept += [encoder.positions, encoder.types, encoder.norm]
        kept += encoder.layers.layers[: Reader.signature_layers]
    for module in kept:
        module.requires_grad_(requires_grad=False)
    _fit_student(run, network, data, weights)
    quick = run.module(lambda: new_quick(network, _QUICK_LAYERS)) if saved is None else saved.quick()
    _fit_quick(run, network, quick, data, [*data.questions, *data.typed])
    return _finish(run, network, quick, base.tokenizer, held, look, saved)


def _split(run: Run, passages: list[Passage], tokenizer: PieceTokenizer) -> tuple[QuestionSet, QuestionSet]:
    """The passages to train on and the held-out ones."""
    before, apart = hold_out(passages)
    training, held = (QuestionSet.of(part, tokenizer) for part in (with_swapped_questions(before), apart))
    if not training.labelled():
        files = ", ".join(run.options.data)
        raise FormatError(f"{files}: no question has an answer in its passage to learn from")
    counts = f"{len(training.passages):,} passages, {len(training.questions):,} questions"
    run.say(f"{counts}; held out: {len(held.passages):,} and {len(held.questions):,}")
    return training, held


@dataclass(frozen=True)
class _Teaching:
    """How a teacher is trained, as was measured once: more for a small network."""

    lr: float
    heads: float  # their learning rate, as a multiple of the encoder's
    first_epochs: int
    epochs: int


_LARGE = _Teaching(5e-5, 10.0, 1, 2)
_SMALL = _Teaching(1.5e-4, 5.0, 2, 3)


def _teach(run: Run, base: Base, training: QuestionSet) -> TeacherLabels:
    """What the teacher says about all questions.

    It is first trained on known answers alone, and finds answers to other questions where it agrees with a marked span.
    Then it learns from all of these, and from two kinds of questions without an answer: from the files, and known
    questions with a word changed. From one kind alone it would learn its style: of 103,976 back-translated questions,
    a first teacher whose unanswerable questions were all back-translated found 15,196 answered, without them 76,136.
    """
    large = run.options.teacher
    encoder = load_mpnet(large, base.tokenizer) if large else base

    def make() -> SpanNetwork:
        shape = encoder.shape
        network = SpanNetwork(RelativeTransformer(shape) if large else Transformer(shape))
        network.encoder.load_state_dict(encoder.weights)
        return network

    teacher, teaching = run.module(make), _LARGE if large else _SMALL
    known = training.labelled()
    unlabelled = [
        q for q, source in enumerate(training.sources) if not source.labelled and not source.changed
    ]
    golds = {}
    if unlabelled:
        _fit_teacher(run, "first-teacher", teacher, teaching, training, known)
        labels = _label(run, "first-labels", teacher, training, unlabelled)
        golds = pseudo_labels(training, labels, TEACHER_FLOOR)
        run.say(f"of {len(unlabelled):,} questions whose answers are unknown, {len(golds):,} labelled")
    changed = [
        q
        for q, source in enumerate(training.sources)
        if source.changed and not training.passages[training.owners[q]].spans
    ]
    chosen = [*known, *golds, *sorted(training.absent), *changed]
    _fit_teacher(run, "teacher", teacher, teaching, with_golds(training, golds), chosen)
    labels = _label(run, "labels", teacher, training, range(len(training.questions)))
    teacher.to("cpu")
    return labels


def _fit_teacher(
    run: Run,
    name: str,
    teacher: SpanNetwork,
    teaching: _Teaching,
    data: QuestionSet,
    chosen: Sequence[int],
) -> None:
    tokens = run.options.batch_tokens * 4 // 3
    first = name.startswith("first")
    epochs, seed = (teaching.first_epochs, 1) if first else (teaching.epochs, 2)
    batches = partial(PairBatches, data, chosen, tokens=tokens, epochs=epochs, seed=seed)
    loss = partial(span_loss, teacher)
    run.fit(name, teacher, loss, batches, lr=teaching.lr, heads=teaching.heads)


def _label(
    run: Run, name: str, teacher: SpanNetwork, data: QuestionSet, chosen: Sequence[int]
) -> TeacherLabels:
    """What a teacher says about questions, from the run's folder if it is there."""

    def make() -> dict[str, Array]:
        tokens = run.options.batch_tokens * 5
        pairs = PairBatches(data, chosen, tokens=tokens, epochs=1, seed=0, shuffle=False)
        return label(teacher.to(run.device), data, make_loader(pairs, run.workers), run.device).to_arrays()

    return TeacherLabels.from_arrays(run.arrays(name, make))


def _new_network(options: NewReaderOptions, base: Base) -> PhraseNetwork:
    short = base.with_fewer_positions(POSITIONS)
    sizes = PhraseOptions(values=options.values, encoder=short.shape)
    network = PhraseNetwork(sizes)
    network.encoder.load_state_dict(short.weights)
    return network


def _new_look(options: NewReaderOptions, encoder: Transformer) -> SpanNetwork:
    """A second look that starts from a published encoder, or from the reader's; its word vectors are the reader's."""
    shape, state = encoder.shape, encoder.state_dict()
    if options.look_base:
        base = load_base(options.look_base).with_fewer_positions(shape.positions)
        shape = replace(base.shape, vocabulary=shape.vocabulary)
        state = base.weights | {"words.weight": state["words.weight"]}
    look = SpanNetwork(Transformer(shape))
    look.encoder.load_state_dict(state)
    return look


def _fit_second_look(run: Run, network: SpanNetwork, training: QuestionSet, labels: TeacherLabels) -> None:
    """Train the network that reads a question with a few sentences; word vectors stay as they are."""
    options = run.options
    network.encoder.words.requires_grad_(requires_grad=False)
    data, weights = look_set(training, labels)
    batches = partial(
        SentenceBatches, data, labels, weights, tokens=options.batch_tokens * 2, epochs=options.look_epochs,
        seed=options.seed,
    )  # fmt: skip
    run.fit("second-look", network, partial(look_loss, network), batches, lr=_LOOK_LR)


def _fit_student(
    run: Run, network: PhraseNetwork, data: QuestionSet, weights: NDArray[np.float32] | None
) -> None:
    """Train the network of the reader; `weights` says how much each question counts."""
    options = run.options
    batches = partial(
        QuestionBatches, data, tokens=options.batch_tokens, epochs=options.epochs, seed=options.seed, weights=weights
    )  # fmt: skip
    run.fit("student", network, partial(student_loss, network), batches, lr=options.lr)


def _fit_quick(
    run: Run,
    network: PhraseNetwork,
    quick: QuickQuestions | None,
    data: QuestionSet,
    questions: Sequence[NDArray[np.int32]],
) -> None:
    """Train the quick question encoder, if there is one: first for the large one's vectors, then for answers."""
    if quick is None:
        return
    options = run.options
    network.to(run.device).eval().requires_grad_(requires_grad=False)
    alone = partial(QuestionsAlone, questions, size=_IMITATED, epochs=options.epochs, seed=options.seed)
    batches = partial(
        QuestionBatches, data, tokens=options.batch_tokens, epochs=_QUICK_EPOCHS, seed=options.seed
    )
    imitate, answer = (partial(loss, network, quick=quick) for loss in (imitation_loss, student_loss))
    run.fit("imitation", quick, imitate, alone, lr=options.lr * 2, heads=1.0)
    run.fit("quick", quick, answer, batches, lr=options.lr, heads=1.0)


def _finish(
    run: Run,
    network: PhraseNetwork,
    quick: QuickQuestions | None,
    tokenizer: bytes,
    held: QuestionSet,
    look: SpanNetwork,
    before: ReaderParts | None,
) -> TrainedReader:
    """Write the reader, calibrate what it says by held-out questions, write that too, and measure."""
    options, folder = run.options, run.options.folder
    about: dict[str, Any] = {"training": options.described()}
    network, quick = network.to("cpu"), None if quick is None else quick.to("cpu")
    if before is None:
        parts = ReaderParts.of(network, quick, tokenizer, about, density=_DENSITY, distinct=True)
    else:
        parts = before.with_networks(network, quick, about | {"before": before.config.about})
    parts = parts.with_second_look(look.to("cpu"))
    parts.save(folder)
    run.say("calibration")
    asked = with_swapped_questions(held.passages)
    calibration = calibrate(Reader(parts), asked, run.progress)
    if calibration is not None:
        parts = parts.recalibrated(calibration, None)
    of_look = calibrate_look(Reader(parts), asked, run.progress)
    if of_look is not None:
        parts = parts.recalibrated(None, of_look)
    parts.save(folder)
    scores = held_out_scores(parts, held.passages, run.progress)
    return TrainedReader(str(folder), scores, parts.config.network.calibration, run.history)


@options_from(NewReaderOptions)
def main(
    data: Annotated[list[Path], typer.Argument(help="Files of questions, as for `attar train-questions`.")],
    resume: Resume = False,
    replace: Replace = False,
    **given: Any,
) -> None:
    """Train a new reader, or one on with a teacher."""
    options, began = NewReaderOptions(data=tuple(map(str, data)), **given), monotonic()

    def say(line: str) -> None:
        print(f"[{monotonic() - began:6.0f} s] {line}", file=sys.stderr, flush=True)

    with progress_bar() as progress:
        result = train_reader(options, resume=resume, replace=replace, progress=progress, say=say)
    print(result.reader)
    for name, scores in result.held_out.items():
        print(f"{name}, held-out questions: EM {scores.em or 0:.3f}, F1 {scores.f1 or 0:.3f}")


if __name__ == "__main__":
    run_command(main)
