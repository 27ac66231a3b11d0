"""Small files, texts and requests that once froze or ended a server, sent to a real one with the default reader.

`python -m benchmarks.attacks` prints what others noticed of each.

Each is sent alone, then ten at a time. Meanwhile another client asks for health and for an answer: the longest that it
waited is printed, and the memory of the server and of the processes that read its files. What an attack added is
removed before memory is measured: what stays is what a stranger could make a server lose. At the end, a long text is
sent, its client leaves, and the server is told to stop.
"""

import http.client
import json
import os
import signal
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from attar.library.library import Library
from benchmarks.server import QUESTION, ServerProcess, family_of, resident_memory, serving, watched
from benchmarks.stories import tell_stories
from tests.documents.attacks import ATTACKS

# The most seconds that another client may wait.
_PATIENCE = 1.0
# How much the server's memory may grow over all attacks.
_GROWTH = 1.2
# Seconds between two looks at the server.
_PAUSE = 0.05
# Seconds until freed memory is given back.
_SETTLED = 6.0
# Seconds that a job may run before it is cancelled.
_JOB_SECONDS = 20.0
# Memory of a process that reads files, in MB: what one file may take, and Python with its parsers.
_CHILD_MB = 512 + 100
# Seconds in which a server must stop.
_STOP = 5.0
_JSON = {"content-type": "application/json"}
_FILE = {"content-type": "application/octet-stream"}


@dataclass(frozen=True)
class Attack:
    """A request that is sent as it is."""

    what: str
    method: str
    path: str
    body: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)


def attacks() -> Iterator[Attack]:
    """The files, as uploads, and texts and questions, as JSON."""
    for what, attack in ATTACKS.items():
        path = f"/v1/files?name={quote(attack.file_name)}&replace=1"
        yield Attack(what, "POST", path, attack.make(), _FILE)
    texts = {
        "a text of combining marks": "a" + "\u0301" * 50_000 + "\u0316" * 50_000,
        "a text without spaces": "a" * 1_000_000,
        "the longest text, of spaces": "a" + " " * 3_999_998 + "b",
        "the longest text, of dots": "." * 4_000_000,
    }
    for what, text in texts.items():
        body = json.dumps({"text": text, "replace": True}).encode()
        yield Attack(what, "PUT", f"/v1/documents/{quote(what)}", body, _JSON)
    long = [f"Who left {number} " + "house town letter Ann " * 90 for number in range(1_024)]
    short = [f"Who left the house {number} times?" for number in range(1_024)]
    asked = {
        "32 questions of 10 kB": {"questions": [" ".join(["abcd"] * 1_999)] * 32},
        "1,024 questions of 2 kB": {"document": "story 0", "questions": long},
        "1,024 questions of 2 kB to all": {"questions": long},
        "60 questions of 2 kB to all": {"questions": long[:60]},
        "1,024 questions": {"document": "story 0", "questions": short},
        "800 questions": {"document": "story 0", "questions": short[:800]},
        "260 questions to all": {"questions": short[:260]},
        "50 questions, 1,000 answers each": {"document": "story 0", "questions": short[:50], "top": 1_000},
    }
    for what, questions in asked.items():
        yield Attack(what, "POST", "/v1/ask", json.dumps(questions).encode(), _JSON)


def send(port: int, attack: Attack, timeout: float = 90.0) -> int:
    """The status of the answer; a job is given some seconds, and cancelled."""
    status, headers, _ = call(port, attack, timeout)
    if status == 202:
        job = headers["location"]
        end = time.monotonic() + _JOB_SECONDS
        while json.loads(call(port, Attack("", "GET", job))[2])["state"] in ("waiting", "running"):
            if time.monotonic() > end:
                call(port, Attack("", "DELETE", job))
            time.sleep(0.2)
    return status


