"""Learning a map for search: exact gradients of the root, and questions that are told apart better afterwards."""

import numpy as np
import pytest
import torch

from attar.search.records import ReaderEncoder
from attar.search.state_map import StateMap
from attar.search.statistics import Statistics
from attar.training.questions.data import Passage, Question
from benchmarks import train_search
from benchmarks.fit_search import fit, load_map
from benchmarks.train_search import MapNetwork, Text, _Root, ranking_loss, signatures
from tests.reader.conftest import (  # noqa: F401  # fixtures
    make_tokenizer,
    piece_tokenizer,
    saved_phrases,
)

pytestmark = pytest.mark.usefixtures("unchecked_shapes")


def test_the_roots_gradient_is_that_of_differences():
    random = torch.Generator().manual_seed(0)
    states = torch.randn(2, 8, 4, dtype=torch.float64, generator=random)
    matrices, direction = states.mT @ states, torch.randn(2, 4, 4, dtype=torch.float64, generator=random)
    direction = direction + direction.mT
    matrices.requires_grad_()
    weights = torch.randn(2, 4, 4, dtype=torch.float64, generator=random)
    weights = weights + weights.mT
    (weights * _Root.apply(matrices)).sum().backward()
    near, far = (
        (weights * _Root.apply(matrices.detach() + step * direction)).sum() for step in (-1e-5, 1e-5)
    )
    # One per cent for the bound on directions in which little was written.
    assert (matrices.grad * direction).sum().item() == pytest.approx((far - near).item() / 2e-5, rel=0.05)


def test_signatures_are_those_of_search():
    points = torch.randn(9, 4, generator=torch.Generator().manual_seed(0))
    from attar.search.signatures import root_of, triangle_of

    expected = root_of((points.T @ points).numpy()[triangle_of(4)])
    made = signatures([points])[0].view(4, 4).numpy()[triangle_of(4)]
    np.testing.assert_allclose(made, expected, atol=1e-5)


def test_the_map_with_gradients_is_the_map_of_search():
    torch.manual_seed(0)
    network = MapNetwork(6, 5, 4)
    torch.nn.init.normal_(network.out.weight)
    states = torch.randn(7, 6)
    arrays = network.arrays()
    same = StateMap(arrays["linear"], arrays["hidden"], arrays["out"])
    np.testing.assert_allclose(same(states.numpy()), network(states).detach().numpy(), atol=5e-3)


def test_training_lowers_the_loss_of_ranking(monkeypatch):
    """Passages differ in some dimensions; others are noise that says nothing."""
    random = torch.Generator().manual_seed(1)
    topics = torch.randn(24, 4, generator=random)

    def text(topic: torch.Tensor, tokens: int) -> Text:
        noise = 2 * torch.randn(tokens, 12, generator=random)
        states = torch.cat((topic + 0.3 * torch.randn(tokens, 4, generator=random), noise), 1)
        return Text(torch.zeros(tokens, dtype=torch.long), states.half())

    passages, questions = [text(t, 12) for t in topics], [text(t, 5) for t in topics]
    torch.manual_seed(0)
    network, weights, scale = MapNetwork(16, 8, 6), torch.ones(1), torch.tensor(3.0)
    before = ranking_loss(network, passages, questions, weights, scale).item()
    pairs = [(question, number) for number, question in enumerate(questions)]
    monkeypatch.setattr(train_search, "RANKING_LR", 2e-2)
    train_search.rank(network, passages, pairs, weights, steps=60, batch_size=12)
    assert ranking_loss(network, passages, questions, weights, scale).item() < 0.8 * before


def test_a_map_is_learned_from_passages_and_fitted(saved_phrases, tmp_path):  # noqa: F811
    from attar.reader.phrases import PhraseReader

    encoder = ReaderEncoder(PhraseReader(saved_phrases))
    names = ("Ann", "Bob", "Lee")
    passages = [
        Passage(f"{a} met {b} in Bath.", "x", (Question(f"Who met {b}?", ()),)) for a in names for b in names
    ]
    network = train_search.train(
        encoder, encoder, passages, imitation_steps=5, steps=2, batch_size=4, size=6, hidden=5
    )
    arrays = network.arrays()
    np.savez(tmp_path / "map.npz", linear=arrays["linear"], hidden=arrays["hidden"], out=arrays["out"])
    texts = iter(passage.text for passage in passages)
    statistics = fit(encoder, texts, 1, load_map(tmp_path / "map.npz"))
    assert statistics.map.sizes == (encoder.size, 5, 6)
    assert Statistics.from_bytes(statistics.data).projection(6).size == 6
