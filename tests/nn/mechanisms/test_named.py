"""`named` keeps one vector a name: ragged, growing with the names, extended at any split, merged by name."""

import pytest
import torch

from attar.errors import DtypeError, OptionError, ShapeError
from attar.nn.mechanisms import COPY_MECHANISMS, attention
from attar.nn.mechanisms.keyed import NamedAttention

TOLERANCE = {torch.float64: 1e-9, torch.float32: 2e-4, torch.bfloat16: 0.1}


def trained(size, **options):
    """A mechanism whose parameters are no longer where they started, in float64."""
    module = attention("named", size, **options).double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(0.5 * torch.randn_like(parameter))
    return module


def numbers(*shape, dtype=torch.float64):
    return torch.randn(*shape, dtype=torch.float64).to(dtype)


def some_names(batch, n, count):
    """Names 0 … count - 1, about one token in three; the last name occurs."""
    names = torch.randint(count, (batch, n)).masked_fill(torch.rand(batch, n) < 0.6, -1)
    names[:, 0] = count - 1
    return names


def expected_scores(module, hidden, names, queries, count):
    """C_e · q of one document, token by token in float64."""
    scores = torch.zeros(len(queries), count, dtype=torch.float64)
    for h, name in zip(hidden.double(), names.tolist(), strict=True):
        key = torch.sigmoid(module.gate.weight @ h + module.gate.bias) * (module.key.weight @ h)
        if name >= 0:
            scores[:, name] += queries.double() @ key
    return scores.detach()


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("k", [1, 3, 8])
def test_scores_of_ragged_documents_follow_the_equation(k, dtype):
    module, lengths = trained(k), [7, 0, 1, 4]
    hidden, queries = numbers(4, 7, k, dtype=dtype), numbers(4, 2, k, dtype=dtype)
    names = some_names(4, 7, 5)
    padded, padded_names = hidden.clone(), names.clone()
    for i, length in enumerate(lengths):
        padded[i, length:], padded_names[i, length:] = torch.nan, 99
    memories = module.encode(padded, lengths, names=padded_names)
    scores = module.lookup(memories, queries).detach()
    assert memories.tokens.tolist() == lengths
    assert memories.state.shape == (4, 5, k)
    assert memories.state.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert scores.dtype == dtype
    for i, length in enumerate(lengths):
        expected = expected_scores(module, hidden[i, :length], names[i, :length], queries[i], 5)
        error = (scores[i].double() - expected).abs().max()
        assert error <= TOLERANCE[dtype] * max(1.0, float(expected.abs().max())), f"{length} tokens"


def test_positive_keys_give_every_name_of_the_text_a_weight_above_0_for_positive_queries():
    module, hidden, queries = (
        trained(3, features="softplus"),
        numbers(2, 9, 3),
        torch.rand(2, 4, 3).double() + 0.1,
    )
    names = some_names(2, 9, 3)
    weights = module(hidden, queries, names=names, count=5)
    held = torch.nn.functional.one_hot(names + 1, 6).any(1)[:, 1:]
    assert torch.equal(weights > 0, held[:, None].expand_as(weights))
    assert not weights[~held[:, None].expand_as(weights)].any()


def test_only_names_are_written():
    module, names = trained(3), torch.tensor([[-1, 0, -1, 1]])
    hidden = numbers(1, 4, 3)
    changed = hidden.masked_fill((names == -1)[:, :, None], torch.nan)
    assert torch.equal(module.encode(changed, names=names).state, module.encode(hidden, names=names).state)


@pytest.mark.parametrize("split", [0, 1, 3, 6, 7])
def test_extending_at_any_split_equals_encoding_at_once(split):
    module, hidden, names = trained(4), numbers(4, 7, 4), some_names(4, 7, 3)
    names[0, 6] = 8  # one more name, at the very end
    lengths = torch.tensor([7, 0, 3, 5])
    whole = module.encode(hidden, lengths, names=names)
    first = module.encode(hidden[:, :split], lengths.clamp(max=split), names=names[:, :split])
    rest = (lengths - split).clamp(min=0)
    memories = module.extend(first, hidden[:, split:], rest, names=names[:, split:])
    assert torch.equal(memories.tokens, whole.tokens)
    assert memories.state.shape == (4, 9, 4)
    torch.testing.assert_close(memories.state, whole.state)


@pytest.mark.parametrize(("first", "second"), [(2, 5), (5, 2), (3, 3)])
def test_merging_under_one_table_of_names_equals_encoding_at_once(first, second):
    module, hidden = trained(4), numbers(2, 7, 4)
    names = torch.cat([some_names(2, 3, first), some_names(2, 4, second)], 1)
    parts = [module.encode(hidden[:, s], names=names[:, s]) for s in (slice(0, 3), slice(3, 7))]
    whole, merged = module.encode(hidden, names=names), module.merge(*parts)
    assert torch.equal(merged.tokens, whole.tokens)
    torch.testing.assert_close(merged.state, whole.state)


