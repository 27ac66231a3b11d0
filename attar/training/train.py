"""Train a reader for real questions: the stages in order, each a file of the run's folder, and the reader at the end.

    questions with answers ─→ first teacher ─→ its labels of questions whose answers are unknown
    both                   ─→ teacher       ─→ its labels of all questions: scores of every word piece
    labels                 ─→ second look: reads a question with a few sentences
    labels                 ─→ student: the network of the reader, which reads passages without a question
    student                ─→ quick question encoder
    student in int8        ─→ calibration by held-out questions

A teacher reads question and passage together, again for every question: it is more accurate, and too slow to be a
reader. Without questions whose answers are unknown there is one teacher. A stage whose file is there is not repeated.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from attar.errors import FormatError
from attar.files import lock_run
from attar.nn.phrases import PhraseNetwork, QuickQuestions
from attar.nn.spans import SpanNetwork
from attar.nn.transformer import Transformer
from attar.options import PhraseOptions
from attar.progress import Progress, ignore_progress
from attar.reader.folders import POSITIONS, Calibration, ReaderFolder
from attar.reader.parts import ReaderParts, load_parts, recalibrate
from attar.reader.reader import Reader
from attar.reader.windows import PieceTokenizer
from attar.training.batches import Array, QuestionBatches, QuestionsAlone, QuestionSet
from attar.training.calibration import FEWEST, calibrate, calibrate_look
from attar.training.data import Passage, QuestionOptions, hold_out, read_passages, without_overlap
from attar.training.evaluation import Scores, evaluate_reader, group_documents
from attar.training.found import FoundBatches, found_rows, from_arrays, to_arrays
from attar.training.look import SentenceBatches, look_accuracy, look_loss, look_set
from attar.training.published import (
    Base,
    RelativeTransformer,
    check_special_pieces,
    load_base,
    load_mpnet,
)
from attar.training.run import QuestionRun, Row, Say, make_loader, silent
from attar.training.student import (
    imitation_loss,
    new_quick,
    student_loss,
    student_set,
)
from attar.training.teacher import (
    TEACHER_FLOOR,
    PairBatches,
    TeacherLabels,
    label,
    pseudo_labels,
    teacher_loss,
    with_golds,
)
from attar.training.variants import with_swapped_questions

# Learning rates and epochs that were measured once.
_LOOK_LR = 1.6e-4
_QUICK_EPOCHS = 3
_QUICK_LAYERS = 2
# Phrases that a new reader keeps per word piece.
_DENSITY = 0.4
# How far back towards its weights before a fine-tuned network goes: with none, it refused simple questions of short
# letters, with half of the way it answered more of what is not there.
_BACK = 0.25
# Questions per step while the quick encoder imitates the large one.
_IMITATED = 1_024


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
    """Train a reader, write its folder, and return what is known about it: accuracy on held-out questions and so on.

    A folder with a reader or a run is refused unless `resume` continues it or `replace` starts again.
    """
    if torch.cuda.is_available():
        # Lengths change from step to step, which cuDNN's attention is slow at.
        torch.backends.cuda.enable_cudnn_sdp(False)
        torch.set_float32_matmul_precision("high")
    run = QuestionRun(options, progress, say)
    with lock_run(run.folder):
        run.begin(resume=resume, replace=replace)
        passages = [passage for path in options.data for passage in read_passages(path)]
        if options.exclude:
            passages = without_overlap(passages, read_passages(options.exclude))
        if options.calibrate_only:
            return _calibrate_only(run, passages)
        if options.init and not options.teacher:
            return _fine_tune(run, passages)
        return _train_with_teacher(run, passages)


def _train_with_teacher(run: QuestionRun, passages: list[Passage]) -> TrainedReader:
    """A new reader from a published encoder, or one that is trained on; each is taught by a teacher."""
    options = run.options
    saved = _saved_parts(options) if options.init else None
    base = load_base(options.base) if saved is None else Base(saved.options.encoder, {}, saved.tokenizer.data)
    training, held = _split(run, passages, PieceTokenizer(base.tokenizer))
    labels = _teach(run, base, training)
    network = run.module(lambda: _new_network(options, base)) if saved is None else saved.network()
    look = run.module(lambda: _new_look(options, network.encoder))
    _fit_second_look(run, look, training, held, labels)

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


def _fine_tune(run: QuestionRun, passages: list[Passage]) -> TrainedReader:
    """A reader whose second look is trained on, by the sentences that the reader finds for questions.

    Memories do not depend on it: libraries of the reader stay as they are.
    """
    options, folder = run.options, run.options.folder
    saved = _saved_parts(options)
    look = saved.look()
    if look is None:
        raise FormatError(
            f"{options.init} has no second look to train on", "use `answers`, or give --teacher"
        )
    parts = hold_out(passages)
    _, held = _encoded(run, parts, saved.tokenizer)
    look.encoder.words.requires_grad_(requires_grad=False)
    rows = run.arrays("found", lambda: to_arrays(found_rows(Reader(saved), parts[0], run.progress)))
    batches = partial(
        FoundBatches, from_arrays(rows), tokens=options.batch_tokens, epochs=options.epochs, seed=options.seed
    )
    measure = partial(look_accuracy, look, held, run.device) if held.labelled() else None
    before = {name: weight.clone() for name, weight in look.state_dict().items()}
    run.fit("second-look", look, partial(teacher_loss, look), batches, lr=options.lr, evaluate=measure)
    about = {"training": options.described(), "before": saved.config.about}
    tuned = saved.with_second_look(averaged(look.to("cpu"), before), about)
    tuned.save(folder)
    run.say("calibration")
    calibration = calibrate_look(Reader(tuned), with_swapped_questions(held.passages), run.progress)
    if calibration is not None:
        tuned.recalibrated(None, calibration).save(folder)
    return TrainedReader(str(folder), {}, calibration, run.history)


def averaged(network: SpanNetwork, before: Mapping[str, Tensor]) -> SpanNetwork:
    """The network with its weights a part of the way back to those that it had before.

    It keeps most of what it has learned, and forgets less (Wortsman et al., 2022).
    """
    with torch.no_grad():
        for name, weight in network.state_dict().items():
            weight.lerp_(before[name], _BACK)
    return network


def _saved_parts(options: QuestionOptions) -> ReaderParts:
    saved = load_parts(ReaderFolder.open(options.init))
    check_special_pieces(saved.tokenizer, options.init)
    return saved


def _split(
    run: QuestionRun, passages: list[Passage], tokenizer: PieceTokenizer
) -> tuple[QuestionSet, QuestionSet]:
    """The passages to train on and the held-out ones."""
    training, held = hold_out(passages)
    return _encoded(run, (with_swapped_questions(training), held), tokenizer)


def _encoded(
    run: QuestionRun, parts: tuple[Sequence[Passage], Sequence[Passage]], tokenizer: PieceTokenizer
) -> tuple[QuestionSet, QuestionSet]:
    training, held = (QuestionSet.of(part, tokenizer) for part in parts)
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


def _teach(run: QuestionRun, base: Base, training: QuestionSet) -> TeacherLabels:
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
    run: QuestionRun,
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
    loss = partial(teacher_loss, teacher)
    run.fit(name, teacher, loss, batches, lr=teaching.lr, heads=teaching.heads)


def _label(
    run: QuestionRun, name: str, teacher: SpanNetwork, data: QuestionSet, chosen: Sequence[int]
) -> TeacherLabels:
    """What a teacher says about questions, from the run's folder if it is there."""

    def make() -> dict[str, Array]:
        tokens = run.options.batch_tokens * 5
        pairs = PairBatches(data, chosen, tokens=tokens, epochs=1, seed=0, shuffle=False)
        return label(teacher.to(run.device), data, make_loader(pairs, run.workers), run.device).to_arrays()

    return TeacherLabels.from_arrays(run.arrays(name, make))


