"""Every request is counted once, whichever process answers it."""

import platform
import subprocess
import sys
import time

import pytest
from prometheus_client.parser import text_string_to_metric_families

import attar
from attar.server.metrics import Metrics, SharedCounters


def test_a_request_is_counted_by_route_and_status(served):
    served.post("/v1/ask", {"document": "0", "question": "Who left?"})
    served.post("/v1/ask", {"document": "no", "question": "Who left?"})
    assert served.metric("attar_requests_total", route="ask", status="200") == 1
    assert served.metric("attar_requests_total", route="ask", status="404") == 1
    assert served.metric("attar_request_seconds_count", route="ask") == 2


@pytest.mark.parametrize(
    ("method", "path", "status", "route"),
    [
        ("GET", "/v1/nothing", 404, "unmatched"),
        ("GET", "/nothing.js", 404, "page"),
        ("DELETE", "/v1/ask", 405, "ask"),
        ("POST", "/healthz", 405, "health"),
        ("PUT", "/v1/documents/0", 413, "put_document"),
    ],
)
def test_a_refused_request_has_the_route_of_its_path(serve, method, path, status, route):
    served = serve(max_body=5)
    assert served.call(method, path, "longer than five" if status == 413 else None).status_code == status
    assert served.metric("attar_requests_total", route=route, status=str(status)) == 1


def test_what_is_not_http_is_counted_for_the_connection(listen, metric):
    listening = listen()
    listening.send_raw(b"HELLO\r\n\r\n")
    text = listening.send_raw(
        b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
    ).decode()
    body = text.partition("\r\n\r\n")[2]
    assert metric(body, "attar_requests_total", route="connection", status="400") == 1


def test_the_store_and_the_queues_are_reported(served):
    assert served.metric("attar_store_documents") == 2
    assert served.metric("attar_queue_length", work="ask") == 0
    assert served.metric("attar_requests_in_flight") == 0


def test_the_version_and_the_reader_are_reported(served):
    reader = served.library.reader.fingerprint
    labels = {"version": attar.__version__, "python": platform.python_version(), "reader": reader}
    assert served.metric("attar_build_info", **labels) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="read from /proc")
def test_a_process_reports_its_memory_time_and_files(served):
    assert served.metric("process_resident_memory_bytes", worker="0") > 2**20
    assert served.metric("process_cpu_seconds_total", worker="0") > 0
    assert 0 < served.metric("process_open_fds", worker="0") < served.metric("process_max_fds", worker="0")
    assert served.metric("process_start_time_seconds", worker="0") < time.time()


def test_every_metric_is_in_the_text_format_with_a_type_and_a_help_text(served):
    served.post("/v1/ask", {"document": "0", "question": "Who left?"})
    reply = served.get("/metrics")
    assert reply.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    families = list(text_string_to_metric_families(reply.text))
    assert len(families) > 10
    assert all(family.documentation and family.type != "unknown" for family in families)


def test_buckets_are_cumulative():
    metrics = Metrics(["ask"])
    for seconds in (0.0005, 0.003, 0.003, 99.0):
        metrics.count_request("ask", 200, seconds)
    lines = metrics.text().decode().splitlines()
    counts = [float(line.split()[-1]) for line in lines if line.startswith("attar_request_seconds_bucket")]
    assert counts == sorted(counts)
    assert (counts[0], counts[2], counts[-1]) == (1, 3, 4)


def test_an_unlisted_status_is_counted_as_other(metric):
    metrics = Metrics([])
    metrics.count_request("page", 418, 0.001)
    assert metric(metrics.text().decode(), "attar_requests_total", route="page", status="other") == 1


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
    assert counters.all().sum(0).tolist() == [0.0, 6.0, 0.0]
    killed.kill()
    killed.communicate()
    again, same = start_counting(tmp_path / "counters")
    assert same == row
    again.communicate("")
    assert counters.all().sum(0).tolist() == [0.0, 11.0, 0.0]


ENDING = """
import sys
from pathlib import Path
from attar.server.metrics import Metrics
metrics = Metrics(["ask"], Path(sys.argv[1]))
metrics.set_in_flight(7)
metrics.count_request("ask", 200, 0.001)
"""


@pytest.mark.slow
def test_of_a_process_that_ended_only_the_counts_stay(tmp_path, metric):
    own = Metrics(["ask"], tmp_path / "counters")
    subprocess.run([sys.executable, "-c", ENDING, str(tmp_path / "counters")], check=True)
    text = own.text().decode()
    assert metric(text, "attar_requests_total", route="ask", status="200") == 1
    assert metric(text, "process_open_fds", worker="0") > 0
    assert metric(text, "process_open_fds", worker="1") is None
    assert metric(text, "attar_requests_in_flight") == 0
