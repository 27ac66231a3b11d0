"""A library in shards on Ray Serve: kills, replicas that follow their writer, errors in one line."""

import contextlib
import os
import re
import signal
import threading
import time

import httpx
import pytest

from attar import Client, wire
from attar.cluster.serving import Replicas
from attar.cluster.shards import shard_of, split
from attar.errors import OptionError
from attar.library.library import Library

from .servers import QUESTIONS, TEXTS, Server, rounded, run_attar, shard_processes

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("written", ["", "0", "2:1", "a", "1:2:3", "-1"])
def test_odd_numbers_of_replicas_are_refused(written):
    with pytest.raises(OptionError, match="--replicas: expected N or MIN:MAX"):
        Replicas.parse(written)


def test_replicas_and_autoscaling_are_options_of_ray_serve():
    assert Replicas.parse("3").options() == {"num_replicas": 3}
    scaled = {"min_replicas": 1, "max_replicas": 4}
    assert Replicas.parse("1:4").options() == {"autoscaling_config": scaled}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("whole", "--ray"), r"expected a folder of shards \(shards.json\) for --ray, got none"),
        (("nowhere", "--ray"), "for --ray, got no such folder"),
        (("shards", "--replicas", "2"), "--replicas: expected --ray with it, got none; add --ray"),
        (("shards", "--ray", "--replicas", "x"), "--replicas: expected N or MIN:MAX"),
        (("shards", "--ray", "--workers", "2"), "--workers: expected 1 for a library in shards"),
    ],
    ids=["one store", "no folder", "replicas without Ray", "replicas", "workers"],
)
def test_bad_options_are_one_line(stores, words, message):
    code, (line,) = run_attar("serve", *words, "--port", "0", cwd=stores)
    assert (code, bool(re.search(message, line))) == (2, True), line


@pytest.mark.nightly
class TestOnRay:
    """What only a running cluster shows."""

    @pytest.fixture(scope="class")
    def server(self, stores, ray_cluster, tiny_reader_folder, tmp_path_factory):
        folder = tmp_path_factory.mktemp("served") / "shards"
        split(stores / "whole", folder, 2)
        server = Server(folder, "--ray", ray_cluster, "--reader", tiny_reader_folder)
        yield server
        server.close()

    def test_a_shard_that_is_killed_answers_503_and_comes_back_while_others_go_on(self, server, whole):
        own = {number: [name for name in TEXTS if shard_of(name, 2) == number] for number in (0, 1)}
        expected = {name: whole.ask(name, "Who?", top=1)[0].text for name in TEXTS}
        (process,) = shard_processes(1)
        statuses: list[tuple[int, int]] = []
        stop, wrong = threading.Event(), []

        def ask_on(number: int) -> None:
            with httpx.Client(base_url=server.url, timeout=60) as http:
                while not stop.is_set():
                    body = {"documents": own[number], "question": "Who?", "top": 1}
                    response = http.post(wire.ASK, json=body)
                    statuses.append((number, response.status_code))
                    if response.status_code == 503:
                        time.sleep(0.05)
                    elif response.status_code == 200:
                        answers = [each["answers"][0]["text"] for each in response.json()["results"]]
                        if answers != [expected[name] for name in own[number]]:
                            wrong.append(answers)

        threads = [threading.Thread(target=ask_on, args=(number,)) for number in (0, 1)]
        for thread in threads:
            thread.start()
        try:
            with Client(server.url, retries=60) as client:
                client.add("kept", "Ann Lee kept it.")
                os.kill(process, signal.SIGKILL)
                missing = []
                deadline = time.monotonic() + 180
                while time.monotonic() < deadline:
                    reply = server.http.post(wire.ASK, json={"question": QUESTIONS[0], "top": 1}).json()
                    listed = server.http.get("/v1/documents").json()
                    missing.append((reply.get("missing"), listed.get("missing")))
                    if missing[-1] == (None, None) and shard_processes(1) not in ([], [process]):
                        break
                    time.sleep(0.05)
                # It may be back before anybody has missed it.
                assert missing[-1] == (None, None)
                assert {str(each) for pair in missing for each in pair} <= {"None", "['shard 1']"}
                assert client.show("kept").text == "Ann Lee kept it."
                assert sorted(each.name for each in client.documents()) == sorted([*TEXTS, "kept"])
                client.remove("kept")
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        others = [status for number, status in statuses if number == 0]
        # On a busy machine a process may be silent for so long that it counts as one that does not run.
        assert others.count(200) >= 0.9 * len(others)
        assert {status for _, status in statuses} <= {200, 503}
        assert wrong == []

    def test_a_client_says_what_is_missing(self, server):
        (process,) = shard_processes(0)
        os.kill(process, signal.SIGSTOP)  # it is silent until Ray replaces it, or it goes on

        def ask_until_warned() -> None:
            with Client(server.url) as client:
                deadline = time.monotonic() + 120
                while time.monotonic() < deadline:
                    client.ask_all(QUESTIONS[0])

        # Warnings are errors in tests.
        try:
            with pytest.raises(UserWarning, match="answered without shard 0"):
                ask_until_warned()
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGCONT)
        gone = next(name for name in TEXTS if shard_of(name, 2) == 0)
        with Client(server.url, retries=60) as patient:
            assert patient.show(gone).text == TEXTS[gone]

    def test_with_replicas_readers_see_what_the_one_writer_writes(
        self, stores, ray_cluster, tmp_path, tiny_reader_folder
    ):
        split(stores / "whole", tmp_path / "two", 2)
        words = ("--ray", ray_cluster, "--replicas", "2", "--reader", tiny_reader_folder)
        server = Server(tmp_path / "two", *words)
        try:
            with Client(server.url) as client:
                for number in range(4):
                    client.add(f"note {number}", f"Ada Byron wrote note {number} in 18{number}0.")
                    for _ in range(4):
                        assert client.show(f"note {number}").name == f"note {number}"
                assert len(client) == len(TEXTS) + 4
        finally:
            server.close()

    def test_what_is_missing_where_a_shard_runs_is_one_line(self, stores, ray_cluster, tmp_path):
        split(stores / "whole", tmp_path / "two", 2)
        words = ("serve", tmp_path / "two", "--port", "0", "--ray", ray_cluster)
        code, (line,) = run_attar(*words, "--reader", tmp_path / "no-reader")
        assert (code, bool(re.search(r"shard [01] does not start: .*no-reader", line))) == (2, True), line
        (tmp_path / "two" / "shard-00001").rename(tmp_path / "gone")
        code, (line,) = run_attar(*words)
        assert code == 2
        assert re.search(
            r"shard 1 does not start: shard 1 of .*: there is no store at .*; bring it back", line
        )

    def test_shards_are_served_in_one_process_without_ray(
        self, stores, tmp_path, tiny_reader, tiny_reader_folder
    ):
        split(stores / "whole", tmp_path / "two", 2)
        server = Server(tmp_path / "two", "--reader", tiny_reader_folder)
        try:
            with (
                Client(server.url) as client,
                Library(stores / "whole", tiny_reader, read_only=True) as whole,
            ):
                for question in QUESTIONS:
                    assert rounded(client.ask_all(question)) == rounded(whole.ask_all(question))
                client.add("new", "Ann Lee left.")
                assert client.ask("new", "Who left?")
        finally:
            server.close()