def call(port: int, attack: Attack, timeout: float = 90.0) -> tuple[int, dict[str, str], bytes]:
    """The status, headers and body of the answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.request(attack.method, attack.path, attack.body, attack.headers)
        response = connection.getresponse()
        headers = {name.lower(): value for name, value in response.getheaders()}
        return response.status, headers, response.read()
    finally:
        connection.close()


def remove_added(port: int) -> None:
    """Remove all documents that attacks have added."""
    listed = json.loads(call(port, Attack("", "GET", "/v1/documents?limit=1000"))[2])
    names = [document["name"] for document in listed["documents"]]
    if added := [name for name in names if not name.startswith("story ")]:
        call(port, Attack("", "POST", "/v1/remove", json.dumps({"documents": added}).encode(), _JSON))


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


@dataclass(frozen=True)
class Noticed:
    """The statuses that attacks got, their seconds, the longest that others waited, and the memory afterwards."""

    statuses: list[int]
    seconds: float
    waited: float
    memory: int
    peak: int
    children: int


def measure(server: ServerProcess, sent: Sequence[Attack]) -> Noticed:
    """Send attacks at the same time, watch, and remove what they have added."""
    done, began = threading.Event(), time.monotonic()

    def attack_all() -> list[int]:
        try:
            with ThreadPoolExecutor(len(sent)) as attackers:
                return list(attackers.map(lambda attack: send(server.port, attack, 300.0), sent))
        finally:
            done.set()

    def of_children() -> int:
        return max(map(resident_memory, family_of(server.process)[1:]), default=0)

    watching = watched(server.memory, _PAUSE), watched(of_children, _PAUSE)
    with watching[0] as own, watching[1] as children, ThreadPoolExecutor(1) as pool:
        attacking = pool.submit(attack_all)
        waited = longest_wait(server.port, done)
        statuses = attacking.result()
    seconds = time.monotonic() - began
    remove_added(server.port)
    time.sleep(_SETTLED)
    peaks = max(own, default=0), max(children, default=0)
    return Noticed(statuses, seconds, waited, server.memory(), *peaks)


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
    while server.process in family_of(os.getpid()):
        time.sleep(0.02)
    return time.monotonic() - began


def main() -> None:
    """Print a row per attack; exit with code 1 if others waited for too long, or memory has grown by too much."""
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "library"
        with Library(library) as made:
            made.add_many((f"story {at}", story.text) for at, story in enumerate(tell_stories(0, 8)))
        with serving(library, None) as server:
            warm_up(server)
            before = server.memory()
            print(f"memory before: {before / 2**20:.0f} MB\n")
            print(f"{'attack':42} status  seconds  others waited  memory  at most  readers")
            faults, largest = [], 0

            def row(what: str, sent: Sequence[Attack]) -> float:
                nonlocal largest
                noticed = measure(server, sent)
                largest = max(largest, noticed.children)
                statuses = sorted(set(noticed.statuses))
                grown, most = noticed.memory / before, noticed.peak / before
                print(
                    f"{what:42} {statuses[0]:6}  {noticed.seconds:7.2f}  {noticed.waited:13.2f}  {grown:6.2f}"
                    f"  {most:7.2f}  {noticed.children / 2**20:4.0f} MB",
                    flush=True,
                )
                if noticed.waited > _PATIENCE or any(
                    status >= 500 and status not in (503, 504) for status in statuses
                ):
                    faults.append(f"{what}: {statuses}, others waited for {noticed.waited:.2f} s")
                return grown

            corpus = list(attacks())
            alone = max(row(attack.what, [attack]) for attack in corpus)
            together = max(
                row(f"ten at once, {first // 10 + 1}", corpus[first : first + 10])
                for first in range(0, len(corpus), 10)
            )
            stopped = seconds_to_stop(server)
    for what, value, most in (
        ("memory after each, at most", alone, _GROWTH),
        ("memory after ten at once", together, _GROWTH),
        ("memory of a process that reads files, in MB", largest / 2**20, _CHILD_MB),
        ("seconds to stop, with the work of a client that had left", stopped, _STOP),
    ):
        print(f"{what}: {value:.2f} ({most:g})")
        faults += [what] if value > most else []
    print("\n".join(faults) or "nobody waited for more than a second, and nothing failed")
    if faults:
        raise SystemExit(1)


def warm_up(server: ServerProcess) -> None:
    """What any server has done before long: some questions, a text of twenty pages, a file."""
    text = " ".join(story.text for story in tell_stories(1, 100))
    name = quote("warm up.html")
    questions = {"questions": [f"Who left house {number} at night?" for number in range(64)]}
    for attack in (
        Attack("", "POST", "/v1/ask", json.dumps(questions).encode(), _JSON),
        Attack("", "POST", "/v1/ask", json.dumps(questions | {"document": "story 0"}).encode(), _JSON),
        Attack("", "PUT", "/v1/documents/long", json.dumps({"text": text}).encode(), _JSON),
        Attack("", "POST", f"/v1/files?name={name}", f"<p>{text[:9_000]}</p>".encode(), _FILE),
    ):
        send(server.port, attack)
    remove_added(server.port)
    time.sleep(_SETTLED)


if __name__ == "__main__":
    main()
