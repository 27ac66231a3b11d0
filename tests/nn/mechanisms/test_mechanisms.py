"""All mechanisms: encode, extend at any split, and look up, with any lengths."""

import operator
from functools import partial

import pytest
import torch

from attar.errors import DeviceError, DtypeError, OptionError, ShapeError
from attar.nn.mechanisms import attention
from attar.ops import reference
from tests.ops.plain_ridge import plain_ridge

MATRIX = ("linear", "gated", "decayed", "adaptive")
SUMS = ("linear", "gated", "decayed", "keyed", "keyed, ridge")
OPTIONS = {"keyed, ridge": {"ridge": True}, "keyed, softplus": {"features": "softplus"}}
KINDS = ("none", "softmax", *MATRIX, "keyed", *OPTIONS)
DTYPES = [torch.float64, torch.float32, torch.bfloat16]
TOLERANCE = {torch.float64: 1e-9, torch.float32: 2e-4, torch.bfloat16: 0.1}


def trained(kind, size, **options):
    """A mechanism whose parameters are no longer where they started, in float64."""
    module = attention(kind.partition(",")[0], size, **OPTIONS.get(kind, {}), **options).double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(0.5 * torch.randn_like(parameter))
    return module


def documents(batch, n, k, dtype=torch.float64):
    return torch.randn(batch, n, k, dtype=torch.float64).to(dtype)


def written(module, hidden):
    """What a mechanism with values is given beside the states: one number more per token."""
    return {"values": torch.cat([hidden.flip(-1), hidden[..., :1]], -1)} if module.name == "keyed" else {}


def expected_readout(module, hidden, queries):
    """The readout of one document `[n, k]`, from the reference's loops in float64."""
    H, q = hidden[None].double(), queries[None].double()
    if module.name == "keyed":
        keys = H @ module.key.weight.T
        keys = torch.nn.functional.softplus(keys) if module.features else keys
        keys = torch.sigmoid(H @ module.gate.weight.T + module.gate.bias) * keys
        C = keys.mT @ torch.cat([written(module, H)["values"], keys], 2)
        return plain_ridge(C, q, module.ridge)[0] if module.ridge else (q @ C[:, :, : H.shape[2] + 1])[0]
    if module.name == "none":
        return (H[:, -1] if H.shape[1] else torch.zeros_like(q[:, 0]))[:, None].expand_as(q)[0]
    if module.name == "softmax":
        return reference.softmax_lookup(H, q)[0]
    f, alpha, beta = H, None, None
    if module.name != "linear":
        f = torch.sigmoid(H @ module.gate.weight.T + module.gate.bias) * H
    if module.name == "adaptive":
        keep = module.keep_and_write

        def cell(h, f, reading):
            squashed = reading / torch.sqrt(1 + reading.square().mean(-1, keepdim=True))
            energy = (f * reading).sum(-1) / f.square().sum(-1).square()
            read = squashed @ module.read_weight.T + (energy / (1 + energy))[:, None] * module.energy_weight
            gates = torch.sigmoid(h @ keep.weight.T + read + keep.bias)
            return gates[:, 0], gates[:, 1]

        return reference.lookup(reference.encode_adaptive(H, f, cell), q)[0]
    if module.name == "decayed":
        alpha, beta = torch.sigmoid(module.keep_and_write(H)).unbind(-1)
    return reference.lookup(reference.encode(f, alpha, beta), q)[0]


