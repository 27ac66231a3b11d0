"""Behind a proxy: the client's own address in the log, and paths under a prefix."""

import logging
import time

import pytest

import attar

pytestmark = pytest.mark.slow

TOKEN = "s3cret"
BEARER = {"authorization": f"Bearer {TOKEN}"}
QUESTION = {"document": "0", "question": "Who left?"}


def client_in(caplog):
    """The client's address in the first line of the log, which is written after the answer is sent."""
    deadline = time.monotonic() + 60
    while not caplog.records:
        assert time.monotonic() < deadline
    return caplog.records[0].fields["client"]


@pytest.mark.parametrize(
    ("trusted", "sent", "logged"),
    [
        (None, "203.0.113.7", "127.0.0.1"),
        ("10.0.0.1", "203.0.113.7", "127.0.0.1"),
        ("127.0.0.1", "203.0.113.7", "203.0.113.7"),
        ("127.0.0.0/8, 10.0.0.1", "198.51.100.1, 203.0.113.7, 10.0.0.1", "203.0.113.7"),
        ("*", "\t2001:db8::7", "2001:db8::7"),
    ],
    ids=["default", "another proxy", "the proxy", "two proxies", "all"],
)
def test_a_forwarded_address_is_logged_if_its_proxy_is_trusted(listen, caplog, trusted, sent, logged):
    listening = listen(forwarded_allow_ips=trusted)
    caplog.set_level(logging.INFO, "attar.server")
    caplog.clear()
    head = f"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nx-forwarded-for: {sent}\r\n\r\n"
    listening.send_raw(head.encode())
    assert client_in(caplog) == logged


def test_a_forwarded_address_is_cut_and_escaped_in_the_log(listen, caplog):
    listening = listen(forwarded_allow_ips="*")
    caplog.set_level(logging.INFO, "attar.server")
    caplog.clear()
    sent = b"\x9b2J" + b"x" * 9_000
    listening.send_raw(
        b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nx-forwarded-for: %b\r\n\r\n" % sent
    )
    client = client_in(caplog)
    assert client.isprintable()
    assert len(client) < 100


@pytest.mark.parametrize("prefix", ["", "/attar"], ids=["removed by the proxy", "left by the proxy"])
def test_a_server_behind_a_prefix_answers_all_routes(serve, refused, prefix):
    served = serve(prefix="/attar", token=TOKEN)
    assert served.get(f"{prefix}/").text == served.get(f"{prefix}/index.html").text
    assert served.get(f"{prefix}/docs").status_code == 200
    assert served.post(f"{prefix}/v1/ask", QUESTION, headers=BEARER).status_code == 200
    assert (
        served.put(f"{prefix}/v1/documents/a%2Fb", {"text": "Ann left."}, headers=BEARER).json()["name"]
        == "a/b"
    )
    assert served.metric("attar_requests_total", BEARER, route="ask", status="200") == 1
    for path in ("/v1/ask", "/v1/documents/0", "/metrics"):
        refused(served.get(f"{prefix}{path}"), 401)
    refused(served.get("/%61ttar/docs"), 404)


def test_the_prefix_alone_leads_to_the_page(serve):
    response = serve(prefix="/attar").get("/attar")
    assert (response.status_code, response.headers["location"]) == (308, "/attar/")


def test_the_openapi_document_names_the_prefix(serve):
    assert serve(prefix="/attar").get("/attar/openapi.json").json()["servers"] == [{"url": "/attar"}]


def test_the_client_takes_the_prefix_in_its_address(listen):
    listening = listen(prefix="/attar", token=TOKEN)
    for url in (f"{listening.url}/attar", f"{listening.url}/attar/"):
        with attar.Client(url, token=TOKEN) as client:
            assert [each.name for each in client.documents()] == ["0", "1"]
            assert client.show("0").name == "0"
