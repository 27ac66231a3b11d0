"""The Grafana dashboard: every metric in it is one that a server reports, with those labels."""

import json
import re
from collections import defaultdict
from itertools import combinations

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

# Prometheus adds these.
ADDED = {"job", "instance", "le"}


@pytest.fixture(scope="module")
def board(root):
    return json.loads((root / "deploy" / "grafana.json").read_text())


@pytest.fixture(scope="module")
def expressions(board):
    return [target["expr"] for panel in board["panels"] for target in panel["targets"]]


@pytest.fixture(scope="module")
def labels(server):
    """The labels of each metric of a server that has answered a question."""
    body = {"document": "letters", "question": "Who wrote to Ann?"}
    httpx.post(f"{server.url}/v1/ask", json=body, headers=server.bearer, timeout=60).raise_for_status()
    text = httpx.get(f"{server.url}/metrics", headers=server.bearer).text
    found = defaultdict(set)
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found[sample.name] |= set(sample.labels)
    return found


@pytest.mark.slow
def test_every_metric_and_label_is_reported(expressions, board, labels):
    variables = [each["query"] for each in board["templating"]["list"]]
    for expression in [*expressions, *variables]:
        metrics = re.findall(r"\b(?:attar|process)_\w+", expression)
        for metric in metrics:
            assert metric in labels, expression
        used = re.findall(r"(\w+)=~?\"", expression)
        used += [name for names in re.findall(r"by \(([^)]+)\)", expression) for name in names.split(", ")]
        assert set(used) <= ADDED.union(*(labels[metric] for metric in metrics)), expression


@pytest.mark.slow
def test_every_metric_of_the_server_is_shown_or_left_out_on_purpose(expressions, labels):
    left_out = {
        "attar_store_readers",
        "attar_store_tokens",
        "process_max_fds",
        "process_virtual_memory_bytes",
    }
    shown = set(re.findall(r"\b(?:attar|process)_\w+", " ".join(expressions)))
    plain = {re.sub("_(bucket|sum|count)$", "", name) for name in shown}
    told = {re.sub("_(bucket|sum|count)$", "", name) for name in labels}
    assert told - plain == left_out


def test_panels_are_complete_and_do_not_overlap(board):
    places = {}
    for panel in board["panels"]:
        assert panel["title"]
        assert all(target["expr"] for target in panel["targets"])
        at = panel["gridPos"]
        places[panel["id"]] = {
            (x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])
        }
        assert at["x"] + at["w"] <= 24
    assert len(places) == len(board["panels"])
    assert not [pair for pair in combinations(places.values(), 2) if pair[0] & pair[1]]
