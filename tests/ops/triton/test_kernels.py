"""What holds of every kernel: padding, strides, types, one gradient alone, autocast, no second derivative."""

import pytest
import torch

from .agreement import DTYPES
from .test_gram import KERNEL as GRAM
from .test_scan import CELL
from .test_scan import KERNEL as SCAN

pytestmark = pytest.mark.gpu

FLOAT, HALF = torch.float32, torch.float16
every_kernel = pytest.mark.parametrize("kernel", [GRAM, SCAN], ids=["gram", "scan"])


@pytest.mark.parametrize(
    ("kernel", "n", "k", "dtype"),
    [(GRAM, 8, 5, FLOAT), (GRAM, 8, 5, HALF), (GRAM, 8, 130, HALF), (SCAN, 3, 5, FLOAT)],
    ids=["gram", "gram, half", "gram, tiled", "scan"],
)
def test_padding_does_not_leak(kernel, n, k, dtype, device):
    lengths, inputs = [0, n // 2, n], kernel.inputs_for(device, batch=3, n=n, k=k, dtype=dtype)
    behind = torch.arange(n) >= torch.tensor(lengths)[:, None]
    dirty = inputs | {name: inputs[name].clone() for name in kernel.tokens}
    for name in kernel.tokens:
        dirty[name][behind.to(device)] = torch.nan
    G = torch.randn(3, k, k)
    found = kernel.results(dirty, G, lengths=lengths, backend="triton")
    kernel.assert_close(found, kernel.expected_of(inputs, G, lengths), G, kernel.tolerances[dtype])
    assert all((found[name].cpu()[behind] == 0).all() for name in kernel.tokens)


VIEWS = {
    "transposed": lambda x: x.transpose(0, 1).contiguous().transpose(0, 1),
    "transposed at the end": lambda x: x.mT.contiguous().mT,
    "strided": lambda x: torch.stack([x, x + 1], -1).flatten(-2)[..., ::2],
    "expanded": lambda x: x[:1].expand(x.shape),
    "offset": lambda x: torch.cat([x[:1] * 0, x])[1:],
    "padded rows": lambda x: torch.cat([x, x], -1)[..., : x.shape[-1]],
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize(
    ("kernel", "options"),
    [(GRAM, {"n": 7, "use": "weighted"}), (GRAM, {"n": 7, "dtype": HALF}), (SCAN, {"n": 2})],
    ids=["gram", "gram, half", "scan"],
)
def test_inputs_may_have_any_strides(kernel, options, view, device):
    inputs = kernel.inputs_for(device, batch=2, k=4, **options)
    kernel.assert_agrees({name: VIEWS[view](x) if x.ndim > 1 else x for name, x in inputs.items()})


@pytest.mark.parametrize(
    ("kernel", "dtype"), [(GRAM, FLOAT), (GRAM, HALF), (SCAN, FLOAT)], ids=["gram", "gram, half", "scan"]
)
def test_a_gradient_may_come_expanded(kernel, dtype, device):
    inputs, G = kernel.inputs_for(device, batch=2, n=3, dtype=dtype), torch.ones(2, 5, 5)
    found = kernel.results(inputs, torch.ones(1, 1, 1, device=device).expand(2, 5, 5), backend="triton")
    kernel.assert_close(found, kernel.expected_of(inputs, G), G, kernel.tolerances[dtype])


@pytest.mark.parametrize("cut", [0, 1, 3], ids="cut={}".format)
@pytest.mark.parametrize(
    ("kernel", "n", "dtype", "times"),
    [(GRAM, 20, FLOAT, 2), (GRAM, 20, HALF, 2), (SCAN, 3, FLOAT, 1)],
    ids=["gram", "gram, half", "scan"],
)
def test_continuing_equals_encoding_at_once(kernel, n, dtype, times, cut, device):
    inputs = kernel.inputs_for(device, batch=1, n=n, dtype=dtype)
    cut = n if cut == 3 else cut
    first = kernel.run(inputs | {name: inputs[name][:, :cut] for name in kernel.tokens}, backend="triton")
    rest = {name: inputs[name][:, cut:] for name in kernel.tokens} | {"initial": first}
    whole = kernel.run(inputs, backend="triton")
    off = (kernel.run(inputs | rest, backend="triton") - whole).norm()
    assert off <= times * kernel.tolerances[dtype][0] * whole.norm()


@every_kernel
@pytest.mark.parametrize("dtype", DTYPES)
def test_memories_are_float32_and_gradients_of_the_inputs_type(kernel, dtype, device):
    inputs = kernel.inputs_for(device, batch=1, n=1, dtype=dtype)
    found = kernel.results(inputs, torch.ones(1, 5, 5), backend="triton")
    assert found.pop("memory").dtype == torch.float32
    assert {gradient.dtype for gradient in found.values()} == {dtype}


INPUTS = {GRAM: ("f", "alpha", "beta", "initial"), SCAN: ("h", "f", "initial", *CELL)}


@pytest.mark.parametrize(
    ("kernel", "wanted"), [(kernel, name) for kernel in INPUTS for name in INPUTS[kernel]]
)
def test_each_gradient_may_be_wanted_alone(kernel, wanted, device):
    inputs, G = kernel.inputs_for(device, batch=1, n=2), torch.randn(1, 5, 5)
    expected = kernel.expected_of(inputs, G)
    inputs[wanted].requires_grad_()
    (gradient,) = torch.autograd.grad(kernel.run(inputs, backend="triton"), inputs[wanted], G.to(device))
    kernel.assert_close({wanted: gradient}, {wanted: expected[wanted]}, G, kernel.tolerances[FLOAT])


# What the scan multiplies before its kernel is rounded by autocast.
@pytest.mark.parametrize(
    ("kernel", "n", "exact"), [(GRAM, 70, INPUTS[GRAM]), (SCAN, 3, ("f",))], ids=["gram", "scan"]
)
def test_autocast_does_not_change_the_sum_from_float32(kernel, n, exact, device):
    inputs, G = kernel.inputs_for(device, batch=1, n=n), torch.randn(1, 5, 5)
    with torch.autocast(device, torch.bfloat16):
        found = kernel.results(inputs, G, backend="triton")
    assert found["memory"].dtype == torch.float32
    expected = kernel.expected_of(inputs, G)
    kernel.assert_close(
        found, {name: expected[name] for name in ("memory", *exact)}, G, kernel.tolerances[FLOAT]
    )


@every_kernel
def test_a_second_derivative_is_refused(kernel, device):
    inputs = kernel.inputs_for(device, n=2)
    states = inputs["f"].requires_grad_()
    memory = kernel.run(inputs, backend="triton")
    (gradient,) = torch.autograd.grad(memory.square().sum(), states, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()
