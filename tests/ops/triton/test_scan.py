"""The adaptive scan's kernels, on the chip and wide, against the reference in float64, values and gradients."""

import math

import pytest
import torch

from attar.errors import OptionError
from attar.ops.reference import AffineGates
from attar.ops.scan import encode_adaptive
from attar.ops.triton import scan as kernels

from .agreement import DTYPES, Kernel

pytestmark = pytest.mark.gpu

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


KERNEL = Kernel(run, inputs_for, TOLERANCES, tokens=("h", "f"), decayed=("initial",))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("initial", [None, "symmetric", "not symmetric"], ids=str)
def test_agrees_with_the_reference_from_any_memory(initial, dtype, device):
    KERNEL.assert_agrees(inputs_for(device, n=3, initial=initial, dtype=dtype))


def test_agrees_with_the_reference_without_the_energy(device):
    inputs = inputs_for(device, batch=2, n=5)
    del inputs["energy_weight"]
    KERNEL.assert_agrees(inputs, [5, 3])


def test_weights_may_be_given_per_document(device):
    inputs = inputs_for(device, batch=2, n=5)
    for name in ("read_weight", "energy_weight"):
        inputs[name] = torch.stack([inputs[name], -inputs[name]])
    KERNEL.assert_agrees(inputs, [5, 3])


@pytest.mark.parametrize(("spacings", "more"), [(1, -1), (1, 0), (1, 1), (2, 2)])
def test_agrees_with_the_reference_around_kept_memories(spacings, more, device):
    KERNEL.assert_agrees(inputs_for(device, n=spacings * kernels.EVERY + more))


@pytest.mark.parametrize("dtype", DTYPES)
def test_agrees_with_the_reference_across_a_kept_memory(dtype, device):
    inputs = inputs_for(device, n=kernels.EVERY + 2, initial="not symmetric", dtype=dtype)
    KERNEL.assert_agrees(inputs)


@pytest.mark.parametrize(("batch", "k"), [(2, 1), (1, 2), (1, 17), (1, 33)])
def test_agrees_with_the_reference_at_every_size(batch, k, device):
    KERNEL.assert_agrees(inputs_for(device, batch=batch, n=3, k=k))


@pytest.mark.parametrize("k", [100, 128], ids="k={}".format)
def test_agrees_with_the_reference_up_to_the_largest_on_a_chip(k, device):
    KERNEL.assert_agrees(inputs_for(device, n=4, k=k))


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
    KERNEL.assert_agrees(inputs, [0, 3, 1])


@pytest.mark.parametrize("initial", [None, "symmetric"], ids=str)
@pytest.mark.parametrize("k", [1, 5], ids="k={}".format)
@pytest.mark.parametrize(("batch", "n"), [(2, 0), (0, 9), (0, 0)], ids=["no token", "no document", "nothing"])
def test_agrees_with_the_reference_without_tokens_or_documents(batch, n, k, initial, device):
    KERNEL.assert_agrees(inputs_for(device, batch=batch, n=n, k=k, initial=initial))


@pytest.mark.filterwarnings("ignore:overflow encountered in exp:RuntimeWarning")  # the interpreter's σ(−300)
def test_alpha_of_zero_forgets_everything_before_it(device):
    inputs = inputs_for(device, n=6)
    inputs["hidden_weight"][0] = torch.tensor([300.0, 0.0, 0.0])
    inputs["h"][0, :, 0] = 0.0
    inputs["h"][0, [0, 3], 0] = -1.0
    KERNEL.assert_agrees(inputs)


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
