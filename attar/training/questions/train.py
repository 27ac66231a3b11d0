"""Train a reader for real questions: the stages in order, each a file of the run's folder, and the reader at the end.

teacher → its labels → second teacher → labels of everything → prior → generator → generated questions → student →
quick question encoder → calibration. A stage whose file is there is not repeated.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn

from attar.errors import OptionError
from attar.nn import PhraseNetwork, PhraseOptions, QuickQuestions, TransformerShape
from attar.progress import Progress, tell_nobody
from attar.reader import PhraseReader, Reader, save_phrase_reader
from attar.text import PieceTokenizer
from attar.training.fit import without_known_warnings
from attar.training.questions.base import check_special_pieces, load_base
from attar.training.questions.batches import QuestionBatches, QuestionsAlone
from attar.training.questions.data import hold_out, read_paragraphs, read_passages, without_overlap
from attar.training.questions.encoded import Array, Encoded
from attar.training.questions.generation import draw_spans, keep_answered, marked_questions, write_questions
from attar.training.questions.generator import Generator, MarkedBatches
from attar.training.questions.held_out import accuracy, answer_questions, calibrate
from attar.training.questions.labels import (
    STUDENT_FLOOR,
    TEACHER_FLOOR,
    add_generated,
    flat_scores,
    pseudo_labels,
    student_set,
    with_golds,
    with_marked_golds,
)
from attar.training.questions.options import QuestionOptions
from attar.training.questions.run import QuestionRun, Say, silent
from attar.training.questions.student import Loss, imitation_loss, prior_loss, student_loss
from attar.training.questions.teacher import PairBatches, Teacher, label
from attar.training.run_folder import RUN, check_writable, lock_folder

# Learning rates and epochs that were measured once (docs/questions.md).
_TEACHER_LR, _PRIOR_LR = 1.5e-4, 1e-4
_FIRST_EPOCHS, _SECOND_EPOCHS, _PRIOR_EPOCHS, _GENERATOR_EPOCHS, _QUICK_EPOCHS = 2, 3, 2, 4, 3
# Questions per step while the quick encoder imitates the large one.
_IMITATED = 1_024


def train_questions(
    options: QuestionOptions,
    *,
    resume: bool = False,
    replace: bool = False,
    progress: Progress = tell_nobody,
    say: Say = silent,
) -> dict[str, Any]:
    """Train a reader, write its folder, and return what is known about it: accuracy on held-out questions and so on.

    A folder with a reader or a run is refused unless `resume` continues it or `replace` starts again.
    """
    check_writable(options.folder)
    if torch.cuda.is_available():
        # Lengths change from step to step, which cuDNN's attention is slow at.
        torch.backends.cuda.enable_cudnn_sdp(False)
        torch.set_float32_matmul_precision("high")
    with without_known_warnings(), lock_folder(options.folder / RUN):
        run = QuestionRun(options, progress, say)
        run.begin(resume=resume, replace=replace)
        return _fine_tune(run) if options.init else _train_new(run)


def _train_new(run: QuestionRun) -> dict[str, Any]:
    options = run.options
    base = load_base(options.base)
    training, held = _read_sets(run, PieceTokenizer(base.tokenizer))
    run.write_tokenizer(base.tokenizer, base.shape)

    def started(module: Any) -> Any:
        module.encoder.load_state_dict(base.weights)
        return module

    teacher, labels, first_labels = _teach(run, lambda: started(Teacher(base.shape)), training)
    generated = None
    if options.texts:
        make_prior = partial(_new_prior, base.shape, started)
        make_generator = partial(_new_generator, base.shape, started)
        paragraphs = _read_paragraphs(run, PieceTokenizer(base.tokenizer), held)
        arrays = _generate(run, paragraphs, make_prior, make_generator, training, first_labels, teacher)
        generated = paragraphs, arrays
    absent = _absent_questions(run, teacher, held)
    teacher.to("cpu")

    data, weights = student_set(training, labels)
    if generated is not None:
        sure = add_generated(data, *generated)
        weights = np.concatenate([weights, sure * options.generated_weight])
    sizes = PhraseOptions(options.size, options.word_size, options.match, base.shape)
    student = run.module(lambda: started(PhraseNetwork(sizes)))
    network = _fit_student(run, student, data, held, weights)
    quick = None
    if options.quick_layers:
        initial = run.module(lambda: new_quick(network, options.quick_layers))
        # Generated questions are imitated; answers are learned from real ones.
        data.keep_questions(set(range(len(training.questions))))
        quick = _fit_quick(run, network, initial, data, data.questions)
    return _finish(run, network, quick, base.tokenizer, held, absent)


def _new_prior(shape: TransformerShape, started: Callable[[Any], Any]) -> PhraseNetwork:
    network: PhraseNetwork = started(PhraseNetwork(PhraseOptions(match="none", encoder=shape)))
    return network


def _new_generator(shape: TransformerShape, started: Callable[[Any], Any]) -> Generator:
    generator: Generator = started(Generator(shape))
    return generator


def _fine_tune(run: QuestionRun) -> dict[str, Any]:
    """Train a reader on, with known answers only."""
    saved = Reader.load(run.options.init)
    if not isinstance(saved, PhraseReader):
        remedy = "fine-tune a names reader with attar train --init-from"
        raise OptionError("init", "a reader for real questions", "a names reader", remedy)
    check_special_pieces(saved.tokenizer, run.options.init)
    training, held = _read_sets(run, saved.tokenizer)
    training.keep_questions(set(training.labelled()))
    network = _fit_student(run, saved.network, training, held, None)
    quick = saved.quick
    if quick is not None:
        questions = [training.questions[q] for q in training.labelled()]
        quick = _fit_quick(run, network, quick, training, questions)
    absent = {q for q, source in enumerate(held.sources) if source.labelled and not source.answers}
    before = {"before": saved.about, "calibration": list(saved.calibration), "density": saved.density}
    return _finish(run, network, quick, saved.tokenizer.data, held, absent, before)


def _read_sets(run: QuestionRun, tokenizer: PieceTokenizer) -> tuple[Encoded, Encoded]:
    """The passages to train on and the held-out ones."""
    passages = [passage for path in run.options.data for passage in read_passages(path)]
    if run.options.exclude:
        passages = without_overlap(passages, read_passages(run.options.exclude))
    training, held = (Encoded.of(part, tokenizer) for part in hold_out(passages))
    run.check_questions(len(training.labelled()))
    counts = f"{len(training.passages):,} passages, {len(training.questions):,} questions"
    run.say(f"{counts}; held out: {len(held.passages):,} and {len(held.questions):,}")
    return training, held


def _read_paragraphs(run: QuestionRun, tokenizer: PieceTokenizer, held: Encoded) -> Encoded:
    """Paragraphs without questions; none that is held out or excluded."""
    test = read_passages(run.options.exclude) if run.options.exclude else []
    passages = without_overlap(read_paragraphs(run.options.texts), [*test, *held.passages])
    return Encoded.of(passages, tokenizer)


def _teach(
    run: QuestionRun, make: Callable[[], Teacher], training: Encoded
) -> tuple[Teacher, dict[str, Array], Array]:
    """The second teacher, its labels of everything, and the best spans of the first."""
    tokens = run.options.batch_tokens * 4 // 3
    labelled = training.labelled()
    unlabelled = [q for q, source in enumerate(training.sources) if not source.labelled]

    def fitted(name: str, data: Encoded, chosen: list[int], epochs: int, seed: int) -> Teacher:
        teacher = run.module(make)
        batches = partial(PairBatches, data, chosen, tokens=tokens, epochs=epochs, seed=seed)
        run.fit(name, teacher, lambda batch: (teacher.loss(batch), {}), batches, lr=_TEACHER_LR)
        return teacher

    found: Array = np.full((len(training.questions), 3), -1.0, np.float32)
    if unlabelled:
        first = fitted("first-teacher", training, labelled, _FIRST_EPOCHS, 1)
        found = run.arrays("first-labels", lambda: {"found": _label(run, first, training, unlabelled)[0]})[
            "found"
        ]
    golds = pseudo_labels(training, found, TEACHER_FLOOR)
    run.say(
        f"{len(golds):,} of {len(unlabelled):,} questions without an answer labelled by the first teacher"
    )
    teacher = fitted("teacher", with_golds(training, golds), [*labelled, *golds], _SECOND_EPOCHS, 2)

    def label_all() -> dict[str, Array]:
        best, scored = _label(run, teacher, training, range(len(training.questions)))
        return flat_scores(scored, best)

    return teacher, run.arrays("labels", label_all), found


def _label(run: QuestionRun, teacher: Teacher, data: Encoded, chosen: Any) -> tuple[Array, Encoded]:
    """The teacher's best spans of questions, and the set with its scores."""
    scored = replace(data, soft=[None] * len(data.questions))
    tokens = run.options.batch_tokens * 5
    pairs = PairBatches(scored, chosen, tokens=tokens, epochs=1, seed=0, shuffle=False)
    return label(teacher.to(run.device), scored, run.loader(pairs), run.device), scored


