"""What the tests of kernels share: values and gradients by name, against the reference in float64."""

import torch


def results(run, inputs, G, **options):
    """The memory and the gradient of every input, by name."""
    leaves = {name: x.detach().requires_grad_() for name, x in inputs.items()}
    memory = run(leaves, **options)
    if not memory.requires_grad:  # a loop over no tokens has met none of its inputs
        gradients = [torch.zeros_like(x) for x in leaves.values()]
    else:
        wanted = {"allow_unused": True, "materialize_grads": True}
        gradients = torch.autograd.grad(memory, list(leaves.values()), G.to(memory), **wanted)
    return {"memory": memory.detach(), **dict(zip(leaves, gradients, strict=True))}


def expected_of(run, inputs, G, lengths=None):
    exact = {name: x.cpu().double() for name, x in inputs.items()}
    return results(run, exact, G, lengths=lengths, backend="reference")


def assert_close(found, expected, tolerances, scales=()):
    """Off by no more than the tolerances of values and of gradients, as shares of their norm, or of a given scale."""
    for name, y in expected.items():
        x, allowed = found[name].cpu().double(), tolerances[name != "memory"]
        error, scale = float((x - y).norm()), float(dict(scales).get(name, y.norm()))
        assert x.shape == y.shape, name
        assert error <= allowed * scale, f"{name} is off by {error / max(scale, 1e-30):.1e}"