@pytest.mark.parametrize("name", KINDS)
class TestEveryMechanism:
    @pytest.mark.parametrize("dtype", DTYPES, ids=str)
    @pytest.mark.parametrize("k", [1, 3, 8])
    def test_ragged_documents_follow_the_equations(self, name, k, dtype):
        module, lengths = trained(name, k), [7, 0, 1, 4]
        hidden, queries = documents(4, 7, k, dtype), documents(4, 2, k, dtype)
        padded = hidden.clone()
        for row, length in zip(padded, lengths, strict=True):
            row[length:] = torch.nan
        memories = module.encode(padded, lengths, **written(module, padded))
        readout = module.lookup(memories, queries).detach()
        assert memories.tokens.tolist() == lengths
        if module.name == "keyed":
            assert memories.state.shape == (4, k, k + 1 + (k if module.ridge else 0))
            assert memories.state.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
        assert readout.dtype == dtype
        for i, length in enumerate(lengths):
            expected = expected_readout(module, hidden[i, :length], queries[i]).detach()
            scale = max(1.0, float(expected.abs().max()))
            error = (readout[i].double() - expected).abs().max()
            assert error <= TOLERANCE[dtype] * scale, f"document of {length} tokens"

    @pytest.mark.parametrize("split", [0, 1, 3, 6, 7])
    def test_extending_at_any_split_equals_encoding_at_once(self, name, split):
        module, hidden, queries = trained(name, 5), documents(4, 7, 5), documents(4, 2, 5)
        lengths = torch.tensor([7, 0, 3, 5])
        first, rest = lengths.clamp(max=split), (lengths - split).clamp(min=0)
        whole = module.encode(hidden, lengths, **written(module, hidden))
        before, after = hidden[:, :split], hidden[:, split:]
        memories = module.encode(before, first, **written(module, before))
        memories = module.extend(memories, after, rest, **written(module, after))
        assert torch.equal(memories.tokens, whole.tokens)
        torch.testing.assert_close(module.lookup(memories, queries), module.lookup(whole, queries))

    def test_extends_each_document_after_its_own_last_token(self, name):
        module, queries = trained(name, 3), documents(2, 1, 3)
        first, second = documents(2, 3, 3), documents(2, 2, 3)
        memories = module.encode(first, [1, 3], **written(module, first))
        memories = module.extend(memories, second, [2, 1], **written(module, second))
        for i, (a, b) in enumerate(((1, 2), (3, 1))):
            joined = torch.cat([first[i, :a], second[i, :b]])
            expected = expected_readout(module, joined, queries[i])
            torch.testing.assert_close(module.lookup(memories, queries)[i], expected)

    def test_gradients_reach_the_states_the_queries_and_every_parameter(self, name):
        options = {} if name in ("none", "softmax", "keyed, ridge") else {"scale": "sqrt"}
        module, hidden, queries = trained(name, 4, **options), documents(2, 5, 4), documents(2, 3, 4)
        hidden.requires_grad_(), queries.requires_grad_()
        given = written(module, hidden)
        memories = module.extend(module.encode(hidden, [5, 2], **given), hidden, [1, 3], **given)
        module.lookup(memories, queries).square().sum().backward()
        wanted = {"hidden": hidden, **dict(module.named_parameters())}
        if name != "none":
            wanted["queries"] = queries
        for what, tensor in wanted.items():
            assert tensor.grad is not None, what
            assert tensor.grad.isfinite().all(), what
            assert tensor.grad.any(), what

    @pytest.mark.usefixtures("unchecked_shapes")
    def test_invalid_arguments_are_refused(self, name):
        module, hidden = trained(name, 4).float(), torch.zeros(2, 5, 4)
        given = written(module, hidden)
        memories = module.encode(hidden, **given)
        with pytest.raises(ShapeError, match=r"hidden: expected \[B, n, 4\], got \[2, 5, 3\]"):
            module.encode(torch.zeros(2, 5, 3), **given)
        with pytest.raises(DtypeError, match="hidden: expected floating-point"):
            module.encode(hidden.long(), **given)
        with pytest.raises(ShapeError, match="lengths: expected numbers from 0 to 5, got 6"):
            module.encode(hidden, [6, 0], **given)
        with pytest.raises(ShapeError, match=r"lengths: expected \[2\]"):
            module.extend(memories, hidden, [1], **given)
        with pytest.raises(ShapeError, match=r"memories.tokens: expected \[3\], got \[2\]"):
            module.extend(memories, torch.zeros(3, 5, 4), **written(module, torch.zeros(3, 5, 4)))
        with pytest.raises(
            DeviceError, match=r"^memories: expected a tensor on cpu, got meta; call memories\.to"
        ):
            module.extend(memories.to("meta"), hidden, **given)
        for other in (trained(name, 2).float(), trained(name, 8).float()):
            states = torch.zeros(2, 5, other.size)
            foreign = other.encode(states, **written(other, states))
            for use in (module.lookup, partial(module.extend, **given)):
                with pytest.raises(
                    ShapeError, match=r"^memories: expected those of size 4, got a state \[2, "
                ):
                    use(foreign, hidden)
        with pytest.raises(DtypeError, match=r"^memories: expected Memories, got Tensor; encode makes them$"):
            module.lookup(memories.state, hidden)
        with pytest.raises(ShapeError, match="queries: expected"):
            module.lookup(memories, torch.zeros(2, 1, 3))
        with pytest.raises(ShapeError, match="queries: expected"):
            module.lookup(memories, torch.zeros(3, 1, 4))


