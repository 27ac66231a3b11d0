"""Small files and texts that once froze or ended a server, sent to a real one.

`python -m benchmarks.attacks` prints what others noticed of each.

While each is read, another client asks for health and for an answer: the longest that it waited is printed, and the
server's memory. At the end, a long text is sent, its client leaves, and the server is told to stop.
"""

import http.client
import json
import os
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from benchmarks.server import fill
from benchmarks.server_rows import QUESTION, ServerProcess, serving
from tests.documents.attacks import ATTACKS

# The most seconds that another client may wait.
_PATIENCE = 1.0
# How much the server's memory may grow over all attacks.
_GROWTH = 1.2
# Seconds between two looks at the server.
_PAUSE = 0.05
_JSON = {"content-type": "application/json"}


@dataclass(frozen=True)
class Attack:
    """A request that is sent as it is."""

    what: str
    method: str
    path: str
    body: bytes
    headers: dict[str, str]


def attacks() -> Iterator[Attack]:
    """The files, as uploads, and texts and questions, as JSON."""
    for what, attack in ATTACKS.items():
        path = f"/v1/files?name={quote(attack.file_name)}&replace=1"
        yield Attack(what, "POST", path, attack.make(), {"content-type": "application/octet-stream"})
    texts = {
        "a text of combining marks": "a" + "\u0301" * 50_000 + "\u0316" * 50_000,
        "a text without spaces": "a" * 1_000_000,
        "a text of dots": "." * 200_000,
    }
    for what, text in texts.items():
        body = json.dumps({"text": text, "replace": True}).encode()
        yield Attack(what, "PUT", f"/v1/documents/{quote(what)}", body, _JSON)
    question = " ".join(["abcd"] * 1_999)
    yield Attack(
        "32 questions of 10 kB", "POST", "/v1/ask", json.dumps({"questions": [question] * 32}).encode(), _JSON
    )
    short = " ".join(["abcd"] * 300)
    body = json.dumps({"questions": [short] * 200}).encode()
    yield Attack("200 questions of 1.5 kB to all", "POST", "/v1/ask", body, _JSON)


def send(port: int, attack: Attack, timeout: float = 90.0) -> int:
    """The status of the answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.request(attack.method, attack.path, attack.body, attack.headers)
        response = connection.getresponse()
        response.read()
        return response.status
    finally:
        connection.close()


def longest_wait(port: int, until: threading.Event) -> float:
    """The longest that health and an answer took, until the event is set."""
    asked = Attack(
        "", "POST", "/v1/ask", json.dumps({"document": "story 0", "question": QUESTION}).encode(), _JSON
    )
    health = Attack("", "GET", "/healthz", b"", {})
    longest = 0.0
    while True:
        for request in (health, asked):
            began = time.monotonic()
            if send(port, request) != 200:
                raise AssertionError(f"{request.path} is not answered")
            longest = max(longest, time.monotonic() - began)
        if until.wait(_PAUSE):
            return longest


def measure(server: ServerProcess, attack: Attack) -> tuple[int, float, float]:
    """The status, the seconds that it took, and the longest that another client waited."""
    done, status = threading.Event(), 0

    def attacker() -> None:
        nonlocal status
        try:
            status = send(server.port, attack)
        finally:
            done.set()

    thread = threading.Thread(target=attacker)
    began = time.monotonic()
    thread.start()
    waited = longest_wait(server.port, done)
    thread.join()
    return status, time.monotonic() - began, waited


def seconds_to_stop(server: ServerProcess) -> float:
    """How long the server takes to stop after the client of a long text has left."""
    text = "Ann met Bob in the old town and gave him the letter. " * 60_000
    body = json.dumps({"text": text}).encode()
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    connection.request("PUT", "/v1/documents/long", body, _JSON)
    time.sleep(2.0)
    connection.close()
    time.sleep(0.5)
    began = time.monotonic()
    os.kill(server.process, signal.SIGTERM)
    while Path(f"/proc/{server.process}/stat").exists():
        state = Path(f"/proc/{server.process}/stat").read_text().rpartition(")")[2].split()[0]
        if state == "Z":
            break
        time.sleep(0.02)
    return time.monotonic() - began


def main() -> None:
    """Print a row per attack, and whether another client waited for too long or memory grew by too much."""
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "library"
        with serving(library, fill(library, None, 8)) as server:
            send(
                server.port, Attack("", "POST", "/v1/ask", json.dumps({"question": QUESTION}).encode(), _JSON)
            )
            before = server.memory() or 0
            print(f"{'attack':42} status  seconds  others waited  memory")
            slow = []
            for attack in attacks():
                status, seconds, waited = measure(server, attack)
                memory = (server.memory() or 0) / before if before else 1.0
                print(
                    f"{attack.what:42} {status:6}  {seconds:7.2f}  {waited:13.2f}  {memory:6.2f}", flush=True
                )
                slow += [attack.what] if waited > _PATIENCE or status >= 500 else []
            grown = (server.memory() or 0) / before if before else 1.0
            print(f"\nothers waited for more than {_PATIENCE:g} s, or 5xx: {', '.join(slow) or 'never'}")
            print(f"memory: {grown:.2f} × ({_GROWTH:g})")
            print(f"stopped after {seconds_to_stop(server):.2f} s, with the work of a client that had left")


if __name__ == "__main__":
    main()
