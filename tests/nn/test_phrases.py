"""Phrase networks: which spans there are, what they score, finite gradients, and the ridge against its definition."""

import numpy as np
import pytest
import torch

from attar.memory.memory import solve_ridge
from attar.nn.phrases import PhraseNetwork, QuickQuestions, RidgeReadout, valid_spans
from attar.ops.lookups import RIDGE
from attar.options import LONGEST, PhraseOptions, TransformerShape

SHAPE = TransformerShape(vocabulary=30, size=16, layers=1, heads=2, feedforward=32, positions=32)
SENTENCES = torch.tensor([[0, 0, 0, 1, 1, 1, 2, 2, 0]])


@pytest.fixture
def network() -> PhraseNetwork:
    return PhraseNetwork(PhraseOptions(size=8, word_size=4, encoder=SHAPE)).eval()


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
        prior = texts.priors[0, first, 0] + texts.priors[0, last, 1] + network.length_prior[last - first]
        expected = vector @ question.queries[0] / 8**0.5 + prior + overlap[first]
        torch.testing.assert_close(scores[first, last - first], expected, rtol=1e-4, atol=1e-4)
    assert scores[0].isneginf().all()
    assert scores[2, 1].isneginf()


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


K, D, P = 6, 5, 9


def reference(keys: np.ndarray, values: np.ndarray, query: np.ndarray) -> np.ndarray:
    """Cᵀ (G + λI)⁻¹ q, written out phrase by phrase."""
    C, G = np.zeros((K, D)), np.zeros((K, K))
    for key, value in zip(keys, values, strict=True):
        C += np.outer(key, value)
        G += np.outer(key, key)
    return C.T @ np.linalg.inv(G + RIDGE * np.trace(G) / K * np.eye(K)) @ query


@pytest.fixture
def drawn() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    made = torch.Generator().manual_seed(0)
    keys, values, queries = (torch.randn(2, *shape, generator=made) for shape in ((P, K), (P, D), (K,)))
    return torch.nn.functional.normalize(keys, dim=-1), values, queries


def test_agrees_with_its_definition(drawn: tuple[torch.Tensor, ...]) -> None:
    keys, values, queries = drawn
    ridge = RidgeReadout(8, K, D)
    found = ridge.read(ridge.write(keys, values), queries)
    asked = ridge.query(queries).detach().double().numpy()
    for row in range(2):
        expected = reference(keys[row].double().numpy(), values[row].double().numpy(), asked[row])
        np.testing.assert_allclose(found[row].detach().numpy(), expected, rtol=1e-4, atol=1e-5)


def test_a_memory_reads_the_same(drawn: tuple[torch.Tensor, ...]) -> None:
    keys, values, queries = drawn
    both = RidgeReadout(8, K, D).write(keys, values)[0].numpy()
    expected = reference(keys[0].double().numpy(), values[0].double().numpy(), queries[0].double().numpy())
    np.testing.assert_allclose((queries[:1].numpy() @ solve_ridge(both))[0], expected, rtol=1e-4, atol=1e-5)
    assert not solve_ridge(np.zeros_like(both)).any()
