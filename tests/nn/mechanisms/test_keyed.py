"""`keyed` writes keys with values: read ragged, extended at any split, merged, looked up among the values."""

import itertools

import pytest
import torch

from attar.errors import OptionError, ShapeError
from attar.nn.mechanisms import attention
from tests.ops.plain_ridge import plain_ridge

TOLERANCE = {torch.float64: 1e-9, torch.float32: 2e-4, torch.bfloat16: 0.1}


def trained(size, **options):
    """A mechanism whose parameters are no longer where they started, in float64."""
    module = attention("keyed", size, **options).double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(0.5 * torch.randn_like(parameter))
    return module


def numbers(*shape, dtype=torch.float64):
    return torch.randn(*shape, dtype=torch.float64).to(dtype)


def expected_readout(module, hidden, values, queries):
    """Σ (key_t · q) x_t of one document, or Cᵀ (G + λI)⁻¹ q with a ridge, written token by token in float64."""
    k, d = hidden.shape[1], values.shape[1]
    memory = torch.zeros(k, d + k, dtype=torch.float64)
    for h, x in zip(hidden.double(), values.double(), strict=True):
        key = module.key.weight @ h
        key = torch.sigmoid(module.gate.weight @ h + module.gate.bias) * (
            torch.nn.functional.softplus(key) if module.features else key
        )
        memory = memory + torch.outer(key, torch.cat([x, key]))
    if module.ridge:
        return plain_ridge(memory[None], queries[None].double(), module.ridge)[0].detach()
    return (queries.double() @ memory[:, :d]).detach()


with_and_without_ridge = pytest.mark.parametrize("ridge", [False, True], ids=["plain", "ridge"])


@with_and_without_ridge
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize(("k", "d"), [(1, 3), (3, 1), (8, 5)])
def test_ragged_documents_follow_the_equation(k, d, dtype, ridge):
    module, lengths = trained(k, ridge=ridge), [7, 0, 1, 4]
    hidden, values, queries = (numbers(4, n, s, dtype=dtype) for n, s in ((7, k), (7, d), (2, k)))
    padded = hidden.clone(), values.clone()
    for i, length in enumerate(lengths):
        for tensor in padded:
            tensor[i, length:] = torch.nan
    memories = module.encode(padded[0], lengths, values=padded[1])
    readout = module.lookup(memories, queries).detach()
    assert memories.tokens.tolist() == lengths
    assert memories.state.shape == (4, k, d + k if ridge else d)
    assert memories.state.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert readout.dtype == dtype
    for i, length in enumerate(lengths):
        expected = expected_readout(module, hidden[i, :length], values[i, :length], queries[i])
        error = (readout[i].double() - expected).abs().max()
        assert error <= TOLERANCE[dtype] * max(1.0, float(expected.abs().max())), f"{length} tokens"


def test_positive_keys_read_documents_as_their_equation_says():
    module = trained(4, features="softplus")
    hidden, values, queries = numbers(1, 7, 4), numbers(1, 7, 3), numbers(1, 2, 4)
    readout = module(hidden, queries, values=values).detach()
    torch.testing.assert_close(readout[0], expected_readout(module, hidden[0], values[0], queries[0]))


@with_and_without_ridge
@pytest.mark.parametrize("split", [0, 1, 3, 6, 7])
def test_extending_and_merging_at_any_split_equal_encoding_at_once(split, ridge):
    module, hidden, values = trained(4, ridge=ridge), numbers(4, 7, 4), numbers(4, 7, 3)
    lengths = torch.tensor([7, 0, 3, 5])
    rest = hidden[:, split:], (lengths - split).clamp(min=0)
    whole = module.encode(hidden, lengths, values=values)
    first = module.encode(hidden[:, :split], lengths.clamp(max=split), values=values[:, :split])
    extended = module.extend(first, *rest, values=values[:, split:])
    merged = first + module.encode(*rest, values=values[:, split:])
    for memories in (extended, merged):
        assert torch.equal(memories.tokens, whole.tokens)
        torch.testing.assert_close(memories.state, whole.state)


