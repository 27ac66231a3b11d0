"""`keyed` writes keys with values: looked up among the values, with or without a ridge."""

import itertools

import pytest
import torch

from attar.errors import OptionError, ShapeError
from attar.nn.mechanisms import attention

from .test_mechanisms import documents, trained


@pytest.mark.parametrize("kind", ["keyed", "keyed, ridge"])
def test_gradients_equal_finite_differences(kind):
    module, queries = trained(kind, 2), documents(2, 1, 2)
    hidden, values = documents(2, 4, 2).requires_grad_(), documents(2, 4, 2).requires_grad_()
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