@pytest.mark.parametrize("name", ["none", "softmax", *SUMS])
def test_merging_equals_encoding_at_once(name):
    module, queries = trained(name, 3), documents(3, 2, 3)
    first, second = documents(3, 4, 3), documents(3, 6, 3)
    before = module.encode(first, [4, 0, 2], **written(module, first))
    merged = before + module.encode(second, [6, 3, 0], **written(module, second))
    whole = module.extend(before, second, [6, 3, 0], **written(module, second))
    assert torch.equal(merged.tokens, whole.tokens)
    torch.testing.assert_close(module.lookup(merged, queries), module.lookup(whole, queries))


def test_gates_that_read_the_memory_refuse_to_merge():
    module = attention("adaptive", 3)
    memories = module.encode(torch.randn(1, 2, 3))
    for combine in (operator.add, operator.sub):
        with pytest.raises(OptionError, match=r"got 'adaptive'"):
            combine(memories, memories)


@pytest.mark.parametrize("name", MATRIX)
class TestScale:
    @pytest.mark.parametrize(("scale", "power"), [(None, 0.0), ("sqrt", 0.5), ("mean", 1.0)])
    def test_divides_the_readout_and_not_the_memory(self, name, scale, power):
        plain = trained(name, 3)
        scaled = attention(name, 3, scale=scale).double()
        scaled.load_state_dict(plain.state_dict())
        hidden, queries, lengths = documents(3, 9, 3), documents(3, 2, 3), [9, 4, 0]
        assert torch.equal(scaled.encode(hidden, lengths).state, plain.encode(hidden, lengths).state)
        expected = plain(hidden, queries, lengths) / torch.tensor([9, 4, 1])[:, None, None] ** power
        torch.testing.assert_close(scaled(hidden, queries, lengths), expected)


class TestGates:
    @pytest.mark.parametrize("name", ["decayed", "adaptive"])
    def test_starts_with_a_memory_of_span_tokens(self, name):
        module = attention(name, 1, span=50.0)
        first = torch.zeros(1, 51, 1)
        first[0, 0] = 1.0
        kept = (module.encode(first).state / module.encode(first[:, :1]).state).detach()
        assert float(kept) == pytest.approx((50 / 51) ** 50, rel=1e-4)


class TestMaking:
    @pytest.mark.usefixtures("unchecked_shapes")
    @pytest.mark.parametrize(
        ("name", "size", "options", "says"),
        [
            ("linaer", 3, {}, "mechanism: expected one of none, softmax, linear, .* got 'linaer'"),
            ("linear", 0, {}, "size: expected a whole number from 1 up, got 0"),
            (
                "linear",
                3,
                {"span": 9},
                "option of 'linear': expected one of heads, scale, backend, device, dtype, got span",
            ),
            ("gated", 3, {"scale": "cube"}, "scale: expected None, 'sqrt' or 'mean', got 'cube'"),
            ("decayed", 3, {"span": 0.0}, "span: expected a number of tokens above 0"),
            ("adaptive", 3, {"backward": "guess"}, "backward: expected 'checkpoint' or 'invert'"),
        ],
    )
    def test_invalid_options_are_refused(self, name, size, options, says):
        with pytest.raises(OptionError, match=says):
            attention(name, size, **options)
