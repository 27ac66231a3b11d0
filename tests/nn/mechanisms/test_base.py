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
OPTIONS = {"": {}, "heads": {"heads": 2, "scale": "sqrt"}, "ridge": {"heads": 2, "ridge": True}}
EXPORTED = ["none", "softmax", "linear", "gated", "decayed", "adaptive", "keyed"]
EXPORTED += ["decayed-heads", "adaptive-heads", "keyed-heads", "keyed-ridge"]


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

    @pytest.mark.slow
    def test_are_returned_from_an_export_of_any_batch_and_length(self):
        ran = subprocess.run([sys.executable, __file__], capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr
        assert ran.stdout.split() == EXPORTED


class Encodes(torch.nn.Module):
    def __init__(self, mechanism):
        super().__init__()
        self.mechanism = mechanism

    def forward(self, hidden, queries, lengths):
        written = {"values": hidden} if self.mechanism.name == "keyed" else {}
        memories = self.mechanism.encode(hidden, lengths, **written)
        memories = self.mechanism.extend(memories, hidden, **written)
        return memories, self.mechanism.lookup(memories, queries)


class ReadsAlong(Encodes):
    def forward(self, hidden, queries, lengths):
        written = {"values": hidden} if self.mechanism.name == "keyed" else {}
        return self.mechanism.lookup_along(hidden, queries[:, :1].expand_as(hidden), lengths, **written)


def inputs(batch, n, queries):
    lengths = torch.randint(1, n + 1, (batch,))
    return torch.randn(batch, n, 4), torch.randn(batch, queries, 4), lengths


def assert_exports(module):
    """With any number of documents, tokens and queries, not only those that were traced."""
    batch, n, m = (torch.export.Dim(name, min=1, max=4096) for name in ("batch", "n", "m"))
    sizes = ({0: batch, 1: n}, {0: batch, 1: m}, {0: batch})
    exported = torch.export.export(module, inputs(3, 70, 2), dynamic_shapes=sizes).module()
    for arguments in (inputs(3, 70, 2), inputs(2, 64, 5), inputs(1, 1, 1), inputs(5, 150, 3)):
        found, expected = exported(*arguments), module(*arguments)
        assert _pytree.tree_structure(found) == _pytree.tree_structure(expected)
        for x, y in zip(_pytree.tree_leaves(found), _pytree.tree_leaves(expected), strict=True):
            torch.testing.assert_close(x, y)


if __name__ == "__main__":  # in a process without the tests' shape checks, which export cannot trace
    for kind in EXPORTED:
        name, _, option = kind.partition("-")
        module = attention(name, 4, **OPTIONS[option])
        assert_exports(Encodes(module))
        if name in ("linear", "gated", "decayed", "keyed") and option != "ridge":
            assert_exports(ReadsAlong(module))
        print(kind)
