"""Losses and labels: finite without a usable span, pseudo-labels by the teacher's word, weights of questions."""

import numpy as np
import pytest
import torch

from attar.nn.phrases import PhraseNetwork, QuickQuestions
from attar.options import LONGEST, PhraseOptions, TransformerShape
from attar.text.pieces import PieceTokenizer
from attar.training.questions.batches import Batch, QuestionBatches, QuestionsAlone
from attar.training.questions.data import Passage, Question
from attar.training.questions.encoded import Encoded, token_spans
from attar.training.questions.generator import Generator, Marked, MarkedBatches
from attar.training.questions.labels import (
    add_generated,
    flat_scores,
    pseudo_labels,
    split_scores,
    student_set,
    with_marked_golds,
)
from attar.training.questions.student import imitation_loss, prior_loss, student_loss
from attar.training.questions.teacher import PairBatches, Teacher, best_spans

TEXT = "Ann bought a red boat in Leeds. Bob bought the mill in Dover."


@pytest.fixture(scope="module")
def shape(tokenizer: PieceTokenizer) -> TransformerShape:
    return TransformerShape(len(tokenizer), 16, 1, 2, 32, 128)


@pytest.fixture(scope="module")
def network(shape: TransformerShape) -> PhraseNetwork:
    torch.manual_seed(0)
    return PhraseNetwork(PhraseOptions(8, 8, encoder=shape))


def encode(tokenizer: PieceTokenizer, *passages: Passage) -> Encoded:
    return Encoded.of(passages, tokenizer)


def asked(*answers: tuple[int, int]) -> Passage:
    return Passage(TEXT, "a", (Question("What did Ann buy?", answers),))


@pytest.fixture(scope="module")
def unusable(tokenizer: PieceTokenizer) -> Encoded:
    """Questions without an answer, with one that is longer than any span, and with one over two sentences."""
    whole = asked((0, len(TEXT) - 1))
    long = Passage("a " * 20, "b", (Question("What?", ((0, 30),)),))
    return encode(tokenizer, asked(), whole, long)


def only_batch(encoded: Encoded) -> Batch:
    batches = QuestionBatches(encoded, tokens=9_000, epochs=1, seed=0)
    assert len(batches) == 1
    return batches[0]


def assert_finite_gradients(module: torch.nn.Module, loss: torch.Tensor) -> None:
    module.zero_grad()
    loss.backward()
    assert loss.isfinite()
    for name, parameter in module.named_parameters():
        assert parameter.grad is None or parameter.grad.isfinite().all(), name


class TestQuestionsWithoutAUsableSpan:
    def test_leave_the_students_loss_finite(self, network: PhraseNetwork, unusable: Encoded) -> None:
        loss, parts = student_loss(network, only_batch(unusable))
        assert_finite_gradients(network, loss)
        assert float(parts["hard"]) == 0

    def test_leave_the_loss_of_priors_finite(self, network: PhraseNetwork, unusable: Encoded) -> None:
        loss, _ = prior_loss(network, only_batch(unusable))
        assert_finite_gradients(network, loss)
        assert float(loss.detach()) == 0

    def test_leave_the_teachers_loss_finite(self, shape: TransformerShape, unusable: Encoded) -> None:
        teacher = Teacher(shape)
        pairs = PairBatches(unusable, range(3), tokens=9_000, epochs=1, seed=0)
        assert_finite_gradients(teacher, teacher.loss(pairs[0]))

    def test_do_not_change_the_loss_of_others(
        self, network: PhraseNetwork, tokenizer: PieceTokenizer, unusable: Encoded
    ) -> None:
        network.eval()
        good = asked((11, 21))
        alone = student_loss(network, only_batch(encode(tokenizer, good)))[1]
        together = student_loss(network, only_batch(encode(tokenizer, good, *unusable.passages)))[1]
        torch.testing.assert_close(alone["hard"], together["hard"])


def test_the_quick_encoders_loss_leaves_the_network_alone(
    network: PhraseNetwork, tokenizer: PieceTokenizer
) -> None:
    network.zero_grad()
    network.requires_grad_(False)
    quick = QuickQuestions(network.options, 0, 1)
    encoded = encode(tokenizer, asked((11, 21)))
    loss = student_loss(network, only_batch(encoded), quick)[0]
    loss = (
        loss
        + imitation_loss(network, QuestionsAlone(encoded.questions, size=4, epochs=1, seed=0)[0], quick)[0]
    )
    assert_finite_gradients(quick, loss)
    assert all(parameter.grad is None for parameter in network.parameters())
    assert quick.query.weight.grad is not None
    network.requires_grad_(True)


