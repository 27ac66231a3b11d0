"""The weighted Gram product's kernels against the reference in float64, in values and in gradients."""

from functools import partial

import pytest
import torch

from attar.ops.gram import encode
from attar.ops.triton import gates as gate_kernels
from attar.ops.triton import gram as kernels

from . import agreement

pytestmark = pytest.mark.gpu

ON_CUDA = torch.cuda.is_available()
needs_cuda = pytest.mark.skipif(not ON_CUDA, reason="Triton's interpreter multiplies bfloat16's raw bits")
EXACT, NARROW = pytest.param(torch.float32, id="float32"), pytest.param(torch.float16, id="float16")
# In float32 `encode` sums with cuBLAS and only its gradient is a kernel; float16 takes the kernels both ways.
DTYPES = [EXACT, NARROW, pytest.param(torch.bfloat16, id="bfloat16", marks=needs_cuda)]
PORTABLE = [EXACT, NARROW]
# How far values and gradients may be off, as a share of their norm.
TOLERANCES = {torch.float32: (2e-6, 1e-5), torch.float16: (2e-3, 1e-2), torch.bfloat16: (1e-2, 4e-2)}

USES = {
    "linear": (),
    "decayed": ("alpha",),
    "weighted": ("beta",),
    "both gates": ("alpha", "beta"),
    "resumed": ("initial",),
    "everything": ("alpha", "beta", "initial"),
}


def inputs_for(device, batch=2, n=9, k=5, use="everything", dtype=torch.float32):
    """Random arguments, rounded to the type under test."""
    states = {"f": torch.randn(batch, n, k)}
    gates = {"alpha": 0.95 + 0.1 * torch.rand(batch, n), "beta": torch.rand(batch, n)}
    gates["initial"] = torch.randn(batch, k, k)
    made = states | {name: gates[name] for name in USES[use]}
    return {name: x.to(device, dtype) for name, x in made.items()}


def run(inputs, **options):
    return encode(**inputs, **options)


results, expected_of = partial(agreement.results, run), partial(agreement.expected_of, run)


def assert_close(found, expected, dtype):
    agreement.assert_close(found, expected, TOLERANCES[dtype])


def assert_agrees(inputs, lengths=None):
    batch, _, k = inputs["f"].shape
    G = torch.randn(batch, k, k)
    found = results(inputs, G, lengths=lengths, backend="triton")
    assert_close(found, expected_of(inputs, G, lengths), inputs["f"].dtype)


@pytest.fixture(autouse=True)
def short_blocks_of_gates(monkeypatch):
    """The interpreter goes through a scan number by number, real or not."""
    if not ON_CUDA:
        monkeypatch.setattr(gate_kernels, "BLOCK", 16)


@pytest.fixture
def small_tiles(monkeypatch):
    """Tiles of 16 columns: the tiled kernels at little cost."""
    monkeypatch.setattr(kernels, "LARGEST_ON_CHIP", 16)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("use", USES)
def test_agrees_with_the_reference_in_every_use(use, dtype, device):
    assert_agrees(inputs_for(device, batch=1, n=70, k=20, use=use, dtype=dtype))


@pytest.mark.parametrize("n", [1, 32, 33, 63, 64, 65, 130], ids="n={}".format)
def test_agrees_with_the_reference_around_blocks_of_rows(n, device):
    inputs = inputs_for(device, batch=1, n=n, use="weighted", dtype=torch.float16)
    assert_agrees(inputs)


@pytest.mark.parametrize("dtype", DTYPES)
def test_agrees_with_the_reference_where_a_document_is_split(dtype, device):
    assert_agrees(inputs_for(device, batch=1, n=257, use="resumed", dtype=dtype))


