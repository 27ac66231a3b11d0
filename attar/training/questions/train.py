"""Train a reader for real questions: the stages in order, each a file of the run's folder, and the reader at the end.

teacher → its labels → second teacher → labels of everything → prior → generator → generated questions → student →
quick question encoder → calibration. A stage whose file is there is not repeated.
"""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch

from attar.errors import OptionError
from attar.nn.phrases import PhraseNetwork, QuickQuestions, valid_spans
from attar.options import PhraseOptions
from attar.progress import Progress, ignore_progress
from attar.reader.phrase_config import POSITIONS
from attar.reader.phrases import PhraseReader
from attar.text.pieces import PieceTokenizer
from attar.training.fit import without_known_warnings
from attar.training.questions.base import Base, check_special_pieces, load_base
from attar.training.questions.batches import QuestionBatches, QuestionsAlone
from attar.training.questions.data import Passage, hold_out, read_paragraphs, read_passages, without_overlap
from attar.training.questions.encoded import Array, Encoded
from attar.training.questions.finish import calibrate_only, finish, keep_readout, load_phrases
from attar.training.questions.generation import draw_spans, keep_answered, marked_questions, write_questions
from attar.training.questions.generator import Generator, MarkedBatches
from attar.training.questions.held_out import accuracy, answer_questions
from attar.training.questions.labels import (
    TEACHER_FLOOR,
    add_generated,
    flat_scores,
    pseudo_labels,
    student_set,
    with_golds,
    with_marked_golds,
)
from attar.training.questions.options import QuestionOptions
from attar.training.questions.run import Module, QuestionRun, Say, silent
from attar.training.questions.student import (
    Loss,
    imitation_loss,
    new_quick,
    prior_loss,
    ridge_loss,
    student_loss,
)
from attar.training.questions.teacher import PairBatches, Teacher, label
from attar.training.questions.translated import with_translated_questions
from attar.training.run_folder import check_writable, lock_folder

# Learning rates and epochs that were measured once (docs/questions.md).
_TEACHER_LR, _PRIOR_LR, _READOUT_LR = 1.5e-4, 1e-4, 2e-3
_FIRST_EPOCHS, _SECOND_EPOCHS, _PRIOR_EPOCHS, _QUICK_EPOCHS = 2, 3, 2, 3
# Questions per step while the quick encoder imitates the large one.
_IMITATED = 1_024


def train_questions(
    options: QuestionOptions,
    *,
    resume: bool = False,
    replace: bool = False,
    progress: Progress = ignore_progress,
    say: Say = silent,
) -> dict[str, Any]:
    """Train a reader, write its folder, and return what is known about it: accuracy on held-out questions and so on.

    A folder with a reader or a run is refused unless `resume` continues it or `replace` starts again. Of several
    processes the main one returns what is known, the others nothing.
    """
    check_writable(options.folder)
    if torch.cuda.is_available():
        # Lengths change from step to step, which cuDNN's attention is slow at.
        torch.backends.cuda.enable_cudnn_sdp(False)
        torch.set_float32_matmul_precision("high")
    run = QuestionRun(options, progress, say)
    # Of several processes the main one locks the folder and writes; the others wait for it.
    lock = lock_folder(run.folder) if run.processes.is_main else nullcontext()
    with without_known_warnings(), run.processes.joined(), lock:
        if run.processes.is_main:
            run.begin(resume=resume, replace=replace)
        run.processes.wait()
        if options.calibrate_only:
            return calibrate_only(run, _read_data(run))
        return _fine_tune(run) if options.init else _train_new(run)


def _train_new(run: QuestionRun) -> dict[str, Any]:
    options = run.options
    passages = _read_data(run)
    base = load_base(options.base).with_fewer_pieces([each.text for each in passages], options.vocabulary)
    training, held = _read_sets(run, passages, PieceTokenizer(base.tokenizer))
    run.write_tokenizer(base.tokenizer, base.shape)

    def started(module: Module, base: Base = base) -> Module:
        module.get_submodule("encoder").load_state_dict(base.weights)
        return module

    teacher, labels, first_labels = _teach(run, lambda: started(Teacher(base.shape)), training)
    generated = None
    if options.texts:
        paragraphs = _read_paragraphs(run, PieceTokenizer(base.tokenizer), held)
        arrays = _generate(
            run,
            paragraphs,
            lambda: started(PhraseNetwork(PhraseOptions(match="none", encoder=base.shape))),
            lambda: started(Generator(base.shape)),
            training,
            first_labels,
            teacher,
        )
        generated = paragraphs, arrays
    teacher.to("cpu")

    data, weights = student_set(training, labels)
    if generated is not None:
        sure = add_generated(data, *generated)
        weights = np.concatenate([weights, sure * options.generated_weight])
    short = base.with_fewer_positions(POSITIONS)  # it reads no question with the passage
    sizes = PhraseOptions(options.size, options.word_size, options.match, options.values, short.shape)
    student = run.module(lambda: started(PhraseNetwork(sizes), short))
    network = _fit_student(run, student, data, held, weights)
    quick = None
    if options.quick_layers:
        initial = run.module(lambda: new_quick(network, options.quick_layers))
        # Generated questions are imitated; answers are learned from real ones.
        data.keep_questions(set(range(len(training.questions))))
        quick = _fit_quick(run, network, initial, data, data.questions)
    return finish(run, network, quick, base.tokenizer, held)