def _absent_questions(run: QuestionRun, teacher: Teacher, held: Encoded) -> set[int]:
    """Held-out questions without an answer in their passage, known or by the teacher's word."""
    absent = {q for q, source in enumerate(held.sources) if source.labelled and not source.answers}
    unlabelled = [q for q, source in enumerate(held.sources) if not source.labelled]
    if unlabelled:
        found = run.arrays("held-out-labels", lambda: {"found": _label(run, teacher, held, unlabelled)[0]})
        absent |= set(unlabelled).difference(pseudo_labels(held, found["found"], STUDENT_FLOOR))
    return absent


def _generate(
    run: QuestionRun,
    paragraphs: Encoded,
    make_prior: Callable[[], PhraseNetwork],
    make_generator: Callable[[], Generator],
    training: Encoded,
    found: Array,
    teacher: Teacher,
) -> dict[str, Array]:
    """Questions for paragraphs that have none."""
    options, tokens = run.options, run.options.batch_tokens * 4 // 3
    prior = run.module(make_prior)
    asked = partial(
        QuestionBatches, with_marked_golds(training), tokens=tokens, epochs=_PRIOR_EPOCHS, seed=5, per_passage=12,
        negatives=1,
    )  # fmt: skip
    run.fit("prior", prior, lambda batch: prior_loss(prior, batch), asked, lr=_PRIOR_LR)
    golds = pseudo_labels(training, found, TEACHER_FLOOR)
    known = with_golds(training, golds)
    items = marked_questions(known, [*training.labelled(), *golds])
    generator = run.module(make_generator)
    marked = partial(
        MarkedBatches,
        [text.ids for text in known.texts],
        items,
        tokens=tokens,
        epochs=_GENERATOR_EPOCHS,
        seed=3,
    )
    loss = generator.loss
    run.fit("generator", generator, lambda batch: (loss(batch), {}), marked, lr=_TEACHER_LR, heads=4.0)

    def generate() -> dict[str, Array]:
        torch.manual_seed(options.seed)
        spans = draw_spans(prior.to(run.device), paragraphs, run.device, 0)
        written = write_questions(
            generator.to(run.device), paragraphs, spans, run.loader, run.device, options.batch_tokens * 16
        )
        return keep_answered(
            teacher.to(run.device), written, run.loader, run.device, options.batch_tokens * 5
        )

    generated = run.arrays("generated", generate)
    count = len(generated["passages"])
    run.say(f"{count:,} of {int(generated['count'][0]):,} generated questions kept")
    prior.to("cpu")
    generator.to("cpu")
    return generated