@pytest.mark.parametrize("dtype", PORTABLE)
@pytest.mark.parametrize(("batch", "k"), [(3, 1), (1, 2), (1, 16), (3, 17)])
def test_agrees_with_the_reference_at_every_size(batch, k, dtype, device):
    assert_agrees(inputs_for(device, batch=batch, k=k, use="weighted", dtype=dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("k", [64, 100, 128], ids="k={}".format)
def test_agrees_with_the_reference_at_the_largest_sizes_that_fit_a_chip(k, dtype, device):
    assert_agrees(inputs_for(device, batch=1, n=8, k=k, dtype=dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_agrees_with_the_reference_beyond_one_tile(dtype, device):
    assert_agrees(inputs_for(device, n=8, k=130, dtype=dtype), lengths=[8, 5])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("use", ["linear", "everything"])
def test_agrees_with_the_reference_in_many_tiles(use, dtype, device, small_tiles):
    assert_agrees(inputs_for(device, batch=1, n=70, k=40, use=use, dtype=dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("use", ["linear", "everything"])
def test_agrees_with_the_reference_for_lengths_from_none_to_all(use, dtype, device):
    inputs = inputs_for(device, batch=4, n=70, use=use, dtype=dtype)
    assert_agrees(inputs, lengths=[0, 70, 1, 64])


@pytest.mark.parametrize(("k", "dtype"), [(5, torch.float32), (5, torch.float16), (130, torch.float16)])
def test_padding_does_not_leak(k, dtype, device):
    lengths, inputs = [0, 5, 8], inputs_for(device, batch=3, n=8, k=k, dtype=dtype)
    behind = torch.arange(8) >= torch.tensor(lengths)[:, None]
    tokens = ("f", "alpha", "beta")
    dirty = inputs | {name: inputs[name].clone() for name in tokens}
    for name in tokens:
        dirty[name][behind.to(device)] = torch.nan
    G = torch.randn(3, k, k)
    found = results(dirty, G, lengths=lengths, backend="triton")
    assert_close(found, expected_of(inputs, G, lengths), dtype)
    assert all((found[name].cpu()[behind] == 0).all() for name in tokens)


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize(("batch", "n"), [(2, 0), (0, 9), (0, 0)], ids=["no token", "no document", "nothing"])
def test_agrees_with_the_reference_without_tokens_or_documents(batch, n, use, device):
    assert_agrees(inputs_for(device, batch=batch, n=n, use=use))


VIEWS = {
    "transposed": lambda x: x.transpose(0, 1).contiguous().transpose(0, 1),
    "transposed at the end": lambda x: x.mT.contiguous().mT,
    "strided": lambda x: torch.stack([x, x + 1], -1).flatten(-2)[..., ::2],
    "expanded": lambda x: x[:1].expand(x.shape),
    "offset": lambda x: torch.cat([x[:1] * 0, x])[1:],
    "padded rows": lambda x: torch.cat([x, x], -1)[..., : x.shape[-1]],
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize(("use", "dtype"), [("weighted", torch.float32), ("everything", torch.float16)])
def test_inputs_may_have_any_strides(use, dtype, view, device):
    inputs = inputs_for(device, n=7, k=4, use=use, dtype=dtype)
    assert_agrees({name: VIEWS[view](x) for name, x in inputs.items()})


@pytest.mark.parametrize("dtype", PORTABLE)
def test_a_gradient_may_come_expanded(dtype, device):
    inputs = inputs_for(device, dtype=dtype)
    found = results(inputs, torch.ones(1, 1, 1, device=device).expand(2, 5, 5), backend="triton")
    assert_close(found, expected_of(inputs, torch.ones(2, 5, 5)), dtype)


def test_alpha_of_zero_forgets_everything_before_it(device):
    inputs = inputs_for(device, n=20)
    inputs["alpha"][0, 14] = 0
    inputs["alpha"][1, [0, 3, 19]] = 0
    assert_agrees(inputs)


@pytest.mark.parametrize("dtype", PORTABLE)
@pytest.mark.parametrize("cut", [0, 1, 20], ids="cut={}".format)
def test_continuing_equals_encoding_at_once(cut, dtype, device):
    inputs = inputs_for(device, batch=1, n=20, dtype=dtype)
    tokens = {name: x for name, x in inputs.items() if name != "initial"}
    first = {name: x[:, :cut] for name, x in tokens.items()}
    rest = {name: x[:, cut:] for name, x in tokens.items()}
    memory = encode(**first, initial=inputs["initial"], backend="triton")
    both = encode(**rest, initial=memory, backend="triton")
    whole = encode(**inputs, backend="triton")
    assert (both - whole).norm() <= 2 * TOLERANCES[dtype][0] * whole.norm()


@pytest.mark.parametrize("dtype", DTYPES)
def test_memories_are_float32_and_gradients_of_the_inputs_type(dtype, device):
    inputs = inputs_for(device, dtype=dtype)
    found = results(inputs, torch.ones(2, 5, 5), backend="triton")
    assert found.pop("memory").dtype == torch.float32
    assert {gradient.dtype for gradient in found.values()} == {dtype}


@pytest.mark.parametrize("wanted", ["f", "alpha", "beta", "initial"])
def test_each_gradient_may_be_wanted_alone(wanted, device):
    inputs = inputs_for(device)
    G = torch.randn(2, 5, 5)
    inputs[wanted].requires_grad_()
    memory = encode(**inputs, backend="triton")
    (gradient,) = torch.autograd.grad(memory, inputs[wanted], G.to(device))
    expected = expected_of(inputs, G)
    assert_close({wanted: gradient}, {wanted: expected[wanted]}, torch.float32)


def test_autocast_does_not_change_the_sum_from_float32(device):
    inputs = inputs_for(device, n=70)
    G = torch.randn(2, 5, 5)
    with torch.autocast(device, torch.bfloat16):
        found = results(inputs, G, backend="triton")
    assert found["memory"].dtype == torch.float32
    assert_close(found, expected_of(inputs, G), torch.float32)


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
    found = results(inputs, G, lengths=[70, 33], backend="triton")
    agreement.assert_close(found, expected_of(inputs, G, [70, 33]), (2e-3, 1e-2))


def test_a_second_derivative_is_refused(device):
    inputs = inputs_for(device)
    states = inputs["f"].requires_grad_()
    memory = encode(**inputs, backend="triton")
    (gradient,) = torch.autograd.grad(memory.square().sum(), states, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()
