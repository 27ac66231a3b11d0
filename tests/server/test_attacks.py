"""Requests that are sent as bytes to a real server: headers and paths that others read otherwise, odd characters.

Floods against a server process, about a second each: its memory stays, and it goes on answering.
`python -m benchmarks.floods` runs the same for a minute each.
"""

import json

import pytest

from benchmarks.floods import FLOODS, GROWTH, measure
from benchmarks.server import fill, serving

from .conftest import ASK, CLOSE, END, JSON, request, send_raw, statuses_in

TOKEN = "s3cret-token"
AUTHORIZATION = f"authorization: Bearer {TOKEN}"


@pytest.fixture(scope="module")
def server(tmp_path_factory, tiny_reader_folder):
    folder = tmp_path_factory.mktemp("flooded") / "library"
    fill(folder, tiny_reader_folder, 8)
    with serving(folder, tiny_reader_folder) as running:
        yield running


@pytest.mark.nightly
@pytest.mark.parametrize("flood", FLOODS, ids=lambda flood: flood.what)
def test_memory_stays_and_questions_are_answered(server, flood):
    row = measure(server, flood, 1.1)
    # A second has few checks of health, and the tests next to it take the CPU: `python -m benchmarks.floods` judges
    # their share.
    assert (row.growth <= GROWTH, row.note) == (True, ""), row


@pytest.mark.slow
@pytest.mark.parametrize(
    "again",
    [AUTHORIZATION, "authorization: Bearer other", "Host: localhost", JSON],
    ids=lambda line: line[:24],
)
def test_two_headers_of_which_there_may_be_one_are_refused(listen, again):
    answer = listen(token=TOKEN).send_raw(*request("/v1/ask", ASK, AUTHORIZATION, again))
    assert statuses_in(answer) == [400]
    assert f"{again.partition(':')[0].lower()}: expected one header, got 2".encode() in answer


@pytest.mark.slow
@pytest.mark.parametrize(
    "path",
    [
        *("/%76%31/documents", "/v1/%64ocuments/0", "/%6detrics", "/%68ealthz"),
        *("/../../../../etc/passwd", "/..%2f..%2fapp.py", "/%2e%2e/app.py", "/page/../app.py"),
        *("//etc/passwd", "/..\\app.py", "/index.html%00.js", "/%00"),
    ],
)
def test_only_names_may_be_percent_encoded_and_paths_cannot_leave_the_folder_of_the_page(listen, path):
    answer = listen().send_raw(f"GET {path} HTTP/1.1\r\nhost: localhost\r\n".encode() + END)
    assert statuses_in(answer) == [404]
    assert b"application/problem+json" in answer


# Control characters of C1 and of direction, which headers may have, and those of C0, which they may not.
ODD = b"\x9b\xe2\x80\xae"
ESCAPE = b"\x1b[2J"
_ASK_HEAD = b"POST /v1/ask HTTP/1.1\r\nhost: localhost\r\n"


@pytest.mark.slow
@pytest.mark.parametrize("log_format", ["plain", "json"])
def test_what_a_client_sends_is_cut_and_escaped_in_answers_and_logs(start, log_format):
    running = start("--log-format", log_format)
    running.wait_for("startup complete")
    before, port = len(running.lines), int(running.url.rpartition(":")[2])
    attacks = {
        422: b"".join(request("/v1/ask", {"\x1b[2J\r\n\x9b\u202e" + "x" * 3_000_000: 1}, CLOSE)),
        404: b"GET /v1/documents/%1b%0a" + b"y" * 9_000 + b" HTTP/1.1\r\nhost: localhost\r\n" + END,
        400: b"GET /" + ESCAPE + ODD + b" HTTP/1.1\r\n\r\n",
        415: _ASK_HEAD + b"content-type: " + ODD + b"\r\nx-request-id: " + ODD + b"\r\n" + END,
    }
    for status, attack in attacks.items():
        answer = send_raw(port, attack)
        assert statuses_in(answer) == [status]
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.replace(b"\r\n", b"").decode().isprintable()
        assert json.loads(body)["detail"].isprintable()
        assert len(answer) < 2_500
    running.wait_for("415")
    lines = running.lines[before:]
    assert sum("status" in line for line in lines) == len(attacks)  # uvicorn adds a line of its own to one
    for line in lines:
        assert line.removesuffix("\n").isprintable()
        assert len(line) < 1_500
