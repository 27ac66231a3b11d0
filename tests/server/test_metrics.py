"""Every request is counted once, whichever process answers it."""

import asyncio
import os
import platform
import sys

import pytest
from prometheus_client.parser import text_string_to_metric_families

import attar
from attar.server.metrics import DISCONNECTED, Metrics, Observe

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


@pytest.mark.parametrize(
    ("fault", "logged"), [("unable to write; the handler is closed", False), ("another fault", True)]
)
def test_an_answer_to_a_client_that_has_just_left_is_no_fault(fault, logged):
    async def answer(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def send(message):
        raise RuntimeError(fault)

    metrics = Metrics()
    scope = {"type": "http", "method": "GET", "path": "/v1/ask", "headers": []}
    asked = Observe(answer, metrics, {})(scope, None, send)
    if logged:
        with pytest.raises(RuntimeError, match=fault):
            asyncio.run(asked)
    else:
        asyncio.run(asked)
        assert f'status="{DISCONNECTED}"}} 1.0'.encode() in metrics.text()
