"""The layer: projections around a mechanism; encode once, look up many times."""

import pytest
import torch
from torch import nn

from attar.errors import OptionError, ShapeError
from attar.nn import Memories, MemoryAttention

SIZE, HEADS = 6, 2
NAMES = ("none", "softmax", "linear", "gated", "decayed", "adaptive", "keyed")
CAUSAL = ("linear", "gated", "decayed", "keyed")


def layer(name="keyed", **options):
    return MemoryAttention(SIZE, HEADS, name, **options).double()


def inputs(batch=2, n=7, m=3, source_size=SIZE):
    return torch.randn(batch, m, SIZE).double(), torch.randn(batch, n, source_size).double()


@pytest.mark.parametrize("name", NAMES)
class TestEveryMechanism:
    def test_encoding_once_equals_reading_each_time(self, name):
        module, (queries, source) = layer(name), inputs()
        memories = module.encode(source, [7, 4])
        assert isinstance(memories, Memories)
        torch.testing.assert_close(module.lookup(memories, queries), module(queries, source, [7, 4]))
        assert module(queries, source).shape == queries.shape

    def test_extending_equals_encoding_at_once(self, name):
        module, (queries, source) = layer(name), inputs()
        memories = module.extend(module.encode(source[:, :3]), source[:, 3:])
        torch.testing.assert_close(module.lookup(memories, queries), module(queries, source))

    def test_sources_may_have_another_size(self, name):
        module, (queries, source) = layer(name, source_size=5), inputs(source_size=5)
        assert module(queries, source).shape == queries.shape

    def test_padding_reaches_no_value_and_no_gradient(self, name):
        module, (queries, source), results = layer(name), inputs(), []
        for filled in (0.0, torch.nan):
            padded = source.clone()
            padded[1, 4:] = filled
            value = module(queries, padded.requires_grad_(), [7, 4])
            wanted = padded, *module.parameters()
            grads = torch.autograd.grad(
                value.square().sum(), wanted, allow_unused=True, materialize_grads=True
            )
            results.append([value, *grads])
        for clean, found in zip(*results, strict=True):
            torch.testing.assert_close(found, clean)

    def test_every_parameter_learns(self, name):
        module, (queries, source) = layer(name), inputs()
        module(queries, source).square().sum().backward()
        unused = (
            {"query.weight", "query.bias"} if name == "none" else {"key.bias"} if name == "softmax" else set()
        )
        for what, parameter in module.named_parameters():
            assert what in unused or parameter.grad.any(), what

    def test_parameters_are_made_on_the_device_and_reset(self, name):
        module = MemoryAttention(SIZE, HEADS, name, normalize=True, device="meta")
        assert all(parameter.is_meta for parameter in module.parameters())
        module = module.to_empty(device="cpu")
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.fill_(torch.nan)
        module.reset_parameters()
        assert all(parameter.isfinite().all() for parameter in module.parameters())


def test_keyed_is_linear_attention_with_keys_and_values():
    module, (queries, source) = layer(gate_bias=50.0, scale=None), inputs()
    keys, values, asked = module.mechanism.key(source), module.value(source), module.query(queries)
    heads = [
        torch.einsum("bmk,bnk,bnd->bmd", *(x[..., part] for x in (asked, keys, values)))
        for part in (slice(0, 3), slice(3, 6))
    ]
    torch.testing.assert_close(
        module(queries, source), module.output(torch.cat(heads, -1)), rtol=1e-6, atol=1e-8
    )


def test_softmax_is_that_of_multihead_attention():
    module, (queries, source) = layer("softmax"), inputs()
    other = nn.MultiheadAttention(SIZE, HEADS, batch_first=True).double()
    with torch.no_grad():
        other.in_proj_weight.copy_(torch.cat([p.weight for p in (module.query, module.key, module.key)]))
        other.in_proj_bias.copy_(torch.cat([p.bias for p in (module.query, module.key, module.key)]))
        other.out_proj.load_state_dict(module.output.state_dict())
    torch.testing.assert_close(module(queries, source), other(queries, source, source)[0])


def test_normalized_readouts_do_not_depend_on_the_scale():
    module, (queries, source) = layer("linear", normalize=True, bias=False), inputs()
    torch.testing.assert_close(module(queries, source), module(queries, 100 * source), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", CAUSAL)
def test_causal_attention_equals_reading_token_by_token(name):
    module, (_, x) = layer(name), inputs()
    memories, readouts = None, []
    for t in range(7):
        token = x[:, t : t + 1]
        memories = module.encode(token) if memories is None else module.extend(memories, token)
        readouts.append(module.lookup(memories, token))
    torch.testing.assert_close(module.lookup_along(x), torch.cat(readouts, 1))
    rest = module.lookup_along(x[:, 3:], memories=module.encode(x[:, :3]))
    torch.testing.assert_close(rest, torch.cat(readouts[3:], 1))


@pytest.mark.usefixtures("unchecked_shapes")
def test_mistakes_are_one_line():
    with pytest.raises(OptionError, match=r"^heads: expected a number that divides the size, 6, got 4$"):
        MemoryAttention(6, 4)
    with pytest.raises(
        OptionError, match=r"^features: expected 'softplus', 'elu', 'relu' or None, got 'cube'$"
    ):
        MemoryAttention(6, 2, features="cube")
    with pytest.raises(OptionError, match=r"^option of 'linear': .* got span$"):
        MemoryAttention(6, 2, "linear", span=3.0)
    with pytest.raises(ShapeError, match=r"^queries: expected \[…, 6\], got \[1, 2, 5\]$"):
        MemoryAttention(6)(torch.zeros(1, 2, 5), torch.zeros(1, 2, 6))
    with pytest.raises(ShapeError, match=r"^source: expected \[B, n, 6\], got \[1, 2, 5\]$"):
        MemoryAttention(6, 2).encode(torch.zeros(1, 2, 5))
    for name in ("softmax", "adaptive"):
        with pytest.raises(OptionError, match=r"^lookup_along: expected .*, got '"):
            MemoryAttention(6, 2, name).lookup_along(torch.zeros(1, 2, 6))


def test_goes_to_the_hub_and_comes_back(tmp_path):
    hub = pytest.importorskip("huggingface_hub")

    class Layer(hub.PyTorchModelHubMixin, MemoryAttention):
        pass

    layer, (queries, source) = Layer(SIZE, HEADS, mechanism="keyed", ridge=True), inputs()
    layer.save_pretrained(tmp_path)
    loaded = Layer.from_pretrained(tmp_path, local_files_only=True)
    queries, source = queries.float(), source.float()
    torch.testing.assert_close(loaded(queries, source), layer(queries, source))