def _new_network(options: QuestionOptions, base: Base) -> PhraseNetwork:
    short = base.with_fewer_positions(POSITIONS)
    sizes = PhraseOptions(values=options.values, encoder=short.shape)
    network = PhraseNetwork(sizes)
    network.encoder.load_state_dict(short.weights)
    return network


def _new_look(options: QuestionOptions, encoder: Transformer) -> SpanNetwork:
    """A second look that starts from a published encoder, or from the reader's; its word vectors are the reader's."""
    shape, state = encoder.shape, encoder.state_dict()
    if options.look_base:
        base = load_base(options.look_base).with_fewer_positions(shape.positions)
        shape = replace(base.shape, vocabulary=shape.vocabulary)
        state = base.weights | {"words.weight": state["words.weight"]}
    look = SpanNetwork(Transformer(shape))
    look.encoder.load_state_dict(state)
    return look


def _fit_second_look(
    run: QuestionRun, network: SpanNetwork, training: QuestionSet, held: QuestionSet, labels: TeacherLabels
) -> None:
    """Train the network that reads a question with a few sentences; word vectors stay as they are."""
    options = run.options
    network.encoder.words.requires_grad_(requires_grad=False)
    data, weights = look_set(training, labels)
    batches = partial(
        SentenceBatches, data, labels, weights, tokens=options.batch_tokens * 2, epochs=options.look_epochs,
        seed=options.seed,
    )  # fmt: skip
    measure = partial(look_accuracy, network, held, run.device)
    run.fit("second-look", network, partial(look_loss, network), batches, lr=_LOOK_LR, evaluate=measure)


def _fit_student(
    run: QuestionRun, network: PhraseNetwork, data: QuestionSet, weights: NDArray[np.float32] | None
) -> None:
    """Train the network of the reader; `weights` says how much each question counts."""
    options = run.options
    batches = partial(
        QuestionBatches, data, tokens=options.batch_tokens, epochs=options.epochs, seed=options.seed, weights=weights
    )  # fmt: skip
    run.fit("student", network, partial(student_loss, network), batches, lr=options.lr)


def _fit_quick(
    run: QuestionRun,
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
    run: QuestionRun,
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
    parts = parts.recalibrated(calibration, None)
    parts = parts.recalibrated(None, calibrate_look(Reader(parts), asked, run.progress))
    parts.save(folder)
    held_out = {}
    if held.labelled():
        rows = evaluate_reader(Reader(parts), group_documents(held.passages, 1), progress=run.progress)
        held_out = {row.name: row.scores for row in rows}
    return TrainedReader(str(folder), held_out, parts.config.network.calibration, run.history)


def _calibrate_only(run: QuestionRun, passages: list[Passage]) -> TrainedReader:
    """Write a reader again with a calibration by the questions of the files; nothing is trained."""
    options, source = run.options, ReaderFolder.open(run.options.init)
    reader, passages = Reader.of(source), with_swapped_questions(passages)
    calibration = calibrate(reader, passages, run.progress)
    if calibration is None:
        expected = f"at least {FEWEST} questions with an answer, and some without"
        raise FormatError.expected(", ".join(options.data), expected, "fewer")
    look = None if reader.second_look is None else calibrate_look(reader, passages, run.progress)
    recalibrate(source, options.folder, calibration, {"calibration": options.described()}, look)
    return TrainedReader(str(options.folder), calibration=calibration)
