"""The ridge readout against its definition in float64; sums over texts are sums of memories."""

import numpy as np
import pytest
import torch

from attar.memory.memory import solve_ridge
from attar.nn.phrases import RidgeReadout
from attar.ops.lookups import RIDGE

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


def test_memories_of_parts_add_up_to_that_of_the_whole(drawn: tuple[torch.Tensor, ...]) -> None:
    keys, values, queries = drawn
    ridge = RidgeReadout(8, K, D)
    whole, first, second = (
        ridge.write(keys[:, at], values[:, at]) for at in (slice(None), slice(4), slice(4, P))
    )
    torch.testing.assert_close(ridge.read(first + second, queries), ridge.read(whole, queries))


def test_phrases_that_do_not_count_change_nothing(drawn: tuple[torch.Tensor, ...]) -> None:
    keys, values, queries = drawn
    ridge = RidgeReadout(8, K, D)
    counted = keys.clone()
    counted[:, 5:] = 0
    some = ridge.write(keys[:, :5], values[:, :5])
    torch.testing.assert_close(ridge.read(ridge.write(counted, values), queries), ridge.read(some, queries))


def test_a_value_is_the_normalised_sum_of_its_pieces() -> None:
    ridge, words = RidgeReadout(8, K, D), torch.randn(1, 7, 8)
    (found,) = ridge.values(words, torch.tensor([[1, 3]]), torch.tensor([[2, 3]]))
    each = ridge.value(words)[0]
    torch.testing.assert_close(found[0], torch.nn.functional.normalize(each[1] + each[2], dim=0))
    torch.testing.assert_close(found[1], torch.nn.functional.normalize(each[3], dim=0))