def _fit_student(
    run: QuestionRun, network: PhraseNetwork, data: Encoded, held: Encoded, weights: Any
) -> PhraseNetwork:
    options = run.options
    batches = partial(
        QuestionBatches,
        data,
        tokens=options.batch_tokens,
        epochs=options.epochs,
        seed=options.seed,
        weights=weights,
    )

    def evaluate() -> dict[str, Any]:
        return accuracy(held, answer_questions(network, held, options.density, run.device))

    def loss(batch: dict[str, torch.Tensor]) -> Loss:
        return student_loss(network, batch)

    run.fit("student", network, loss, batches, lr=options.lr, evaluate=evaluate if held.labelled() else None)
    return network


def new_quick(network: PhraseNetwork, layers: int) -> QuickQuestions:
    """A quick question encoder with the weights of the network's last layers and heads."""
    quick = QuickQuestions(network.options, 0, layers)
    own = network.encoder.layers.layers
    for at, layer in enumerate(quick.layers.layers):
        layer.load_state_dict(own[len(own) - layers + at].state_dict())
    for name in ("query", "null", "weight"):
        getattr(quick, name).load_state_dict(getattr(network, name).state_dict())
    return quick


def _fit_quick(
    run: QuestionRun, network: PhraseNetwork, quick: QuickQuestions, data: Encoded, questions: list[Any]
) -> QuickQuestions:
    """First aim at the large encoder's vectors, then at the answers."""
    options = run.options
    network.to(run.device).eval()
    for parameter in network.parameters():
        parameter.requires_grad_(False)
    alone = partial(QuestionsAlone, questions, size=_IMITATED, epochs=options.epochs, seed=options.seed)

    def imitate(batch: dict[str, torch.Tensor]) -> Loss:
        return imitation_loss(network, batch, quick)

    def answer(batch: dict[str, torch.Tensor]) -> Loss:
        return student_loss(network, batch, quick)

    run.fit("imitation", quick, imitate, alone, lr=options.lr * 2, heads=1.0)
    batches = partial(
        QuestionBatches, data, tokens=options.batch_tokens, epochs=_QUICK_EPOCHS, seed=options.seed
    )
    run.fit("quick", quick, answer, batches, lr=options.lr, heads=1.0)
    return quick


def _finish(
    run: QuestionRun,
    network: PhraseNetwork,
    quick: QuickQuestions | None,
    tokenizer: bytes,
    held: Encoded,
    absent: set[int],
    before: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Measure on held-out questions, calibrate what the reader will answer with, and write the reader."""
    options, earlier = run.options, before or {}
    density = float(earlier.pop("density", options.density))
    calibration = tuple(earlier.pop("calibration", (1.0, 0.0)))
    results: dict[str, Any] = {}
    modules: list[nn.Module] = [network, *([] if quick is None else [quick])]
    for module in modules:
        module.to(run.device)
    if held.labelled():
        own = answer_questions(network, held, density, run.device)
        results["large"] = accuracy(held, own)
        if quick is not None:
            own = answer_questions(network, held, density, run.device, quick)
            results["quick"] = accuracy(held, own)
        other = answer_questions(network, held, density, run.device, quick, other=True)
        calibration = calibrate(own, other, held, absent) or calibration
    about = {"training": options.described(), "held_out": results, **earlier}
    for module in modules:
        module.to("cpu")
    save_phrase_reader(
        options.folder, network, quick, tokenizer, about, density=density, calibration=calibration
    )
    run.say(f"{options.folder}: held-out accuracy {results}, calibration {calibration}")
    return {
        "reader": str(options.folder),
        "held_out": results,
        "calibration": list(calibration),
        "history": run.history,
    }
