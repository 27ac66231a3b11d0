"""Heads turn what a readout holds into scores of a document's names."""

import math

import pytest
import torch

from attar.nn.network import AskedNames, CopyHead, PaperHead


def numbers(*shape):
    return torch.randn(*shape, dtype=torch.float64)


class TestPaperHead:
    @pytest.mark.parametrize("width", [None, 9])
    def test_scores_of_candidates_follow_the_papers_equation(self, width):
        head, readouts, queries = PaperHead(4, 7, width).double(), numbers(3, 4), numbers(3, 4)
        assert head.of_readout.weight.shape == (width or 4, 4)
        candidates = torch.tensor([[6, 0], [2, 2], [5, 1]])
        scores = head(readouts, queries, candidates)
        for q in range(3):
            W_r, W_q, b = head.of_readout.weight, head.of_query.weight, head.of_query.bias
            mixed = torch.tanh(W_r @ readouts[q] + W_q @ queries[q] + b)
            expected = head.entities.weight @ mixed + head.entities.bias
            torch.testing.assert_close(scores[q], expected[candidates[q]])

    def test_other_entities_get_no_gradient(self):
        head = PaperHead(4, 7).double()
        head(numbers(1, 4), numbers(1, 4), torch.tensor([[6, 0]])).sum().backward()
        assert head.entities.weight.grad.any(1).nonzero()[:, 0].tolist() == [0, 6]


class TestCopyHead:
    def test_initial_scores_are_the_values(self):
        held = torch.tensor([[2.0, -1.0, 0.0]])
        assert torch.equal(CopyHead()(held), held)
        torch.testing.assert_close(CopyHead(0.25)(held), held / 4)

    def test_softmax_of_shares_is_proportional_to_the_weights(self):
        held = torch.tensor([[6.0, 3.0, 1.0]])
        torch.testing.assert_close(CopyHead(shares=True)(held).softmax(1), held / 10)

    def test_a_weight_of_zero_has_a_finite_score_and_gradient(self):
        head, held = CopyHead(shares=True), torch.tensor([[0.0, 1.0]], requires_grad=True)
        scores = head(held)
        scores.logsumexp(1).sum().backward()
        assert scores.isfinite().all()
        assert scores[0, 0] < -20
        assert held.grad.isfinite().all()
        assert head.sharpness.grad.isfinite()

    @pytest.mark.parametrize("shares", [False, True])
    def test_sharpness_is_one_positive_parameter(self, shares):
        head, held = CopyHead(shares=shares), torch.rand(2, 5) + 0.1
        assert [list(parameter.shape) for parameter in head.parameters()] == [[]]
        with torch.no_grad():
            head.sharpness.fill_(-3.0)
        soft = head(held)
        assert torch.equal(soft.argsort(1), held.argsort(1))
        torch.testing.assert_close(soft, (held.log() if shares else held) * math.exp(-3))


class TestAskedNames:
    def test_the_initial_bonus_is_zero(self):
        scores = torch.randn(2, 3)
        assert torch.equal(AskedNames()(scores, torch.ones(2, 3, dtype=torch.bool)), scores)

    def test_the_bonus_is_added_to_names_in_the_question_only(self):
        module, scores = AskedNames(), torch.zeros(2, 3)
        with torch.no_grad():
            module.bonus.fill_(-2.0)
        asked = torch.tensor([[True, False, False], [False, True, True]])
        assert module(scores, asked).tolist() == [[-2.0, 0.0, 0.0], [0.0, -2.0, -2.0]]

    def test_the_bonus_gets_a_gradient_from_names_in_the_question(self):
        module = AskedNames()
        module(torch.zeros(1, 2), torch.tensor([[True, False]])).log_softmax(1)[0, 1].backward()
        assert module.bonus.grad < 0  # the answer is not the name in the question: down with it
