"""Heads: each is a mechanism of its own, with its own part of the states and its own gates."""

import pytest
import torch

from attar.ops import reference
from tests.ops.plain_ridge import plain_ridge

from .test_mechanisms import trained

SIZE, HEADS = 6, 2
PART = SIZE // HEADS


def expected_of(module, hidden, queries):
    """The readouts of whole documents, head by head, with the loops of the reference."""
    f = hidden
    if module.name in ("gated", "decayed", "adaptive"):
        f = torch.sigmoid(module.gate(hidden)) * hidden
    readouts = []
    for head in range(HEADS):
        part, rows = slice(head * PART, (head + 1) * PART), slice(2 * head, 2 * head + 2)
        F, q = f[..., part], queries[..., part]
        if module.name == "softmax":
            readouts.append(reference.softmax_lookup(F, q))
            continue
        logits = module.keep_and_write(hidden)[..., rows] if module.name in ("decayed", "adaptive") else None
        if module.name == "adaptive":
            cell = reference.AffineGates(None, module.read_weight[rows], None, module.energy_weight[rows])
            C = reference.encode_adaptive(logits, F, cell)
        else:
            C = reference.encode(F, *(() if logits is None else torch.sigmoid(logits).unbind(-1)))
        readouts.append(reference.lookup(C, q))
    return torch.cat(readouts, -1)


@pytest.mark.parametrize("name", ["softmax", "linear", "gated", "decayed", "adaptive"])
class TestEveryHead:
    def test_reads_its_own_part(self, name):
        module = trained(name, SIZE, heads=HEADS)
        hidden, queries = torch.randn(3, 9, SIZE).double(), torch.randn(3, 2, SIZE).double()
        torch.testing.assert_close(module(hidden, queries), expected_of(module, hidden, queries))


@pytest.mark.parametrize("ridge", [False, True])
def test_keyed_divides_keys_and_values(ridge):
    module, hidden = trained("keyed", SIZE, heads=HEADS, ridge=ridge), torch.randn(2, 9, SIZE).double()
    values, queries = torch.randn(2, 9, 4).double(), torch.randn(2, 3, SIZE).double()
    found, keys = module(hidden, queries, values=values), module.keys(hidden)
    for head in range(HEADS):
        part = slice(head * PART, (head + 1) * PART)
        k, v, q = keys[..., part], values[..., 2 * head : 2 * head + 2], queries[..., part]
        written = k.mT @ torch.cat([v, k], 2)
        expected = plain_ridge(written, q, module.ridge) if ridge else reference.lookup(k.mT @ v, q)
        torch.testing.assert_close(found[..., 2 * head : 2 * head + 2], expected)


def test_the_gate_that_reads_follows_its_equation():
    module = trained("adaptive", 3, gate_reads=True)
    hidden = torch.randn(1, 7, 3).double()
    C = torch.zeros(3, 3).double()
    for h in hidden[0]:
        f = torch.sigmoid(module.gate(h)) * h
        r = C @ f
        squashed = r / (1 + r.square().mean()).sqrt()
        energy = f @ r / f.square().sum().square()
        read = module.read_weight @ squashed + module.energy_weight * energy / (1 + energy)
        alpha, beta = torch.sigmoid(module.keep_and_write(h) + read)
        written = torch.sigmoid(module.gate(h) + module.gate_read_weight @ squashed) * h
        C = alpha * C + beta * torch.outer(written, written)
    torch.testing.assert_close(module.encode(hidden).state[0], C)
