"""Associative recall: the delta rule is its recurrence, samples are what the task says, memories add up and report."""

import json
from pathlib import Path

import pytest
import torch

from attar.paper.options import RECALL_MECHANISMS, RecallOptions
from attar.paper.recall import (
    PARTS,
    Associator,
    DeltaRule,
    draw,
    measure_merging,
    recall,
    recall_tables,
    run_recall,
)

pytestmark = pytest.mark.usefixtures("unchecked_shapes")
SMALL = RecallOptions(mechanisms="keyed", sizes="8", lengths="4,8", seeds=1, steps=3, vocabulary=64)
LEARNING = RecallOptions(lengths="4,8", steps=150, vocabulary=64)


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("gated", [False, True], ids=["delta", "gated"])
def test_the_delta_rule_is_its_recurrence(gated: bool) -> None:
    rule = DeltaRule(3, gated=gated).double()
    hidden, values = torch.randn(2, 5, 3).double(), torch.randn(2, 5, 4).double()
    keys = torch.nn.functional.normalize(rule.key(hidden), dim=-1)
    beta, alpha = torch.sigmoid(rule.gates(hidden)).unbind(-1)
    for document in range(2):
        S = torch.zeros(4, 3).double()
        for t in range(5):
            k, v, b = keys[document, t], values[document, t], beta[document, t]
            kept = alpha[document, t] * S if gated else S
            S = kept - b * torch.outer(kept @ k, k) + b * torch.outer(v, k)
        torch.testing.assert_close(rule.encode(hidden, values)[document], S.T)


@pytest.mark.parametrize("mechanism", RECALL_MECHANISMS)
def test_every_mechanism_trains_and_is_merged_exactly_where_it_can(mechanism: str) -> None:
    torch.manual_seed(1)
    network = Associator(mechanism, 8, SMALL.vocabulary)
    sample = draw(SMALL, 3, 8, rng())
    scores = network.recall(sample.read(network), sample.keys)
    scores.logsumexp(-1).sum().backward()
    assert scores.shape == (3, 8, 64)
    unused = (
        {"query.weight", "keys.weight"} if mechanism == "none" else set()
    )  # its readout knows no question
    assert all(p.grad is not None for name, p in network.named_parameters() if name not in unused)
    with torch.inference_mode():
        merging = dict(measure_merging(network.eval(), SMALL, rng()))
    assert list(merging) == list(PARTS)
    adds = {"linear", "gated", "decayed", "keyed", "keyed-ridge", "delta", "gated-delta"}
    for found in merging.values():
        assert (found.merged is None) == mechanism.startswith("adaptive")
        assert (found.rest is None) == (mechanism not in adds)
        if mechanism in adds - {"delta", "gated-delta"}:
            assert found.leak == 0


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["softmax", "linear", "gated", "decayed", "adaptive", "keyed-ridge"])
def test_a_network_learns_its_pairs(mechanism: str) -> None:
    assert run_recall(LEARNING, "cpu", mechanism, 32, seed=0).recall[8] > 0.95


@pytest.mark.slow
def test_the_report_has_a_row_per_network_and_a_figure(tmp_path: Path) -> None:
    lines: list[str] = []
    report = recall(SMALL, tmp_path, say=lines.append)
    assert lines[0].startswith("keyed, k 8, seed 0: 0.")
    assert json.loads((tmp_path / "report.json").read_text())["runs"][0]["mechanism"] == "keyed"
    assert (tmp_path / "recall.png").read_bytes().startswith(b"\x89PNG")
    table, merged = recall_tables(report).split("\n\n")
    assert [cell.strip() for cell in table.splitlines()[2].split("|")[1:4]] == ["keyed", "8", "256"]
    assert "±" not in table  # one seed
    assert "merged from 64" in merged
