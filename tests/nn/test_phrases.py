"""Phrase networks: which spans there are, what they score, and gradients that stay finite."""

import pytest
import torch

from attar.nn.phrases import PhraseNetwork, QuickQuestions, valid_spans
from attar.options import LONGEST, PhraseOptions, TransformerShape

SHAPE = TransformerShape(vocabulary=30, size=16, layers=1, heads=2, feedforward=32, positions=32)
SENTENCES = torch.tensor([[0, 0, 0, 1, 1, 1, 2, 2, 0]])


@pytest.fixture(params=["static", "none", "hidden"])
def network(request) -> PhraseNetwork:
    return PhraseNetwork(PhraseOptions(size=8, word_size=4, match=request.param, encoder=SHAPE)).eval()


def scored(network: PhraseNetwork, inside: torch.Tensor, quick: QuickQuestions | None = None) -> torch.Tensor:
    ids, asked = torch.randint(1, 30, SENTENCES.shape), torch.randint(1, 30, (1, 5))
    texts = network.encode_texts(ids, torch.ones_like(ids, dtype=torch.bool))
    questions = network.encode_questions(asked, torch.ones_like(asked, dtype=torch.bool), quick)
    return network.score(texts, questions, SENTENCES, valid_spans(SENTENCES, inside))


def test_a_span_is_inside_one_sentence_and_not_longer_than_the_longest():
    inside = torch.tensor([[False, *[True] * 7, False]])
    valid = valid_spans(SENTENCES, inside)[0]
    spans = {(first, first + length) for first, length in valid.nonzero().tolist()}
    numbers = SENTENCES[0].tolist()
    assert spans == {(i, j) for i in range(1, 8) for j in range(i, 8) if numbers[i] == numbers[j]}
    long = torch.zeros(1, 40, dtype=torch.int64)
    assert valid_spans(long, long == 0)[0].sum(1).tolist() == [LONGEST] * 31 + list(range(9, 0, -1))


def test_a_score_is_the_sum_of_its_parts(network):
    inside = torch.tensor([[False, *[True] * 7, False]])
    torch.manual_seed(1)
    scores = scored(network, inside)[0]
    torch.manual_seed(1)
    ids, asked = torch.randint(1, 30, SENTENCES.shape), torch.randint(1, 30, (1, 5))
    texts = network.encode_texts(ids, torch.ones_like(ids, dtype=torch.bool))
    question = network.encode_questions(asked, torch.ones_like(asked, dtype=torch.bool))
    overlap = network.overlap(texts.words, question, SENTENCES)[0]
    for first, last in ((1, 2), (3, 5), (7, 7)):
        vector = texts.firsts[0, first] + texts.lasts[0, last]
        prior = texts.first_priors[0, first] + texts.last_priors[0, last] + network.length_prior[last - first]
        expected = vector @ question.queries[0] / 8**0.5 + prior + overlap[first]
        torch.testing.assert_close(scores[first, last - first], expected, rtol=1e-4, atol=1e-4)
    assert scores[0].isneginf().all()
    assert scores[2, 1].isneginf()


@pytest.mark.parametrize("quick", [False, True], ids=["document encoder", "quick questions"])
@pytest.mark.parametrize("spans", [0, 3], ids=["no span", "some spans"])
def test_gradients_are_finite_even_without_valid_spans(network, spans, quick):
    questions = QuickQuestions(network.options, shared=1, layers=1) if quick else None
    inside = torch.zeros_like(SENTENCES, dtype=torch.bool)
    inside[:, 1 : 1 + spans] = True
    scores = scored(network.train(), inside, questions)
    assert int(scores.isfinite().sum()) == (0 if not spans else 4)
    # The loss of training: a softmax over all spans and "no answer", which is always there.
    null = torch.zeros(1, 1, requires_grad=True)
    loss = -torch.cat((scores.flatten(1), null), 1).log_softmax(1)[:, -1].mean()
    loss.backward()
    assert loss.isfinite()
    for name, each in [*network.named_parameters(), *(questions.named_parameters() if questions else ())]:
        assert each.grad is None or each.grad.isfinite().all(), name


def test_padding_changes_neither_texts_nor_questions(network):
    ids = torch.randint(1, 30, (2, 9))
    mask = torch.arange(9) < torch.tensor([[9], [4]])
    quick = QuickQuestions(network.options, shared=1, layers=1).eval()
    with torch.inference_mode():
        for encode in (network.encode_texts, network.encode_questions,
                       lambda *each: network.encode_questions(*each, quick)):  # fmt: skip
            together, alone = encode(ids, mask), encode(ids[1:, :4], mask[1:, :4])
            for padded, single in zip(together, alone, strict=True):
                own = padded[1, :4] if padded.ndim > 1 and padded.shape[1] == 9 else padded[1]
                torch.testing.assert_close(own, single[0], rtol=1e-4, atol=1e-5)
