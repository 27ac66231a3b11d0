"""The weighted Gram product's kernels against the reference in float64, in values and in gradients."""

import pytest
import torch

from attar.ops.gram import encode
from attar.ops.triton import gram as kernels
from tests.ops.test_gram import USES

from .agreement import DTYPES, EXACT, NARROW, ON_CUDA, Kernel

pytestmark = pytest.mark.gpu

PORTABLE = [EXACT, NARROW]
# How far values and gradients may be off, as a share of their norm.
TOLERANCES = {torch.float32: (2e-6, 1e-5), torch.float16: (2e-3, 1e-2), torch.bfloat16: (1e-2, 4e-2)}


def inputs_for(device, batch=2, n=9, k=5, use="everything", dtype=torch.float32):
    """Random arguments, rounded to the type under test."""
    states = {"f": torch.randn(batch, n, k)}
    gates = {"alpha": 0.95 + 0.1 * torch.rand(batch, n), "beta": torch.rand(batch, n)}
    gates["initial"] = torch.randn(batch, k, k)
    made = states | {name: gates[name] for name in USES[use]}
    return {name: x.to(device, dtype) for name, x in made.items()}


def run(inputs, **options):
    return encode(**inputs, **options)


KERNEL = Kernel(run, inputs_for, TOLERANCES, tokens=("f", "alpha", "beta"))


@pytest.fixture
def small_tiles(monkeypatch):
    """Tiles of 16 columns: the tiled kernels at little cost."""
    monkeypatch.setattr(kernels, "LARGEST_ON_CHIP", 16)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("use", USES)
def test_agrees_with_the_reference_in_every_use(use, dtype, device):
    KERNEL.assert_agrees(inputs_for(device, batch=1, n=70, k=20, use=use, dtype=dtype))


@pytest.mark.parametrize("n", [1, 32, 33, 63, 64, 65, 130], ids="n={}".format)
def test_agrees_with_the_reference_around_blocks_of_rows(n, device):
    inputs = inputs_for(device, batch=1, n=n, use="weighted", dtype=torch.float16)
    KERNEL.assert_agrees(inputs)


@pytest.mark.parametrize("dtype", DTYPES)
def test_agrees_with_the_reference_where_a_document_is_split(dtype, device):
    KERNEL.assert_agrees(inputs_for(device, batch=1, n=257, use="resumed", dtype=dtype))


@pytest.mark.parametrize("dtype", PORTABLE)
@pytest.mark.parametrize(("batch", "k"), [(3, 1), (1, 2), (1, 16), (3, 17)])
def test_agrees_with_the_reference_at_every_size(batch, k, dtype, device):
    KERNEL.assert_agrees(inputs_for(device, batch=batch, k=k, use="weighted", dtype=dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("k", [64, 100, 128], ids="k={}".format)
def test_agrees_with_the_reference_at_the_largest_sizes_that_fit_a_chip(k, dtype, device):
    KERNEL.assert_agrees(inputs_for(device, batch=1, n=8, k=k, dtype=dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_agrees_with_the_reference_beyond_one_tile(dtype, device):
    KERNEL.assert_agrees(inputs_for(device, n=8, k=130, dtype=dtype), lengths=[8, 5])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("use", ["linear", "everything"])
def test_agrees_with_the_reference_in_many_tiles(use, dtype, device, small_tiles):
    KERNEL.assert_agrees(inputs_for(device, batch=1, n=70, k=40, use=use, dtype=dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("use", ["linear", "everything"])
def test_agrees_with_the_reference_for_lengths_from_none_to_all(use, dtype, device):
    inputs = inputs_for(device, batch=4, n=70, use=use, dtype=dtype)
    KERNEL.assert_agrees(inputs, lengths=[0, 70, 1, 64])


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize(("batch", "n"), [(2, 0), (0, 9), (0, 0)], ids=["no token", "no document", "nothing"])
def test_agrees_with_the_reference_without_tokens_or_documents(batch, n, use, device):
    KERNEL.assert_agrees(inputs_for(device, batch=batch, n=n, use=use))


def test_alpha_of_zero_forgets_everything_before_it(device):
    inputs = inputs_for(device, n=20)
    inputs["alpha"][0, 14] = 0
    inputs["alpha"][1, [0, 3, 19]] = 0
    KERNEL.assert_agrees(inputs)


@pytest.fixture
def tf32():
    """Torch's switch is made of properties, which monkeypatch cannot put back."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = True
    yield
    torch.backends.cuda.matmul.allow_tf32 = before


@pytest.mark.skipif(not ON_CUDA, reason="tf32 is a GPU's own")
@pytest.mark.parametrize("k", [20, 130], ids=["one tile", "tiled"])
def test_float32_is_as_exact_as_tf32_where_torch_allows_it(k, device, tf32):
    inputs = inputs_for(device, n=70, k=k)
    G = torch.randn(2, k, k)
    found = KERNEL.results(inputs, G, lengths=[70, 33], backend="triton")
    KERNEL.assert_close(found, KERNEL.expected_of(inputs, G, [70, 33]), G, (2e-3, 1e-2))