def test_the_best_span_is_the_likeliest_pair_within_reach() -> None:
    scores = torch.full((1, 2, 16), -9.0)
    scores[0, 0, 2] = 5.0
    scores[0, 1, 4] = 4.0
    scores[0, 1, 2 + LONGEST] = 8.0  # too far from the start
    first, last, probability = best_spans(scores)
    assert (int(first), int(last)) == (2, 4)
    assert 0.9 < float(probability) < 1


class TestLabels:
    @pytest.fixture
    def marked(self, tokenizer: PieceTokenizer) -> Encoded:
        """One known answer, and three questions of unknown answer to one marked span."""
        unknown = tuple(Question(f"What did {name} buy?", labelled=False) for name in ("Ann", "Bob", "Emil"))
        spans = Passage(TEXT, "b", unknown, ((11, 21),))
        return encode(tokenizer, asked((11, 21)), spans)

    @pytest.fixture
    def found(self, marked: Encoded) -> np.ndarray:
        """The teacher's word: sure and near, sure and elsewhere, sure that there is no answer."""
        ((first, last),) = token_spans(marked.texts[1], [(11, 21)])
        return np.array(
            [
                [first, last, 0.9, 1.0],
                [first + 1, last, 0.6, 0.9],
                [last + 3, last + 3, 0.8, 0.9],
                [first, last, 0.1, 0.125],
            ]
        )

    def test_need_a_sure_teacher_and_a_marked_span(self, marked: Encoded, found: np.ndarray) -> None:
        golds = pseudo_labels(marked, found, 0.15)
        assert list(golds) == [1]
        assert golds[1].tolist() == [found[1, :2].astype(int).tolist()]
        assert pseudo_labels(marked, found, 0.7) == {}

    def test_are_weighted_by_how_sure_the_teacher_is(self, marked: Encoded, found: np.ndarray) -> None:
        for q in range(4):
            marked.soft[q] = np.full((2, len(marked.texts[0])), q, np.float16)
        chosen, weights = student_set(marked, flat_scores(marked, found))
        np.testing.assert_allclose(weights, [1, 0.6, 0, 0.875], rtol=1e-6)
        assert (chosen.of_passage, chosen.absent) == ([[0], [1, 3]], {3})
        assert [scores is not None for scores in chosen.soft] == [True, True, False, False]
        assert len(marked.golds[1]) == 0

    def test_scores_are_split_as_they_were_joined(self, marked: Encoded, found: np.ndarray) -> None:
        marked.soft = [None, np.ones((2, 3), np.float16), None, np.zeros((2, 5), np.float16)]
        again = split_scores(flat_scores(marked, found))
        assert [None if each is None else each.tolist() for each in again] == [
            None if each is None else each.tolist() for each in marked.soft
        ]

    def test_marked_spans_are_worth_asking_about(self, marked: Encoded) -> None:
        golds = with_marked_golds(marked).golds
        assert [len(gold) for gold in golds] == [1, 1, 0, 0]

    def test_generated_questions_join_with_their_paragraphs(
        self, marked: Encoded, tokenizer: PieceTokenizer
    ) -> None:
        paragraphs = encode(tokenizer, Passage("It rained.", "c"), Passage(TEXT, "d"))
        ids = [np.array([101, 5, 102], np.int32), np.array([101, 6, 7, 102], np.int32)]
        generated = {
            "passages": np.array([1, 1]),
            "spans": np.array([[1, 2, 0.5], [3, 3, 0.7]], np.float32),
            "lengths": np.array([[3, 2], [4, 3]]),
            "ids": np.concatenate(ids),
            "scores": np.arange(10).reshape(2, 5).astype(np.float16),
        }
        sure = add_generated(marked, paragraphs, generated)
        np.testing.assert_allclose(sure, [0.5, 0.7], rtol=1e-6)
        assert marked.of_passage == [[0], [1, 2, 3], [], [4, 5]]
        assert [question.tolist() for question in marked.questions[4:]] == [each.tolist() for each in ids]
        assert marked.soft[5] is not None
        assert marked.soft[5].tolist() == [[2, 3, 4], [7, 8, 9]]
        assert marked.golds[4].tolist() == [[1, 2]]


def test_a_generator_learns_and_writes(shape: TransformerShape, tokenizer: PieceTokenizer) -> None:
    encoded = encode(tokenizer, asked((11, 21)))
    first, last = encoded.golds[0][0].tolist()
    torch.manual_seed(0)
    generator = Generator(shape, layers=1)
    item = Marked(0, first, last, encoded.questions[0])
    texts = [text.ids for text in encoded.texts]
    batch = MarkedBatches(texts, [item], tokens=192, epochs=1, seed=0)[0]
    assert batch["types"].sum() == last - first + 1
    assert_finite_gradients(generator, generator.loss(batch))
    plain = MarkedBatches(texts, [item._replace(question=None)], tokens=192, epochs=1, seed=0)[0]
    assert "question_ids" not in plain
    written = generator.generate(plain)
    assert written[0, 0] == 101
