"""`torch.compile` takes every mechanism as one graph, memories in and out.

In a process of its own, without the tests' shape checks, which the compiler cannot see through: as users have
it.
"""

import subprocess
import sys

import pytest
import torch

MECHANISMS = ["none", "softmax", "linear", "gated", "decayed", "adaptive"]


def compiled(backend, *names):
    """Whether these mechanisms compile and agree with themselves run eagerly, by running this file."""
    command = [sys.executable, __file__, backend, *names]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.split() == list(names)


@pytest.mark.slow
def test_every_mechanism_compiles_to_one_graph_with_backward():
    assert compiled("aot_eager", *MECHANISMS)


@pytest.mark.slow
def test_the_default_compiler_agrees():
    assert compiled("inductor", "gated")


def assert_compiles(name, backend):
    from attar.nn.mechanisms import attention
    from attar.nn.mechanisms.base import Memories

    module = attention(name, 3, **({} if name in ("none", "softmax") else {"scale": "sqrt"}))
    lengths = torch.tensor([4, 1])  # adaptive is unrolled token by token: few of them
    inputs = torch.randn(2, 4, 3), torch.randn(2, 3, 3)
    eager = module.encode, module.extend, module.lookup
    results = []
    for functions in (eager, [torch.compile(f, fullgraph=True, backend=backend) for f in eager]):
        encode, extend, lookup = functions
        hidden, queries = (x.clone().requires_grad_() for x in inputs)
        memories = extend(encode(hidden, lengths), hidden)
        assert isinstance(memories, Memories)
        readout = lookup(memories, queries)
        wanted = (hidden, queries, *module.parameters())
        gradients = torch.autograd.grad(readout.square().sum(), wanted, allow_unused=True)
        results.append((memories.tokens, readout, *gradients))
    for x, y in zip(*results, strict=True):
        torch.testing.assert_close(x, y)


if __name__ == "__main__":
    torch.manual_seed(0)
    for mechanism in sys.argv[2:]:
        assert_compiles(mechanism, sys.argv[1])
        print(mechanism)
