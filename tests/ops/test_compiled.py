"""`torch.compile` takes the operations as one graph.

In a process of its own, without the tests' shape checks, which the compiler cannot see through.
"""

import subprocess
import sys

import pytest
import torch

pytestmark = pytest.mark.slow


def test_every_operation_compiles_to_one_graph_with_backward():
    assert compiled(__file__, "aot_eager", "read", "read_gated", "ask_softmax")


def compiled(file, backend, *names):
    """Whether everything of these names compiles and agrees with itself run eagerly, by running the file."""
    command = [sys.executable, file, backend, *names]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.split() == list(names)


def read(f, alpha, queries, lengths):
    from attar.ops.gram import encode
    from attar.ops.lookups import lookup

    return lookup(encode(f, alpha=alpha, lengths=lengths), queries)


def read_gated(f, alpha, queries, lengths):
    from attar.ops.gram import encode
    from attar.ops.lookups import lookup
    from attar.ops.reference import gated

    gate = torch.eye(f.shape[2])
    return lookup(encode(gated(f, gate, gate[0]), beta=alpha, lengths=lengths), queries)


def ask_softmax(f, alpha, queries, lengths):
    from attar.ops.lookups import softmax_lookup

    return softmax_lookup(f * alpha[:, :, None], queries, lengths=lengths)


def assert_compiles(run, backend, lengths):
    inputs = torch.randn(2, 6, 4), torch.rand(2, 6), torch.randn(2, 3, 4)
    results = []
    for function in (run, torch.compile(run, fullgraph=True, backend=backend)):
        f, alpha, queries = (x.clone().requires_grad_() for x in inputs)
        readout = function(f, alpha, queries, lengths)
        results.append((readout, *torch.autograd.grad(readout.square().sum(), (f, alpha, queries))))
    for x, y in zip(*results, strict=True):
        torch.testing.assert_close(x, y)


if __name__ == "__main__":
    for name in sys.argv[2:]:
        for lengths in (None, torch.tensor([6, 2]))[-1 if sys.argv[1] == "inductor" else 0 :]:
            assert_compiles(globals()[name], sys.argv[1], lengths)
        print(name)
