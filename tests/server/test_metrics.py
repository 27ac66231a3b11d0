"""Every request is counted once, whichever process answers it."""

import subprocess
import sys

import pytest

from attar.server.metrics import Metrics, SharedCounters


def test_a_request_is_counted_by_route_and_status(served):
    served.post("/v1/ask", {"document": "0", "question": "Who left?"})
    served.post("/v1/ask", {"document": "no", "question": "Who left?"})
    lines = served.get("/metrics").text.splitlines()
    assert 'attar_requests_total{route="ask",status="200"} 1' in lines
    assert 'attar_requests_total{route="ask",status="404"} 1' in lines
    assert 'attar_request_seconds_count{route="ask"} 2' in lines


def test_the_store_and_the_queues_are_reported(served):
    lines = served.get("/metrics").text.splitlines()
    assert "attar_store_documents 2" in lines
    assert 'attar_queue_length{work="ask"} 0' in lines
    assert "attar_requests_in_flight 0" in lines


def test_every_metric_has_a_type(served):
    served.post("/v1/ask", {"document": "0", "question": "Who left?"})
    lines = served.get("/metrics").text.splitlines()
    typed = {line.split()[2] for line in lines if line.startswith("# TYPE")}
    found = {line.split("{")[0].split(" ")[0] for line in lines if not line.startswith("#")}
    ends = ("_bucket", "_sum", "_count")
    plain = {next((name.removesuffix(end) for end in ends if name.endswith(end)), name) for name in found}
    assert plain == typed


def test_buckets_are_cumulative():
    metrics = Metrics(["ask"])
    for seconds in (0.0005, 0.003, 0.003, 99.0):
        metrics.count_request("ask", 200, seconds)
    lines = list(metrics.lines())
    counts = [int(line.split()[-1]) for line in lines if line.startswith("attar_request_seconds_bucket")]
    assert counts == sorted(counts)
    assert (counts[0], counts[2], counts[-1]) == (1, 3, 4)


def test_an_unlisted_status_is_counted_as_other():
    metrics = Metrics([])
    metrics.count_request("page", 418, 0.001)
    assert 'attar_requests_total{route="page",status="other"} 1' in list(metrics.lines())


COUNTING = """
import sys
from pathlib import Path
from attar.server.metrics import SharedCounters
counters = SharedCounters(3, Path(sys.argv[1]))
counters.own[1] += 5
print(counters.row, flush=True)
sys.stdin.read()
"""


def start_counting(path):
    words = [sys.executable, "-c", COUNTING, str(path)]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    return process, int(process.stdout.readline())


@pytest.mark.slow
def test_processes_share_counters_and_a_new_one_takes_over_the_row_of_a_killed_one(tmp_path):
    counters = SharedCounters(3, tmp_path / "counters")
    counters.own[1] += 1
    killed, row = start_counting(tmp_path / "counters")
    assert row != counters.row
    assert counters.sums().tolist() == [0.0, 6.0, 0.0]
    killed.kill()
    killed.communicate()
    again, same = start_counting(tmp_path / "counters")
    assert same == row
    again.communicate("")
    assert counters.sums().tolist() == [0.0, 11.0, 0.0]


HOLDING = """
import sys
from pathlib import Path
from attar.server.metrics import Metrics
metrics = Metrics(["ask"], Path(sys.argv[1]))
metrics.set_in_flight(7)
metrics.count_request("ask", 200, 0.001)
"""


@pytest.mark.slow
def test_requests_in_flight_of_a_killed_process_are_not_counted(tmp_path):
    subprocess.run([sys.executable, "-c", HOLDING, str(tmp_path / "counters")], check=True)
    lines = list(Metrics(["ask"], tmp_path / "counters").lines())
    assert "attar_requests_in_flight 0" in lines
    assert 'attar_requests_total{route="ask",status="200"} 1' in lines
