"""The adaptive scan's kernels, on the chip and wide, against the reference in float64, values and gradients."""

import math
from functools import partial

import pytest
import torch

from attar.errors import OptionError
from attar.ops.reference import AffineGates
from attar.ops.scan import encode_adaptive
from attar.ops.triton import gates as gate_kernels
from attar.ops.triton import scan as kernels

from . import agreement

pytestmark = pytest.mark.gpu

ON_CUDA = torch.cuda.is_available()
needs_cuda = pytest.mark.skipif(not ON_CUDA, reason="Triton's interpreter multiplies bfloat16's raw bits")
EXACT, NARROW = pytest.param(torch.float32, id="float32"), pytest.param(torch.float16, id="float16")
DTYPES = [EXACT, NARROW, pytest.param(torch.bfloat16, id="bfloat16", marks=needs_cuda)]
# How far values and gradients may be off, as a share of their norm.
TOLERANCES = {torch.float32: (5e-6, 5e-5), torch.float16: (2e-3, 1e-2), torch.bfloat16: (1e-2, 4e-2)}
CELL = ("hidden_weight", "read_weight", "bias", "energy_weight")


def inputs_for(device, batch=1, n=9, k=5, d=3, initial="symmetric", dtype=torch.float32):
    """Random arguments whose gates look at the memory mildly, rounded to the type under test."""
    made = {"h": torch.randn(batch, n, d), "f": torch.randn(batch, n, k) * 0.3}
    made |= {"hidden_weight": torch.randn(2, d) * 0.5, "read_weight": torch.randn(2, k) / math.sqrt(k)}
    made |= {"bias": torch.tensor([3.0, 0.0]), "energy_weight": torch.tensor([0.5, -1.0])}
    root = torch.randn(batch, k, k) / math.sqrt(k)
    if initial is not None:
        made["initial"] = root if initial == "not symmetric" else root @ root.mT
    return {name: x.to(device, dtype) for name, x in made.items()}


def run(inputs, **options):
    others = {name: x for name, x in inputs.items() if name not in CELL}
    return encode_adaptive(**others, cell=AffineGates(*(inputs.get(name) for name in CELL)), **options)


results, expected_of = partial(agreement.results, run), partial(agreement.expected_of, run)


def assert_close(found, expected, G, tolerances):
    # What decay leaves of the first memory's gradient may be tiny: it is as exact as what it was made of.
    agreement.assert_close(found, expected, tolerances, {"initial": G.norm()})


def assert_agrees(inputs, lengths=None):
    batch, _, k = inputs["f"].shape
    G = torch.randn(batch, k, k)
    found = results(inputs, G, lengths=lengths, backend="triton")
    assert_close(found, expected_of(inputs, G, lengths), G, TOLERANCES[inputs["f"].dtype])


@pytest.fixture(autouse=True)
def short_chunks(monkeypatch):
    """The interpreter goes through sums number by number, real or not: blocks of 16 for those of 64 and more."""
    if not ON_CUDA:
        monkeypatch.setattr(gate_kernels, "BLOCK", 16)
        monkeypatch.setattr(kernels, "EVERY", 16)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("initial", [None, "symmetric", "not symmetric"], ids=str)
def test_agrees_with_the_reference_from_any_memory(initial, dtype, device):
    assert_agrees(inputs_for(device, n=3, initial=initial, dtype=dtype))


def test_agrees_with_the_reference_without_the_energy(device):
    inputs = inputs_for(device, batch=2, n=5)
    del inputs["energy_weight"]
    assert_agrees(inputs, [5, 3])


def test_weights_may_be_given_per_document(device):
    inputs = inputs_for(device, batch=2, n=5)
    for name in ("read_weight", "energy_weight"):
        inputs[name] = torch.stack([inputs[name], -inputs[name]])
    assert_agrees(inputs, [5, 3])


@pytest.mark.parametrize(("spacings", "more"), [(1, -1), (1, 0), (1, 1), (2, 2)])
def test_agrees_with_the_reference_around_kept_memories(spacings, more, device):
    assert_agrees(inputs_for(device, n=spacings * kernels.EVERY + more))


@pytest.mark.parametrize("dtype", DTYPES)
def test_agrees_with_the_reference_across_a_kept_memory(dtype, device):
    inputs = inputs_for(device, n=kernels.EVERY + 2, initial="not symmetric", dtype=dtype)
    assert_agrees(inputs)


@pytest.mark.parametrize(("batch", "k"), [(2, 1), (1, 2), (1, 17), (1, 33)])
def test_agrees_with_the_reference_at_every_size(batch, k, device):
    assert_agrees(inputs_for(device, batch=batch, n=3, k=k))


@pytest.mark.parametrize("k", [100, 128], ids="k={}".format)
def test_agrees_with_the_reference_up_to_the_largest_on_a_chip(k, device):
    assert_agrees(inputs_for(device, n=4, k=k))


def test_more_than_a_chip_holds_is_read_by_torch(device):
    inputs = inputs_for(device, n=3, k=130)
    assert run(inputs).shape == (1, 130, 130)
    with pytest.raises(
        OptionError, match=r"k up to 128, got AffineGates, 'checkpoint' and k = 130; use backend='torch'"
    ):
        run(inputs, backend="triton")


@pytest.mark.parametrize("dtype", DTYPES)
def test_agrees_with_the_reference_for_lengths_from_none_to_all(dtype, device):
    inputs = inputs_for(device, batch=3, n=3, initial="not symmetric", dtype=dtype)
    assert_agrees(inputs, [0, 3, 1])


