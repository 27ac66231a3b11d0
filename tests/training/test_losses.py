"""Losses and labels: finite without a usable span, pseudo-labels by the teacher's word, weights of questions."""

import numpy as np
import pytest
import torch

from attar.nn.phrases import PhraseNetwork, QuickQuestions
from attar.nn.spans import SpanNetwork
from attar.nn.transformer import Transformer
from attar.options import PhraseOptions, TransformerShape
from attar.reader.windows import PieceTokenizer
from attar.training.batches import Batch, QuestionBatches, QuestionsAlone, QuestionSet, token_spans
from attar.training.data import Passage, PassageQuestion
from attar.training.student import imitation_loss, student_loss, student_set
from attar.training.teacher import PairBatches, TeacherLabels, pseudo_labels, teacher_loss

TEXT = "Ann bought a red boat in Leeds. Bob bought the mill in Dover."


@pytest.fixture(scope="module")
def shape(tokenizer: PieceTokenizer) -> TransformerShape:
    return TransformerShape(len(tokenizer), 16, 1, 2, 32, 128)


@pytest.fixture(scope="module")
def network(shape: TransformerShape) -> PhraseNetwork:
    torch.manual_seed(0)
    return PhraseNetwork(PhraseOptions(8, 8, encoder=shape))


def encode(tokenizer: PieceTokenizer, *passages: Passage) -> QuestionSet:
    return QuestionSet.of(passages, tokenizer)


def asked(*answers: tuple[int, int]) -> Passage:
    return Passage(TEXT, "a", (PassageQuestion("What did Ann buy?", answers),))


@pytest.fixture(scope="module")
def unusable(tokenizer: PieceTokenizer) -> QuestionSet:
    """Questions without an answer, with one that is longer than any span, and with one over two sentences."""
    whole = asked((0, len(TEXT) - 1))
    long = Passage("a " * 20, "b", (PassageQuestion("What?", ((0, 30),)),))
    return encode(tokenizer, asked(), whole, long)


def only_batch(encoded: QuestionSet) -> Batch:
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
    def test_leave_the_students_loss_finite(self, network: PhraseNetwork, unusable: QuestionSet) -> None:
        loss, parts = student_loss(network, only_batch(unusable))
        assert_finite_gradients(network, loss)
        assert float(parts["hard"]) == 0

    def test_leave_the_teachers_loss_finite(self, shape: TransformerShape, unusable: QuestionSet) -> None:
        teacher = SpanNetwork(Transformer(shape))
        pairs = PairBatches(unusable, range(3), tokens=9_000, epochs=1, seed=0)
        assert_finite_gradients(teacher, teacher_loss(teacher, pairs[0])[0])


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


class TestLabels:
    @pytest.fixture
    def marked(self, tokenizer: PieceTokenizer) -> QuestionSet:
        """One known answer, and three questions of unknown answer to one marked span."""
        unknown = tuple(
            PassageQuestion(f"What did {name} buy?", labelled=False) for name in ("Ann", "Bob", "Emil")
        )
        spans = Passage(TEXT, "b", unknown, ((11, 21),))
        return encode(tokenizer, asked((11, 21)), spans)

    @pytest.fixture
    def labels(self, marked: QuestionSet) -> TeacherLabels:
        """The teacher's word: sure and near, sure and elsewhere, sure that there is no answer."""
        ((first, last),) = token_spans(marked.texts[1], [(11, 21)])
        return TeacherLabels(
            np.array([first, first + 1, last + 3, first]),
            np.array([last, last, last + 3, last]),
            probability=np.array([0.9, 0.6, 0.8, 0.1]),
            present=np.array([1.0, 0.9, 0.9, 0.125]),
            scores=[np.full((2, len(marked.texts[0])), q, np.float16) for q in range(4)],
        )

    def test_need_a_sure_teacher_and_a_marked_span(self, marked: QuestionSet, labels: TeacherLabels) -> None:
        golds = pseudo_labels(marked, labels, 0.15)
        assert list(golds) == [1]
        assert golds[1].tolist() == [[labels.first[1], labels.last[1]]]
        assert pseudo_labels(marked, labels, 0.7) == {}

    def test_are_weighted_by_how_sure_the_teacher_is(
        self, marked: QuestionSet, labels: TeacherLabels
    ) -> None:
        chosen, weights = student_set(marked, labels)
        np.testing.assert_allclose(weights, [1, 0.6, 0, 0.875], rtol=1e-6)
        assert (chosen.of_passage, chosen.absent) == ([[0], [1, 3]], {3})
        assert [scores is not None for scores in chosen.soft] == [True, True, False, False]
        assert len(marked.golds[1]) == 0
