"""Every request is counted once, whichever process answers it."""

import os
import platform
import subprocess
import sys

import pytest
from prometheus_client.parser import text_string_to_metric_families

import attar

from .conftest import read_metric

QUESTION = {"document": "0", "question": "Who left?"}


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "route"),
    [
        ("POST", "/v1/ask", QUESTION, 200, "ask"),
        ("POST", "/v1/ask", QUESTION | {"document": "no"}, 404, "ask"),
        ("POST", "/v1/ask", "x" * 1_000, 413, "ask"),
        ("HEAD", "/v1/documents/0", None, 200, "show_document"),
        ("DELETE", "/v1/ask", None, 405, "unmatched"),
        ("GET", "/v1/nothing", None, 404, "unmatched"),
        ("GET", "/nothing.js", None, 404, "page"),
    ],
)
def test_a_request_is_counted_by_route_and_status(serve, method, path, body, status, route):
    served = serve(max_body=500)
    assert served.call(method, path, body).status_code == status
    assert served.metric("attar_requests_total", route=route, status=str(status)) == 1
    assert served.metric("attar_request_seconds_count", route=route) == 1


def test_the_library_the_queue_and_the_process_are_reported(served):
    reply = served.get("/metrics")
    assert reply.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    families = list(text_string_to_metric_families(reply.text))
    assert all(family.documentation and family.type != "unknown" for family in families)
    assert served.metric("attar_store_documents") == 2
    assert served.metric("attar_queue_length") == 0
    assert served.metric("attar_requests_in_flight") == 0
    labels = {"version": attar.__version__, "python": platform.python_version()}
    assert served.metric("attar_build_info", reader=served.library.fingerprint, **labels) == 1
    if sys.platform == "linux":
        assert served.metric("process_resident_memory_bytes", worker=str(os.getpid())) > 2**20


COUNTING = """
import sys
from attar.server.metrics import Metrics
metrics = Metrics()
metrics.count_request("ask", 200, 0.001)
metrics.in_flight.set(7)
print(flush=True)
sys.stdin.read()
"""
READING = """
import sys
from attar.server.metrics import Metrics
sys.stdout.buffer.write(Metrics().text())
"""


@pytest.fixture
def run(tmp_path):
    """Runs code in a process that shares its metrics with the others."""
    environment = os.environ | {"PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    options = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": environment}
    return lambda code: subprocess.Popen([sys.executable, "-c", code], **options)


@pytest.mark.slow
def test_processes_share_metrics_and_of_one_that_was_killed_only_the_counts_stay(run):
    counting = [run(COUNTING) for _ in range(2)]
    for process in counting:
        process.stdout.readline()

    def told(name, **labels):
        return read_metric(run(READING).communicate()[0], name, **labels)

    assert told("attar_requests_total", route="ask", status="200") == 2
    assert told("attar_requests_in_flight") == 14
    counting[0].kill()
    counting[0].communicate()
    assert told("attar_requests_total", route="ask", status="200") == 2
    assert told("attar_requests_in_flight") == 7
    assert told("process_open_fds", worker=str(counting[1].pid)) > 0
    assert told("process_open_fds", worker=str(counting[0].pid)) is None
    counting[1].communicate("")
