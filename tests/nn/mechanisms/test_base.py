"""`Memories` as a pytree, under torch.load, torch.export and vmap; device= and dtype=."""

import io
import subprocess
import sys

import pytest
import torch
from torch.utils import _pytree

from attar.nn.mechanisms import attention
from attar.nn.memories import Memories

MATRIX = ("linear", "gated", "decayed", "adaptive")
EXPORTED = ["linear", "gated", "decayed", "adaptive", "softmax"]


def some_memories():
    return Memories(torch.randn(2, 3, 3), torch.tensor([4, 5]), "linear")


def assert_same(found, expected):
    assert isinstance(found, Memories)
    assert torch.equal(found.state, expected.state)
    assert torch.equal(found.tokens, expected.tokens)


class TestMemories:
    def test_are_a_pytree_of_state_and_tokens(self):
        memories = some_memories()
        leaves, structure = _pytree.tree_flatten(memories)
        assert leaves[0] is memories.state
        assert leaves[1] is memories.tokens
        assert_same(_pytree.tree_unflatten(leaves, structure), memories)
        assert_same(
            _pytree.tree_map(lambda x: 2 * x, memories),
            Memories(2 * memories.state, 2 * memories.tokens, "linear"),
        )

    def test_load_under_the_defaults_of_torch_load(self):
        memories, file = some_memories(), io.BytesIO()
        torch.save({"memories": memories}, file)
        file.seek(0)
        assert_same(torch.load(file, weights_only=True)["memories"], memories)

    @pytest.mark.parametrize("name", ["softmax", *MATRIX])
    def test_lookups_go_through_vmap(self, name):
        module, queries = attention(name, 3), torch.randn(5, 2, 4, 3)
        states = torch.randn(5, 2, 3, 3)
        memories = Memories.__new__(Memories)
        empty = {"kept": None, "prepared": None, "ridge": 0.0, "names": None}
        memories.__dict__.update(state=states, tokens=torch.full((5, 2), 3), mechanism=name, **empty)
        mapped = torch.func.vmap(module.lookup)(memories, queries)
        expected = [
            module.lookup(Memories(s, torch.tensor([3, 3]), name), q)
            for s, q in zip(states, queries, strict=True)
        ]
        torch.testing.assert_close(mapped, torch.stack(expected))

    @pytest.mark.slow
    def test_go_through_export_in_and_out(self):
        ran = subprocess.run([sys.executable, __file__], capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr
        assert ran.stdout.split() == EXPORTED


class Encodes(torch.nn.Module):
    def __init__(self, mechanism):
        super().__init__()
        self.mechanism = mechanism

    def forward(self, memories, hidden, queries):
        memories = self.mechanism.extend(memories, hidden)
        return memories, self.mechanism.lookup(memories, queries)


if __name__ == "__main__":  # in a process without the tests' shape checks, which export cannot trace
    for name in EXPORTED:
        module = Encodes(attention(name, 3))
        arguments = (
            attention(name, 3).encode(torch.randn(2, 3, 3)),
            torch.randn(2, 4, 3),
            torch.randn(2, 1, 3),
        )
        sizes = {1: torch.export.Dim("n", min=2, max=4096)} if name != "softmax" else None
        structure = [None for _ in _pytree.tree_leaves(arguments[0])]
        exported = torch.export.export(module, arguments, dynamic_shapes=(structure, sizes, None)).module()
        if sizes:  # any length, not only the one that was traced
            arguments = (arguments[0], torch.randn(2, 150, 3), arguments[2])
        (memories, readouts), (expected, expected_readouts) = exported(*arguments), module(*arguments)
        assert isinstance(memories, Memories)
        torch.testing.assert_close(memories.state, expected.state)
        torch.testing.assert_close(readouts, expected_readouts)
        print(name)
