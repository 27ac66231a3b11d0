"""Every mechanism under torch.func, in forward mode and on the meta device; padding in gradients."""

import pytest
import torch
from torch.autograd import forward_ad
from torch.func import grad, hessian, jvp, vmap

from attar.nn.mechanisms import attention

# Of torch itself, when it differentiates forward for the first time.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")

SIZE = 4
MECHANISMS = ("none", "softmax", "linear", "gated", "decayed", "adaptive", "keyed")
KINDS = {name: {} for name in MECHANISMS} | {
    "keyed, ridge": {"ridge": True},
    "gated, heads": {"heads": 2},
    "decayed, heads": {"heads": 2},
    "adaptive, heads": {"heads": 2},
    "adaptive, gate reads": {"gate_reads": True},
}
every_kind = pytest.mark.parametrize("kind", KINDS)


def made(kind, **options):
    """A mechanism whose parameters are no longer where they started, in float64."""
    module = attention(kind.partition(",")[0], SIZE, **KINDS[kind], **options)
    if "device" not in options:
        module = module.double()
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.copy_(0.5 * torch.randn_like(parameter))
    return module


def loss_of(module, queries, lengths=None):
    def loss(hidden):
        written = {"values": 2 * hidden} if module.name == "keyed" else {}
        return module(hidden, queries, lengths, **written).square().sum()

    return loss


def inputs():
    return torch.randn(2, 5, SIZE).double(), torch.randn(2, 3, SIZE).double()


def slopes(loss, hidden):
    hidden = hidden.clone().requires_grad_()
    return torch.autograd.grad(loss(hidden), hidden)[0]


@every_kind
class TestTransforms:
    def test_jvp_is_the_gradient_along_a_direction(self, kind):
        (hidden, queries), direction = inputs(), torch.randn(2, 5, SIZE).double()
        loss = loss_of(made(kind), queries)
        expected = (slopes(loss, hidden) * direction).sum()
        torch.testing.assert_close(jvp(loss, (hidden,), (direction,))[1], expected)
        with forward_ad.dual_level():
            tangent = forward_ad.unpack_dual(loss(forward_ad.make_dual(hidden, direction))).tangent
        torch.testing.assert_close(tangent, expected)

    def test_vmap_of_grad_is_the_gradient_of_each(self, kind):
        hidden, queries = inputs()
        loss = loss_of(made(kind), queries)
        several = torch.stack([hidden, 2 * hidden])
        torch.testing.assert_close(vmap(grad(loss))(several), torch.stack([slopes(loss, x) for x in several]))

    def test_several_gradients_at_once_are_those_one_by_one(self, kind):
        hidden, queries = inputs()
        module = made(kind)
        written = {"values": hidden} if module.name == "keyed" else {}
        leaf = hidden.clone().requires_grad_()
        readouts, G = module(leaf, queries, [5, 2], **written), torch.randn(4, 2, 3, SIZE).double()

        def gradients(*args, **options):
            return torch.autograd.grad(readouts, leaf, *args, retain_graph=True, **options)[0]

        if readouts.requires_grad:
            expected = torch.stack([gradients(g) for g in G])
            torch.testing.assert_close(gradients(G, is_grads_batched=True), expected)
            torch.testing.assert_close(vmap(gradients)(G), expected)

    def test_hessian_is_the_second_derivative(self, kind):
        hidden, queries = inputs()
        hidden, queries = hidden[:1, :3], queries[:1, :1]
        loss = loss_of(made(kind), queries)
        found = hessian(loss)(hidden).view(12, 12)
        leaf = hidden.clone().requires_grad_()
        (first,) = torch.autograd.grad(loss(leaf), leaf, create_graph=True)
        if first.requires_grad:
            expected = [torch.autograd.grad(x, leaf, retain_graph=True)[0].flatten() for x in first.flatten()]
            torch.testing.assert_close(found, torch.stack(expected))

    def test_meta_tensors_go_through_forward_and_backward(self, kind):
        module = made(kind, device="meta")
        hidden = torch.empty(2, 5, SIZE, device="meta", requires_grad=True)
        loss_of(module, torch.empty(2, 3, SIZE, device="meta"), [5, 2])(hidden).backward()
        assert hidden.grad.shape == (2, 5, SIZE)

    @pytest.mark.parametrize("dirt", [torch.nan, torch.inf], ids=str)
    def test_padding_reaches_no_value_and_no_gradient(self, kind, dirt):
        module, (hidden, queries), lengths = made(kind), inputs(), [5, 2]
        loss, results = loss_of(module, queries, lengths), []
        for filled in (0.0, dirt):
            padded = hidden.clone()
            padded[1, 2:] = filled
            padded.requires_grad_()
            wanted = padded, *module.parameters()
            value = loss(padded)
            results.append([value, *torch.autograd.grad(value, wanted, materialize_grads=True)])
        for clean, found in zip(*results, strict=True):
            torch.testing.assert_close(found, clean)
        assert not results[1][1][1, 2:].any()