def _fine_tune(run: QuestionRun) -> dict[str, Any]:
    """Train a reader on, with known answers only."""
    saved = load_phrases(run.options.init)
    check_special_pieces(saved.tokenizer, run.options.init)
    if run.options.values and saved.options.values:
        came = f"a reader that has one of size {saved.options.values}"
        raise OptionError.expected(
            "values", "a reader without a readout for memories of fixed size", came, "omit it"
        )
    training, held = _read_sets(run, _read_data(run), saved.tokenizer)
    if run.options.values:
        return _add_readout(run, saved, training)
    training.keep_questions(training.absent.union(training.labelled()))
    network = _fit_student(run, saved.network, training, held, None)
    quick = saved.quick
    if quick is not None:
        questions = [training.questions[q] for q in training.labelled()]
        quick = _fit_quick(run, network, quick, training, questions)
    return finish(run, network, quick, saved.tokenizer.data, held, saved.saved)


def _add_readout(run: QuestionRun, saved: PhraseReader, training: Encoded) -> dict[str, Any]:
    """Give a reader the readout of memories of fixed size; nothing else of it changes."""
    options = run.options
    training.keep_questions(set(training.labelled()))

    def wider() -> PhraseNetwork:
        network = PhraseNetwork(replace(saved.options, values=options.values))
        missing = network.load_state_dict(saved.network.state_dict(), strict=False).missing_keys
        assert all(name.startswith("ridge.") for name in missing)
        return network.requires_grad_(requires_grad=False)

    network = run.module(wider).to(run.device).eval()
    ridge = network.ridge
    assert ridge is not None  # made above
    batches = partial(
        QuestionBatches, training, tokens=options.part_tokens, epochs=options.epochs, seed=options.seed, negatives=1
    )  # fmt: skip

    def loss(batch: dict[str, torch.Tensor]) -> Loss:
        with torch.no_grad():
            texts = network.encode_texts(batch["ids"], batch["mask"])
            questions = network.encode_questions(batch["question_ids"], batch["question_mask"])
            prior = network.priors(texts, valid_spans(batch["sentences"], batch["inside"]))
        return ridge_loss(network, batch, texts, questions, prior), {}

    run.fit("readout", ridge.requires_grad_(), loss, batches, lr=_READOUT_LR, heads=1.0)
    return keep_readout(run, network, saved)


def _read_data(run: QuestionRun) -> list[Passage]:
    """The passages of all files, but for those of the test set."""
    passages = [passage for path in run.options.data for passage in read_passages(path)]
    if run.options.exclude:
        passages = without_overlap(passages, read_passages(run.options.exclude))
    return with_translated_questions(passages)


def _read_sets(
    run: QuestionRun, passages: list[Passage], tokenizer: PieceTokenizer
) -> tuple[Encoded, Encoded]:
    """The passages to train on and the held-out ones."""
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
    tokens = run.options.part_tokens * 4 // 3
    labelled = training.labelled()
    unlabelled = [q for q, source in enumerate(training.sources) if not source.labelled]

    def fitted(name: str, data: Encoded, chosen: list[int], epochs: int, seed: int) -> Teacher:
        teacher = run.module(make)
        batches = partial(PairBatches, data, chosen, tokens=tokens, epochs=epochs, seed=seed)
        run.fit(name, teacher, lambda batch: (teacher.loss(batch), {}), batches, lr=_TEACHER_LR)
        return teacher

    found: Array = np.full((len(training.questions), 4), -1.0, np.float32)
    absent = sorted(training.absent)
    if unlabelled:
        first = fitted("first-teacher", training, [*labelled, *absent], _FIRST_EPOCHS, 1)
        found = run.arrays("first-labels", lambda: {"found": _label(run, first, training, unlabelled)[0]})[
            "found"
        ]
    golds = pseudo_labels(training, found, TEACHER_FLOOR)
    run.say(
        f"{len(golds):,} of {len(unlabelled):,} questions without an answer labelled by the first teacher"
    )
    teacher = fitted("teacher", with_golds(training, golds), [*labelled, *golds, *absent], _SECOND_EPOCHS, 2)

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
    options, tokens = run.options, run.options.part_tokens * 4 // 3
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
        epochs=options.generator_epochs,
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
        tokens=options.part_tokens,
        epochs=options.epochs,
        seed=options.seed,
        weights=weights,
    )

    def evaluate() -> dict[str, Any]:
        return accuracy(held, answer_questions(network, held, options.density, run.device))

    def loss(batch: dict[str, torch.Tensor]) -> Loss:
        return student_loss(network, batch, distillation=options.distillation)

    run.fit("student", network, loss, batches, lr=options.lr, evaluate=evaluate if held.labelled() else None)
    return network


def _fit_quick(
    run: QuestionRun, network: PhraseNetwork, quick: QuickQuestions, data: Encoded, questions: list[Any]
) -> QuickQuestions:
    """First aim at the large encoder's vectors, then at the answers."""
    options = run.options
    network.to(run.device).eval()
    for parameter in network.parameters():
        parameter.requires_grad_(False)
    size = max(1, _IMITATED // options.accumulate)
    alone = partial(QuestionsAlone, questions, size=size, epochs=options.epochs, seed=options.seed)

    def imitate(batch: dict[str, torch.Tensor]) -> Loss:
        return imitation_loss(network, batch, quick)

    def answer(batch: dict[str, torch.Tensor]) -> Loss:
        return student_loss(network, batch, quick)

    run.fit("imitation", quick, imitate, alone, lr=options.lr * 2, heads=1.0)
    batches = partial(
        QuestionBatches, data, tokens=options.part_tokens, epochs=_QUICK_EPOCHS, seed=options.seed
    )
    run.fit("quick", quick, answer, batches, lr=options.lr, heads=1.0)
    return quick
