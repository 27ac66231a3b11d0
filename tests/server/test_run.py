"""`attar serve` as a process: started, stopped and killed; the store stays intact."""

import asyncio
import itertools
import json
import logging
import os
import re
import signal
import socket
import threading

import pytest

import attar
from attar.errors import OptionError, UnavailableError
from attar.library.library import Library
from attar.server.run import listen, set_up_logging
from attar.server.settings import Address, Settings

from .conftest import read_metric, wait_until

TEXT = "Then Ann met Bob. Bob left for Rome."


def names_in(folder):
    with Library(folder, read_only=True) as library:
        assert list(library.store.check()) == []
        return [document.name for document in library.documents()]


@pytest.mark.slow
def test_a_server_starts_answers_and_finishes_accepted_requests_before_it_stops(start, folder, tmp_path):
    (tmp_path / "token").write_text("s3cret")
    running = start("--log-format", "json", "--token-file", tmp_path / "token")
    running.wait_for("startup complete")
    changes = []

    def add():
        with attar.Client(running.url, token="s3cret") as client:
            changes.append(client.add("long", TEXT * 2_500).change)

    thread = threading.Thread(target=add)
    with attar.Client(running.url, token="s3cret") as client:
        client.add("emma", TEXT)
        assert client.ask("emma", "Who left?")
        thread.start()
        wait_until(lambda: "requests_in_flight 1" in client._sender.http.get("/metrics").text)
    assert running.stop(signal.SIGTERM) in (0, -signal.SIGTERM)
    thread.join()
    assert changes == ["added"]
    said = "".join(running.lines)
    assert "shutdown complete" in said
    assert "s3cret" not in said
    assert "Traceback" not in said
    assert names_in(folder) == ["emma", "long"]


@pytest.mark.nightly
def test_a_killed_worker_is_restarted_while_the_other_answers_and_nothing_is_lost(start, folder):
    running = start("--workers", "2")
    running.wait_for("startup complete", times=2)
    kept, asked, ended = [], [], threading.Event()

    def repeat(call):
        with attar.Client(running.url) as client:
            for number in itertools.count():
                if ended.is_set():
                    return
                try:
                    call(client, number)
                except UnavailableError:
                    # The worker that had it was killed: it may be there, and need not be.
                    continue

    def write(client, number):
        kept.append(client.add(f"{number:05}", TEXT).name)

    def ask(client, number):
        asked.append(client.ask("00000", "Who left?", top=1)[0].text)

    threads = [threading.Thread(target=repeat, args=[write])]
    threads[0].start()
    wait_until(lambda: len(kept) >= 5)
    threads += [threading.Thread(target=repeat, args=[ask]) for _ in range(3)]
    for thread in threads[1:]:
        thread.start()
    wait_until(lambda: len(asked) >= 20)
    said = next(line for line in running.lines if "Started server process" in line)
    os.kill(int(re.search(r"\[(\d+)\]", said).group(1)), signal.SIGKILL)
    before = len(asked), len(kept)
    running.wait_for("startup complete", times=3)
    # Answered by the other one, while the killed one was not back.
    assert len(asked) > before[0] + 3
    assert len(kept) > before[1] + 1
    before = len(kept)
    wait_until(lambda: len(kept) >= before + 5)
    ended.set()
    for thread in threads:
        thread.join()
    with attar.Client(running.url) as client:
        text = client._sender.http.get("/metrics").text
    assert read_metric(text, "attar_requests_total", route="ask", status="200") >= len(asked)
    assert len(re.findall(r"^process_resident_memory_bytes{", text, re.MULTILINE)) == 2
    assert running.stop(signal.SIGTERM) == 0
    assert set(kept) <= set(names_in(folder))
    assert len(set(asked)) == 1


@pytest.mark.slow
def test_an_append_that_a_killed_server_had_made_is_not_made_again(start, folder):
    running = start()
    running.wait_for("startup complete")
    more = "Then Zoe met Max."
    body = json.dumps({"text": more}).encode()
    lines = ["POST /v1/documents/emma/append HTTP/1.1", "host: localhost", "idempotency-key: once"]
    lines += ["content-type: application/json", f"content-length: {len(body)}", "\r\n"]
    with attar.Client(running.url) as client:
        client.add("emma", TEXT)
        port = int(running.url.rpartition(":")[2])
        # Its answer is never read.
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall("\r\n".join(lines).encode() + body)
            wait_until(lambda: more in client.show("emma").text)
            running.stop(signal.SIGKILL)
    again = start()
    again.wait_for("startup complete")
    with attar.Client(again.url) as client:
        assert client.append("emma", more, key="once").change == "appended"
        assert client.show("emma").text == f"{TEXT}\n\n{more}"


def test_a_port_is_taken_while_its_server_still_loads_its_reader():
    """Two servers could bind it before either listened; the second said that it had started."""
    with listen(Address(port=0)) as loading, pytest.raises(OptionError, match="already in use"):
        listen(Address(port=loading.getsockname()[1]))


def test_a_second_ctrl_c_leaves_no_traceback_in_the_log(tmp_path, capsys, monkeypatch):
    logger = logging.getLogger("uvicorn.error")
    for name in ("attar.server", "uvicorn"):
        monkeypatch.setattr(logging.getLogger(name), "handlers", [])
        monkeypatch.setattr(logging.getLogger(name), "propagate", False)
    set_up_logging(Settings(store=tmp_path))
    logger.error("Exception in ASGI application\n", exc_info=asyncio.CancelledError())
    logger.error("Traceback (most recent call last):\n\nasyncio.exceptions.CancelledError\n")
    logger.error("Exception in ASGI application\n", exc_info=ValueError("a bug"))
    said = capsys.readouterr().err
    assert "CancelledError" not in said
    assert "a bug" in said
