"""Behind a proxy: the client's own address in the log, and paths under a prefix."""

import logging

import pytest

import attar

from .conftest import wait_until

pytestmark = pytest.mark.slow

TOKEN = "s3cret"
BEARER = {"authorization": f"Bearer {TOKEN}"}
QUESTION = {"document": "0", "question": "Who left?"}


@pytest.mark.parametrize(
    ("trusted", "sent", "logged"),
    [
        (None, b"203.0.113.7", "127.0.0.1"),
        ("10.0.0.1", b"203.0.113.7", "127.0.0.1"),
        ("127.0.0.1", b"203.0.113.7", "203.0.113.7"),
        ("127.0.0.0/8, 10.0.0.1", b"198.51.100.1, 203.0.113.7, 10.0.0.1", "203.0.113.7"),
        ("*", b"\t2001:db8::7", "2001:db8::7"),
        ("*", b"\x9b2J" + b"x" * 9_000, None),
    ],
    ids=["default", "another proxy", "the proxy", "two proxies", "all", "cut and escaped"],
)
def test_a_forwarded_address_is_logged_if_its_proxy_is_trusted(listen, caplog, trusted, sent, logged):
    listening = listen(forwarded_allow_ips=trusted)
    caplog.set_level(logging.INFO, "attar.server")
    caplog.clear()
    head = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nx-forwarded-for: %b\r\n\r\n"
    listening.send_raw(head % sent)
    wait_until(lambda: caplog.records)  # written after the answer is sent
    client = caplog.records[0].fields["client"]
    assert client == logged if logged else client.isprintable() and len(client) < 100


@pytest.mark.parametrize("prefix", ["", "/attar"], ids=["removed by the proxy", "left by the proxy"])
def test_a_server_behind_a_prefix_answers_all_routes(serve, refused, prefix):
    served = serve(prefix="/attar", token=TOKEN)
    assert served.get(f"{prefix}/").text == served.get(f"{prefix}/index.html").text
    assert served.get(f"{prefix}/docs").status_code == 200
    assert served.post(f"{prefix}/v1/ask", QUESTION, headers=BEARER).status_code == 200
    put = served.put(f"{prefix}/v1/documents/a%2Fb", {"text": "Ann left."}, headers=BEARER)
    assert put.json()["name"] == "a/b"
    assert served.metric("attar_requests_total", BEARER, route="ask", status="200") == 1
    for path in ("/v1/ask", "/v1/documents/0", "/metrics"):
        refused(served.get(f"{prefix}{path}"), 401)
    refused(served.get("/%61ttar/docs"), 404)


def test_the_prefix_leads_to_the_page_and_is_in_the_openapi_document(serve):
    served = serve(prefix="/attar")
    response = served.get("/attar")
    assert (response.status_code, response.headers["location"]) == (308, "/attar/")
    assert served.get("/attar/openapi.json").json()["servers"] == [{"url": "/attar"}]


@pytest.mark.parametrize("path", ["/attar", "/attar/"])
def test_the_client_takes_the_prefix_in_its_address(listen, path):
    url = listen(prefix="/attar", token=TOKEN).url + path
    with attar.Client(url, token=TOKEN) as client:
        assert [document.name for document in client.documents()] == ["0", "1"]