@with_and_without_ridge
def test_gradients_equal_finite_differences(ridge):
    module, queries = trained(2, ridge=ridge), numbers(2, 1, 2)
    hidden, values = numbers(2, 4, 2).requires_grad_(), numbers(2, 4, 2).requires_grad_()
    assert torch.autograd.gradcheck(lambda h, x: module(h, queries, [4, 2], values=x), (hidden, values))


def test_a_value_written_under_a_key_is_copied_back():
    module = attention("keyed", 3, gate_bias=50.0)  # every gate open
    with torch.no_grad():
        module.gate.weight.zero_()
        module.key.weight.copy_(torch.eye(3))
    values = torch.randn(1, 3, 5)
    torch.testing.assert_close(module(torch.eye(3)[None], torch.eye(3)[None], values=values), values)


@pytest.mark.usefixtures("unchecked_shapes")
def test_invalid_arguments_are_refused():
    module, hidden, values = attention("keyed", 4), torch.zeros(2, 5, 4), torch.zeros(2, 5, 3)
    memories = module.encode(hidden, values=values)
    with pytest.raises(OptionError, match=r"values: expected the tokens' embeddings \[B, n, d\], got none"):
        module.encode(hidden)
    with pytest.raises(ShapeError, match=r"hidden: expected \[B, n, 4\], got \[2, 5, 3\]"):
        module.encode(values, values=values)
    with pytest.raises(ShapeError, match=r"values: expected \[2, 5, 3\], got \[2, 4, 3\]"):
        module.encode(hidden, values=values[:, :4])
    with pytest.raises(ShapeError, match=r"memories.state: expected \[2, 4, 2\], got \[2, 4, 3\]"):
        module.extend(memories, hidden, values=values[:, :, :2])
    with pytest.raises(ShapeError, match=r"merge: expected memories of one size, \[4, 3\], got \[4, 2\]"):
        memories + module.encode(hidden, values=values[:, :, :2])
    with pytest.raises(
        OptionError,
        match="option of 'keyed': expected one of heads, gate_bias, scale, features, ridge, device, dtype, got span",
    ):
        attention("keyed", 3, span=1.0)


class TestRidge:
    def test_tells_similar_keys_apart(self):
        plain, ridge = (attention("keyed", 2, gate_bias=50.0, ridge=ridge) for ridge in (False, 0.01))
        with torch.no_grad():
            plain.gate.weight.zero_()
            plain.key.weight.copy_(torch.eye(2))
        ridge.load_state_dict(plain.state_dict())
        keys = torch.tensor([[[1.0, 0.0], [0.9, 0.4]]])
        found = [module(keys, keys[:, 1:], values=torch.eye(2)[None])[0, 0] for module in (plain, ridge)]
        assert found[0][0] > 0.8  # the other key's value, too
        assert abs(found[1][0]) < 0.1
        assert found[1][1] > 0.9

    @pytest.mark.usefixtures("unchecked_shapes")
    def test_invalid_arguments_are_refused(self):
        for ridge in (-1.0, float("nan"), float("inf")):
            with pytest.raises(OptionError, match="ridge: expected a number above 0, True for the default"):
                attention("keyed", 3, ridge=ridge)
        with pytest.raises(OptionError, match="scale with a ridge: expected None, got 'sqrt'; the readout"):
            attention("keyed", 3, ridge=True, scale="sqrt")

    def test_memories_of_another_ridge_are_refused(self):
        modules = {
            "'keyed'": attention("keyed", 4),
            "'keyed' with ridge 0.1": attention("keyed", 4, ridge=True),
            "'keyed' with ridge 5.0": attention("keyed", 4, ridge=5.0),
        }
        hidden, values = torch.randn(2, 5, 4), torch.randn(2, 5, 3)
        for (own, module), (given, other) in itertools.permutations(modules.items(), 2):
            memories = other.encode(hidden, values=values)
            for some in (memories, memories.prepare()):
                with pytest.raises(OptionError, match=f"^memories: expected those of {own}, got {given}$"):
                    module.lookup(some, hidden)
                with pytest.raises(OptionError, match=f"^memories: expected those of {own}, got {given}$"):
                    module.extend(some, hidden, values=values)
