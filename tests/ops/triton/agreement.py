"""What the tests of kernels share: values and gradients by name, against the reference in float64."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch

ON_CUDA = torch.cuda.is_available()
# In float32 `encode` sums with cuBLAS and only its gradient is a kernel; float16 takes the kernels both ways.
EXACT, NARROW = pytest.param(torch.float32, id="float32"), pytest.param(torch.float16, id="float16")
needs_cuda = pytest.mark.skipif(not ON_CUDA, reason="Triton's interpreter multiplies bfloat16's raw bits")
DTYPES = [EXACT, NARROW, pytest.param(torch.bfloat16, id="bfloat16", marks=needs_cuda)]


@dataclass(frozen=True, eq=False)
class Kernel:
    """An operation with a kernel: how it is called, on what, and how far values and gradients may be off."""

    run: Callable[..., torch.Tensor]
    inputs_for: Callable[..., dict[str, torch.Tensor]]
    # Shares of the norm, of values and of gradients.
    tolerances: dict[torch.dtype, tuple[float, float]]
    # Inputs with a row per token.
    tokens: tuple[str, ...]
    # Inputs whose gradient may be tiny: it is as exact as what it was made of.
    decayed: tuple[str, ...] = ()

    def results(self, inputs, G, **options):
        """The memory and the gradient of every input, by name."""
        leaves = {name: x.detach().requires_grad_() for name, x in inputs.items()}
        memory = self.run(leaves, **options)
        if not memory.requires_grad:  # a loop over no tokens has met none of its inputs
            gradients = [torch.zeros_like(x) for x in leaves.values()]
        else:
            wanted = {"allow_unused": True, "materialize_grads": True}
            gradients = torch.autograd.grad(memory, list(leaves.values()), G.to(memory), **wanted)
        return {"memory": memory.detach(), **dict(zip(leaves, gradients, strict=True))}

    def expected_of(self, inputs, G, lengths=None):
        exact = {name: x.cpu().double() for name, x in inputs.items()}
        return self.results(exact, G, lengths=lengths, backend="reference")

    def assert_close(self, found, expected, G, tolerances):
        for name, y in expected.items():
            x, allowed = found[name].cpu().double(), tolerances[name != "memory"]
            error, scale = float((x - y).norm()), float((G if name in self.decayed else y).norm())
            assert x.shape == y.shape, name
            assert error <= allowed * scale, f"{name} is off by {error / max(scale, 1e-30):.1e}"

    def assert_agrees(self, inputs, lengths=None):
        batch, _, k = inputs["f"].shape
        G = torch.randn(batch, k, k)
        found = self.results(inputs, G, lengths=lengths, backend="triton")
        self.assert_close(found, self.expected_of(inputs, G, lengths), G, self.tolerances[inputs["f"].dtype])
