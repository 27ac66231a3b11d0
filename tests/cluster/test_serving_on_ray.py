"""A library in shards on Ray Serve: a shard that dies comes back, replicas follow their writer, errors are one line."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import pytest

from attar import Client, wire
from attar.cluster.serving import Replicas
from attar.cluster.shards import shard_of, split
from attar.errors import OptionError

from .servers import QUESTIONS, TEXTS, Server, rounded

pytestmark = pytest.mark.slow


def pids_of(number: int) -> list[int]:
    """The processes of a shard on Ray."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                title = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if title.startswith(b"ray::ServeReplica:attar-") and f"-{number}:shard".encode() in title:
                found.append(int(entry.name))
    return found


def test_a_shard_that_is_killed_answers_503_and_comes_back_while_others_go_on(on_ray, whole):
    own = {number: [name for name in TEXTS if shard_of(name, 2) == number] for number in (0, 1)}
    (pid,) = pids_of(1)
    statuses: list[tuple[int, int]] = []
    stop, wrong = threading.Event(), []

    def ask_on(number: int) -> None:
        with httpx.Client(base_url=on_ray.url, timeout=60) as http:
            while not stop.is_set():
                response = http.post(wire.ASK, json={"documents": own[number], "question": "Who?", "top": 1})
                statuses.append((number, response.status_code))
                if response.status_code == 503:
                    assert int(response.headers["retry-after"]) >= 1
                    time.sleep(0.05)
                elif response.status_code == 200:
                    found = [each["answers"][0]["text"] for each in response.json()["results"]]
                    if found != [whole.ask(name, "Who?", top=1)[0].text for name in own[number]]:
                        wrong.append(found)

    threads = [threading.Thread(target=ask_on, args=(number,)) for number in (0, 1)]
    for thread in threads:
        thread.start()
    try:
        with Client(on_ray.url, retries=60) as client:
            client.add("kept", "Ann Lee kept it.")
            os.kill(pid, signal.SIGKILL)
            missing = []
            deadline = time.monotonic() + 180
            while time.monotonic() < deadline:
                reply = on_ray.post(wire.ASK, {"question": QUESTIONS[0], "top": 1}).json()
                listed = on_ray.get("/v1/documents").json()
                missing.append((reply.get("missing"), listed.get("missing")))
                if missing[-1] == (None, None) and pids_of(1) not in ([], [pid]):
                    break
                time.sleep(0.05)
            # It may be back before anybody has missed it.
            assert missing[-1] == (None, None)
            assert {str(each) for pair in missing for each in pair} <= {"None", "['shard 1']"}
            assert client.show("kept").text == "Ann Lee kept it."
            assert sorted(each.name for each in client.documents()) == sorted([*TEXTS, "kept"])
            client.remove("kept")
            assert pids_of(1)
            assert pid not in pids_of(1)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    others = [status for number, status in statuses if number == 0]
    # On a busy machine a process may be silent for so long that it counts as one that does not run.
    assert others.count(200) >= 0.9 * len(others)
    assert set(others) <= {200, 503}
    assert {status for number, status in statuses if number == 1} <= {200, 503}
    assert wrong == []


def test_a_client_says_what_is_missing(on_ray):
    (pid,) = pids_of(0)
    os.kill(pid, signal.SIGSTOP)  # it is silent until Ray replaces it, or it goes on

    def ask_until_warned() -> None:
        with Client(on_ray.url) as client:
            deadline = time.monotonic() + 120
            while time.monotonic() < deadline:
                client.ask_all(QUESTIONS[0])

    # Warnings are errors in tests.
    try:
        with pytest.raises(UserWarning, match="answered without shard 0"):
            ask_until_warned()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
    gone = next(name for name in TEXTS if shard_of(name, 2) == 0)
    with Client(on_ray.url, retries=60) as patient:
        assert patient.show(gone).text == TEXTS[gone]


@pytest.mark.parametrize("written", ["", "0", "2:1", "a", "1:2:3", "-1"])
def test_odd_numbers_of_replicas_are_refused(written):
    with pytest.raises(OptionError, match="--replicas: expected N or MIN:MAX"):
        Replicas.parse(written)


