"""What is counted: every request once, whichever process answered it."""

import subprocess
import sys

import pytest

from attar.server.board import Board
from attar.server.metrics import Metrics


def test_a_request_is_counted_by_route_and_status(served):
    served.post("/v1/ask", {"document": "0", "question": "Who left?"})
    served.post("/v1/ask", {"document": "no", "question": "Who left?"})
    lines = served.get("/metrics").text.splitlines()
    assert 'attar_requests_total{route="ask",status="200"} 1' in lines
    assert 'attar_requests_total{route="ask",status="404"} 1' in lines
    assert 'attar_request_seconds_count{route="ask"} 2' in lines


def test_the_store_and_the_queue_are_told(served):
    lines = served.get("/metrics").text.splitlines()
    assert "attar_store_documents 2" in lines
    assert 'attar_queue_length{work="ask"} 0' in lines
    assert "attar_requests_in_flight 0" in lines


def test_every_metric_is_explained(served):
    lines = served.get("/metrics").text.splitlines()
    explained = {line.split()[2] for line in lines if line.startswith("# TYPE")}
    found = {line.split("{")[0].split(" ")[0] for line in lines if not line.startswith("#")}
    ends = ("_bucket", "_sum", "_count")
    plain = {next((name.removesuffix(end) for end in ends if name.endswith(end)), name) for name in found}
    assert plain <= explained


def test_buckets_add_up():
    metrics = Metrics()
    for seconds in (0.0005, 0.003, 0.003, 99.0):
        metrics.answered("ask", 200, seconds)
    lines = list(metrics.lines())
    counts = [int(line.split()[-1]) for line in lines if line.startswith("attar_request_seconds_bucket")]
    assert counts == sorted(counts)
    assert (counts[0], counts[2], counts[-1]) == (1, 3, 4)


def test_a_status_that_is_not_listed_is_counted_too():
    metrics = Metrics()
    metrics.answered("page", 418, 0.001)
    assert 'attar_requests_total{route="page",status="other"} 1' in list(metrics.lines())


COUNTING = """
import sys
from pathlib import Path
from attar.server.board import Board
board = Board(3, Path(sys.argv[1]))
board.own[1] += 5
print(board.row, flush=True)
sys.stdin.read()
"""


def start_counting(path):
    words = [sys.executable, "-c", COUNTING, str(path)]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    return process, int(process.stdout.readline())


@pytest.mark.slow
def test_processes_count_side_by_side_and_go_on_where_a_killed_one_was(tmp_path):
    board = Board(3, tmp_path / "board")
    board.own[1] += 1
    killed, row = start_counting(tmp_path / "board")
    assert row != board.row
    assert board.sums().tolist() == [0.0, 6.0, 0.0]
    killed.kill()
    killed.communicate()
    again, same = start_counting(tmp_path / "board")
    assert same == row
    again.communicate("")
    assert board.sums().tolist() == [0.0, 11.0, 0.0]


HOLDING = """
import sys
from pathlib import Path
from attar.server.metrics import IN_FLIGHT, Metrics
metrics = Metrics(Path(sys.argv[1]))
metrics.now(IN_FLIGHT, 7)
metrics.answered("ask", 200, 0.001)
"""


@pytest.mark.slow
def test_what_a_killed_process_had_in_its_hands_is_forgotten(tmp_path):
    subprocess.run([sys.executable, "-c", HOLDING, str(tmp_path / "board")], check=True)
    lines = list(Metrics(tmp_path / "board").lines())
    assert "attar_requests_in_flight 0" in lines
    assert 'attar_requests_total{route="ask",status="200"} 1' in lines