def test_gradients_reach_all_inputs_and_no_padding():
    module, names = trained(3, scale="sqrt"), some_names(2, 5, 3)
    hidden, queries = numbers(2, 5, 3), numbers(2, 2, 3)
    hidden[1, 2:] = torch.nan
    hidden.requires_grad_(), queries.requires_grad_()
    module(hidden, queries, [5, 2], names=names).square().sum().backward()
    for tensor in (hidden, queries, *module.parameters()):
        assert tensor.grad is not None
        assert tensor.grad.isfinite().all()
        assert tensor.grad.any()
    assert not hidden.grad[1, 2:].any()


def test_gradients_through_extend_equal_finite_differences():
    module, queries, names = trained(2), numbers(2, 1, 2), torch.tensor([[0, -1, 1], [1, 1, 2]])

    def scores(hidden):
        memories = module.encode(hidden, [3, 1], names=names)
        return module.lookup(module.extend(memories, hidden, names=names), queries)

    assert torch.autograd.gradcheck(scores, (numbers(2, 3, 2).requires_grad_(),))


def test_equals_keyed_with_one_hot_values():
    named, keyed = trained(3), attention("keyed", 3).double()
    keyed.load_state_dict(named.state_dict())
    hidden, names = numbers(2, 6, 3), some_names(2, 6, 4)
    values = torch.nn.functional.one_hot(names + 1, 5)[:, :, 1:].double()
    torch.testing.assert_close(
        named.encode(hidden, names=names).state, keyed.encode(hidden, values=values).state.mT
    )


@pytest.mark.parametrize(("scale", "power"), [(None, 0.0), ("sqrt", 0.5), ("mean", 1.0)])
def test_scale_divides_the_scores_and_not_the_memory(scale, power):
    plain, scaled = trained(3), attention("named", 3, scale=scale).double()
    scaled.load_state_dict(plain.state_dict())
    hidden, names, queries, lengths = numbers(3, 9, 3), some_names(3, 9, 4), numbers(3, 2, 3), [9, 4, 0]
    memories = scaled.encode(hidden, lengths, names=names)
    assert torch.equal(memories.state, plain.encode(hidden, lengths, names=names).state)
    expected = plain.lookup(memories, queries) / torch.tensor([9, 4, 1])[:, None, None] ** power
    torch.testing.assert_close(scaled.lookup(memories, queries), expected)


class TestSize:
    def test_follows_the_highest_name(self):
        names = torch.tensor([[-1, 6, 2]])
        assert attention("named", 3).encode(torch.randn(1, 3, 3), names=names).state.shape == (1, 7, 3)

    def test_is_the_given_count(self):
        module, hidden, names = attention("named", 3), torch.randn(1, 3, 3), torch.tensor([[-1, 1, 0]])
        memories = module.encode(hidden, names=names, count=6)
        assert memories.state.shape == (1, 6, 3)
        assert module.extend(memories, hidden, names=names).state.shape == (1, 6, 3)
        assert module.extend(memories, hidden, names=names, count=9).state.shape == (1, 9, 3)

    def test_is_zero_for_a_text_without_names(self):
        module, hidden = attention("named", 3), torch.randn(2, 4, 3)
        memories = module.encode(hidden, names=torch.full((2, 4), -1))
        assert memories.state.shape == (2, 0, 3)
        assert module.lookup(memories, torch.randn(2, 5, 3)).shape == (2, 5, 0)
        assert module.extend(memories, hidden, names=torch.ones(2, 4).long()).state.shape == (2, 2, 3)

    @pytest.mark.parametrize(("batch", "n", "m"), [(0, 4, 2), (2, 0, 2), (2, 4, 0)])
    def test_empty_dimensions_are_allowed(self, batch, n, m):
        names = torch.zeros(batch, n, dtype=torch.int64)
        hidden, queries = torch.randn(batch, n, 3), torch.randn(batch, m, 3)
        assert attention("named", 3)(hidden, queries, names=names, count=2).shape == (batch, m, 2)


def test_is_made_by_name():
    assert "named" in COPY_MECHANISMS
    assert isinstance(attention("named", 3), NamedAttention)


@pytest.mark.usefixtures("unchecked_shapes")
def test_invalid_arguments_are_refused():
    module, hidden, names = attention("named", 4), torch.zeros(2, 5, 4), torch.zeros(2, 5).long()
    memories = module.encode(hidden, names=names)
    with pytest.raises(OptionError, match=r"names: expected the name of each token \[B, n\]"):
        module.encode(hidden)
    with pytest.raises(DtypeError, match=r"names: expected whole numbers, got torch\.float32"):
        module.encode(hidden, names=names.float())
    with pytest.raises(ShapeError, match=r"names: expected \[2, 5\], got \[2, 4\]"):
        module.encode(hidden, names=names[:, :4])
    with pytest.raises(ShapeError, match="names: expected numbers from -1 up, got -2"):
        module.encode(hidden, names=names - 2)
    with pytest.raises(ShapeError, match="names: expected numbers from -1 to 2, got 3; raise count"):
        module.encode(hidden, names=names + 3, count=3)
    with pytest.raises(ShapeError, match=r"memories.tokens: expected \[3\], got \[2\]"):
        module.extend(memories, torch.zeros(3, 5, 4), names=torch.zeros(3, 5).long())
    with pytest.raises(ShapeError, match="queries: expected"):
        module.lookup(memories, torch.zeros(2, 1, 3))