def test_padding_does_not_leak(device):
    lengths, inputs = [0, 1, 3], inputs_for(device, batch=3, n=3)
    behind = torch.arange(3) >= torch.tensor(lengths)[:, None]
    dirty = inputs | {name: inputs[name].clone() for name in ("h", "f")}
    for name in ("h", "f"):
        dirty[name][behind.to(device)] = torch.nan
    G = torch.randn(3, 5, 5)
    found = results(dirty, G, lengths=lengths, backend="triton")
    assert_close(found, expected_of(inputs, G, lengths), G, TOLERANCES[torch.float32])
    assert all((found[name].cpu()[behind] == 0).all() for name in ("h", "f"))


@pytest.mark.parametrize("initial", [None, "symmetric"], ids=str)
@pytest.mark.parametrize("k", [1, 5], ids="k={}".format)
@pytest.mark.parametrize(("batch", "n"), [(2, 0), (0, 9), (0, 0)], ids=["no token", "no document", "nothing"])
def test_agrees_with_the_reference_without_tokens_or_documents(batch, n, k, initial, device):
    assert_agrees(inputs_for(device, batch=batch, n=n, k=k, initial=initial))


VIEWS = {
    "transposed": lambda x: x.transpose(0, 1).contiguous().transpose(0, 1),
    "transposed at the end": lambda x: x.mT.contiguous().mT,
    "strided": lambda x: torch.stack([x, x + 1], -1).flatten(-2)[..., ::2],
    "expanded": lambda x: x[:1].expand(x.shape),
}


@pytest.mark.parametrize("view", VIEWS)
def test_inputs_may_have_any_strides(view, device):
    inputs = inputs_for(device, batch=2, n=2, k=4)
    viewed = {name: VIEWS[view](x) if x.ndim > 1 else x for name, x in inputs.items()}
    assert_agrees(viewed)


def test_a_gradient_may_come_expanded(device):
    inputs = inputs_for(device, n=3)
    found = results(inputs, torch.ones(1, 1, 1, device=device).expand(1, 5, 5), backend="triton")
    G = torch.ones(1, 5, 5)
    assert_close(found, expected_of(inputs, G), G, TOLERANCES[torch.float32])


@pytest.mark.filterwarnings("ignore:overflow encountered in exp:RuntimeWarning")  # the interpreter's σ(−300)
def test_alpha_of_zero_forgets_everything_before_it(device):
    inputs = inputs_for(device, n=6)
    inputs["hidden_weight"][0] = torch.tensor([300.0, 0.0, 0.0])
    inputs["h"][0, :, 0] = 0.0
    inputs["h"][0, [0, 3], 0] = -1.0
    assert_agrees(inputs)


@pytest.mark.parametrize("cut", [0, 1, 3], ids="cut={}".format)
def test_continuing_equals_encoding_at_once(cut, device):
    inputs = inputs_for(device, n=3)
    tokens = ("h", "f")
    first = run(inputs | {name: inputs[name][:, :cut] for name in tokens}, backend="triton")
    rest = {name: inputs[name][:, cut:] for name in tokens} | {"initial": first}
    whole = run(inputs, backend="triton")
    assert (run(inputs | rest, backend="triton") - whole).norm() <= TOLERANCES[torch.float32][
        0
    ] * whole.norm()


@pytest.mark.parametrize("dtype", DTYPES)
def test_reading_without_gradients_gives_the_same_memory(dtype, device):
    inputs = inputs_for(device, batch=2, n=4, dtype=dtype)
    with torch.no_grad():
        memory = run(inputs, lengths=[4, 2], backend="triton")
    expected = run(
        {name: x.cpu().double() for name, x in inputs.items()}, lengths=[4, 2], backend="reference"
    )
    assert memory.grad_fn is None
    assert (memory.cpu().double() - expected).norm() <= TOLERANCES[dtype][0] * expected.norm()


@pytest.mark.parametrize("dtype", DTYPES)
def test_memories_are_float32_and_gradients_of_the_inputs_type(dtype, device):
    found = results(inputs_for(device, n=1, dtype=dtype), torch.ones(1, 5, 5), backend="triton")
    assert found.pop("memory").dtype == torch.float32
    assert {gradient.dtype for gradient in found.values()} == {dtype}


@pytest.mark.parametrize("wanted", ["h", "f", "initial", *CELL])
def test_each_gradient_may_be_wanted_alone(wanted, device):
    inputs = inputs_for(device, n=2)
    G = torch.randn(1, 5, 5)
    expected = expected_of(inputs, G)
    inputs[wanted].requires_grad_()
    (gradient,) = torch.autograd.grad(run(inputs, backend="triton"), inputs[wanted], G.to(device))
    assert_close({wanted: gradient}, {wanted: expected[wanted]}, G, TOLERANCES[torch.float32])


def test_under_autocast_sums_stay_float32(device):
    inputs, G = inputs_for(device, n=3), torch.randn(1, 5, 5)
    expected = expected_of(inputs, G)
    inputs["f"].requires_grad_()
    with torch.autocast(device, torch.bfloat16):
        memory = run(inputs, backend="triton")
        (gradient,) = torch.autograd.grad(memory, inputs["f"], G.to(device))
    assert memory.dtype == torch.float32
    found = {"memory": memory.detach(), "f": gradient}
    assert_close(found, {name: expected[name] for name in found}, G, TOLERANCES[torch.float32])


def test_a_second_derivative_is_refused(device):
    inputs = inputs_for(device, n=2)
    inputs["f"].requires_grad_()
    memory = run(inputs, backend="triton")
    (gradient,) = torch.autograd.grad(memory.square().sum(), inputs["f"], create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()
