"""`encode` against the loops of the reference, in values and in gradients; memories add up and can be taken apart."""

import pytest
import torch

from attar.ops.gram import encode

LENGTHS = [0, 1, 2, 31, 32, 33, 70]
SIZES = [1, 2, 3, 5, 16, 17]
BATCHES = [0, 1, 3]
USES = {
    "linear": (),
    "decayed": ("alpha",),
    "weighted": ("beta",),
    "both gates": ("alpha", "beta"),
    "resumed": ("initial",),
    "everything": ("alpha", "beta", "initial"),
}


def inputs_for(batch, n, k, use="everything", dtype=torch.float64):
    """Random arguments of `encode` that want a gradient; gates lie on both sides of 0 and of 1."""
    made = {"f": torch.randn(batch, n, k), "alpha": torch.randn(batch, n).clamp(-1.2, 1.2)}
    made |= {"beta": torch.randn(batch, n), "initial": torch.randn(batch, k, k)}
    return {name: made[name].to(dtype).requires_grad_() for name in ("f", *USES[use])}


def values_and_gradients(inputs, G, backend, lengths=None):
    inputs = {name: x.detach().requires_grad_() for name, x in inputs.items()}
    memory = encode(**inputs, lengths=lengths, backend=backend)
    if not memory.requires_grad:  # a loop over no tokens has met none of its inputs
        return memory, *(torch.zeros_like(x) for x in inputs.values())
    wanted, G = list(inputs.values()), G.to(memory.dtype)
    return memory, *torch.autograd.grad(memory, wanted, G, allow_unused=True, materialize_grads=True)


def assert_agrees(inputs, lengths=None, tolerance=1e-10):
    """Values and gradients equal the reference's in float64."""
    batch, _, k = inputs["f"].shape
    G = torch.randn(batch, k, k, dtype=torch.float64)
    found = values_and_gradients(inputs, G, "torch", lengths)
    expected = values_and_gradients({n: x.double() for n, x in inputs.items()}, G, "reference", lengths)
    for name, x, y in zip(["memory", *inputs], found, expected, strict=True):
        scale = float(y.detach().abs().max()) if y.numel() else 1.0
        torch.testing.assert_close(
            x.double(), y, rtol=0, atol=tolerance * max(scale, 1e-3), msg=lambda m, name=name: f"{name}: {m}"
        )


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("n", LENGTHS)
def test_agrees_with_the_reference_at_every_length(use, n):
    assert_agrees(inputs_for(2, n, 5, use))


@pytest.mark.parametrize("k", SIZES)
@pytest.mark.parametrize("batch", BATCHES)
def test_agrees_with_the_reference_at_every_size(k, batch):
    assert_agrees(inputs_for(batch, 9, k))


@pytest.mark.parametrize("use", USES)
def test_agrees_with_the_reference_for_lengths_from_none_to_all(use):
    assert_agrees(inputs_for(5, 12, 4, use), lengths=[0, 12, 1, 11, 5])


@pytest.mark.parametrize("backend", ["reference", "torch"])
@pytest.mark.parametrize("use", USES)
def test_padding_does_not_leak(backend, use):
    clean = inputs_for(3, 8, 3, use)
    lengths, G = [0, 5, 8], torch.randn(3, 3, 3, dtype=torch.float64)
    behind = torch.arange(8) >= torch.tensor(lengths)[:, None]
    dirty = {}
    for name, x in clean.items():
        dirty[name] = x.detach().clone()
        if name != "initial":
            dirty[name][behind] = torch.nan
    expected = values_and_gradients(clean, G, "reference", lengths)
    found = values_and_gradients(dirty, G, backend, lengths)
    for x, y in zip(found, expected, strict=True):
        torch.testing.assert_close(x, y)
    for gradient in found[1:]:
        if gradient.shape[1] == 8:
            assert (gradient[behind] == 0).all()


def test_alpha_of_zero_forgets_everything_before_it():
    inputs = inputs_for(2, 9, 3)
    with torch.no_grad():
        inputs["alpha"][0, 4] = 0
        inputs["alpha"][1, [0, 3, 8]] = 0
    assert_agrees(inputs)


VIEWS = {
    "transposed": lambda x: x.transpose(0, 1).contiguous().transpose(0, 1),
    "strided": lambda x: torch.stack([x, x * 0], -1).flatten(-2)[..., ::2],
    "reversed storage": lambda x: x.flip(1).contiguous().flip(1),
    "expanded": lambda x: x[:1].expand(x.shape),
    "offset": lambda x: torch.cat([x[:1] * 0, x])[1:],
}


@pytest.mark.parametrize("view", VIEWS)
def test_inputs_may_have_any_strides(view):
    plain = {name: x.detach() for name, x in inputs_for(3, 6, 4).items()}
    viewed = {name: VIEWS[view](x) for name, x in plain.items()}
    packed = {name: x.contiguous() for name, x in viewed.items()}
    torch.testing.assert_close(encode(**viewed), encode(**packed, backend="reference"))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_sums_are_float32_or_float64_for_every_dtype(dtype):
    inputs = {name: x.detach().to(dtype) for name, x in inputs_for(2, 200, 8, "decayed").items()}
    memory = encode(**inputs)
    assert memory.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    expected = encode(**{name: x.double() for name, x in inputs.items()}, backend="reference")
    # The inputs are exact in float64, so all of the error is the sum's own.
    eps = torch.finfo(memory.dtype).eps
    assert (memory - expected).abs().max() <= 20 * eps * expected.abs().max()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_gradients_have_the_dtype_of_the_inputs(dtype):
    inputs = inputs_for(2, 20, 4, "everything", dtype)
    memory = encode(**inputs)
    gradients = torch.autograd.grad(memory.square().sum(), list(inputs.values()))
    assert {g.dtype for g in gradients} == {dtype}
    assert_agrees(inputs, tolerance=2 * torch.finfo(dtype).eps + 2e-6)


def test_autocast_does_not_change_the_sum_from_float32():
    f = torch.randn(2, 300, 8, requires_grad=True)
    G = torch.randn(2, 8, 8)
    with torch.autocast("cpu", torch.bfloat16):
        memory = encode(f)
        (gradient,) = torch.autograd.grad(memory, f, G)
    assert memory.dtype == torch.float32
    torch.testing.assert_close(memory, encode(f))
    torch.testing.assert_close(gradient, torch.autograd.grad(encode(f), f, G)[0])


@pytest.mark.slow
@pytest.mark.parametrize("use", USES)
def test_first_and_second_derivatives_equal_finite_differences(use):
    inputs = inputs_for(2, 5, 3, use)

    def memory(*tensors):
        return encode(**dict(zip(inputs, tensors, strict=True)), lengths=[5, 3])

    assert torch.autograd.gradcheck(memory, tuple(inputs.values()))
    assert torch.autograd.gradgradcheck(memory, tuple(inputs.values()))


BACKENDS = ["reference", "torch"]


def document(n=11, k=4, batch=2):
    f = torch.randn(batch, n, k).double()
    return f, torch.randn(batch, n).double(), torch.randn(batch, n).double()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("cut", range(12))
def test_continuing_from_any_token_equals_encoding_at_once(backend, cut):
    f, alpha, beta = document()
    first = encode(f[:, :cut], alpha=alpha[:, :cut], beta=beta[:, :cut], backend=backend)
    both = encode(f[:, cut:], alpha=alpha[:, cut:], beta=beta[:, cut:], initial=first, backend=backend)
    torch.testing.assert_close(both, encode(f, alpha=alpha, beta=beta, backend=backend))
