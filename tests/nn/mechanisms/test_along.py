"""lookup_along of every mechanism that has it: the same as extending by one token and looking up, again and again."""

import pytest
import torch

from attar.errors import OptionError
from attar.nn.mechanisms import attention

from .test_mechanisms import trained

SIZE = 6


def values_for(module, hidden):
    return {"values": hidden.flip(2)} if module.name == "keyed" else {}


def token_by_token(module, hidden, queries, memories=None):
    readouts = []
    for t in range(hidden.shape[1]):
        h = hidden[:, t : t + 1]
        memories = (
            module.encode(h, **values_for(module, h))
            if memories is None
            else module.extend(memories, h, **values_for(module, h))
        )
        readouts.append(module.lookup(memories, queries[:, t : t + 1]))
    return torch.cat(readouts, 1)


@pytest.mark.parametrize("scale", [None, "sqrt"])
@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("name", ["linear", "gated", "decayed", "keyed"])
class TestLookupAlong:
    def test_equals_extending_token_by_token(self, name, heads, scale):
        module = trained(name, SIZE, heads=heads, scale=scale)
        hidden, queries = torch.randn(2, 70, SIZE).double(), torch.randn(2, 70, SIZE).double()
        found = module.lookup_along(hidden, queries, **values_for(module, hidden))
        torch.testing.assert_close(found, token_by_token(module, hidden, queries), rtol=1e-10, atol=1e-10)

    def test_continues_from_memories(self, name, heads, scale):
        module = trained(name, SIZE, heads=heads, scale=scale)
        hidden, queries = torch.randn(2, 9, SIZE).double(), torch.randn(2, 9, SIZE).double()
        first = module.encode(hidden[:, :4], **values_for(module, hidden[:, :4]))
        rest = hidden[:, 4:]
        found = module.lookup_along(rest, queries[:, 4:], memories=first, **values_for(module, rest))
        whole = module.lookup_along(hidden, queries, **values_for(module, hidden))
        torch.testing.assert_close(found, whole[:, 4:])

    def test_packed_sequences_equal_padded_ones(self, name, heads, scale):
        module, lengths = trained(name, SIZE, heads=heads, scale=scale), [5, 1, 0, 8]
        hidden, queries = torch.randn(4, 8, SIZE).double(), torch.randn(4, 8, SIZE).double()
        inside = torch.arange(8) < torch.tensor(lengths)[:, None]
        padded = hidden.masked_fill(~inside[..., None], torch.nan)
        found = module.lookup_along(padded, queries, lengths, **values_for(module, padded))
        packed = hidden[inside][None], queries[inside][None]
        places = torch.tensor([0, 5, 6, 6, 14])
        along = module.lookup_along(*packed, cu_seqlens=places, **values_for(module, packed[0]))
        torch.testing.assert_close(along[0], found[inside])
        assert not found[~inside].any()


@pytest.mark.parametrize("name", ["linear", "gated", "decayed"])
def test_vmap_of_grad_along_is_the_gradient_of_each(name):
    module, several = trained(name, SIZE), torch.randn(3, 60, SIZE).double()

    def loss(hidden):
        return module.lookup_along(hidden[None], hidden[None], [55]).square().sum()

    expected = torch.stack([torch.func.grad(loss)(hidden) for hidden in several])
    torch.testing.assert_close(torch.func.vmap(torch.func.grad(loss))(several), expected)


@pytest.mark.parametrize(
    ("module", "says"),
    [
        (
            attention("adaptive", SIZE),
            "a mechanism whose gates do not read the memory, got 'adaptive'; extend token",
        ),
        (attention("keyed", SIZE, ridge=True), r"keyed without a ridge, got ridge=0\.1"),
        (attention("softmax", SIZE), "linear, gated, decayed or keyed, got 'softmax'$"),
        (attention("none", SIZE), "linear, gated, decayed or keyed, got 'none'$"),
    ],
    ids=["adaptive", "ridge", "softmax", "none"],
)
def test_others_refuse(module, says):
    x = torch.zeros(1, 2, SIZE)
    with pytest.raises(OptionError, match=f"^lookup_along: expected {says}"):
        module.lookup_along(x, x)


@pytest.mark.parametrize("scale", ["sqrt", "mean"])
def test_what_is_too_large_for_half_precision_is_divided_first(scale):
    module, hidden = attention("linear", 2, scale=scale), torch.full((1, 2000, 2), 8.0, dtype=torch.float16)
    queries = hidden / 16
    along = module.lookup_along(hidden, queries)
    assert along.isfinite().all()
    torch.testing.assert_close(along[:, -1:], module.lookup(module.encode(hidden), queries[:, -1:]))