def test_replicas_and_autoscaling_are_options_of_ray_serve():
    assert Replicas.parse("3").options() == {"num_replicas": 3}
    scaled = {"min_replicas": 1, "max_replicas": 4}
    assert Replicas.parse("1:4").options() == {"autoscaling_config": scaled}


def test_with_replicas_readers_see_what_the_one_writer_writes(stores, ray_cluster, tmp_path):
    split(stores / "whole", tmp_path / "two", 2)
    server = Server(tmp_path / "two", "--ray", ray_cluster, "--replicas", "2")
    try:
        with Client(server.url) as client:
            for number in range(4):
                client.add(f"note {number}", f"Ada Byron wrote note {number} in 18{number}0.")
                for _ in range(4):
                    assert client.show(f"note {number}").name == f"note {number}"
            assert client.ask_all("Who wrote note 3?")[0].text == "Ada Byron"
            assert len(client) == 10
    finally:
        server.close()


def line_of(*words: object) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "attar", "serve", *map(str, words), "--port", "0"],
        capture_output=True,
        text=True,
        timeout=300,
    )
    (line,) = done.stderr.strip().splitlines()
    return done.returncode, line


def test_bad_input_is_one_line(stores, tmp_path):
    split(stores / "whole", tmp_path / "two", 2)
    for words, part in (
        ((stores / "whole", "--ray"), "expected a folder of shards (shards.json) for --ray, got none"),
        ((tmp_path / "nowhere", "--ray"), "for --ray, got no such folder"),
        ((tmp_path / "two", "--replicas", "2"), "--replicas: expected --ray with it, got none; add --ray"),
        ((tmp_path / "two", "--ray", "127.0.0.1:9"), "expected a cluster of Ray, got"),
        ((tmp_path / "two", "--ray", "--replicas", "x"), "--replicas: expected N or MIN:MAX"),
        ((tmp_path / "two", "--ray", "--workers", "2"), "--workers: expected 1 for a library in shards"),
    ):
        code, line = line_of(*words)
        assert (code, part in line) == (2, True), line
    (tmp_path / "two" / "shard-00001").rename(tmp_path / "gone")
    code, line = line_of(tmp_path / "two", "--ray")
    assert (code, "shard 1 of" in line) == (2, True), line


def test_what_is_missing_where_a_shard_runs_is_one_line(stores, ray_cluster, tmp_path):
    split(stores / "whole", tmp_path / "two", 2)
    code, line = line_of(tmp_path / "two", "--ray", ray_cluster, "--reader", tmp_path / "no-reader")
    assert code == 2
    assert "no-reader" in line
    assert re.search(r"shard [01]: expected a process that starts, got .*expected .*reader", line), line
    (tmp_path / "two" / "shard-00001").rename(tmp_path / "gone")
    code, line = line_of(tmp_path / "two", "--ray", ray_cluster)
    assert code == 2
    assert "shard 1: expected a process that starts, got shard 1 of" in line
    assert "expected a store at" in line
    assert "bring it back, or correct its path in shards.json" in line


def test_without_ray_it_says_how_to_install_it(stores):
    code = "import sys; sys.modules['ray'] = None; sys.argv[0] = 'attar'; from attar.cli.main import main; main()"
    words = ["serve", str(stores / "shards"), "--ray", "--port", "0"]
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True)
    assert done.returncode == 2
    assert "expected the package ray, got none; pip install '.[ray]'" in done.stderr


def test_shards_are_served_in_one_process_without_ray(stores, tmp_path, whole):
    split(stores / "whole", tmp_path / "two", 2)
    server = Server(tmp_path / "two")
    try:
        with Client(server.url) as client:
            for question in QUESTIONS:
                assert rounded(client.ask_all(question)) == rounded(whole.ask_all(question))
            client.add("new", "Ann Lee left.")
            assert client.ask("new", "Who left?")[0].text == "Ann Lee"
    finally:
        server.close()
