"""A library in shards on Ray Serve: the same answers over HTTP as of a plain server; a shard that dies comes back.

The first tests are the contract of both: each runs against `attar serve STORE` and `attar serve SHARDS --ray`.
"""

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import msgspec
import numpy as np
import pytest

from attar import Client, wire
from attar.cluster import Replicas, shard_of, split
from attar.errors import OptionError
from attar.library import Library
from attar.reader import Reader

pytestmark = pytest.mark.slow

TEXTS = {
    "emma": "Emma Woodhouse lived at Hartfield with her father. Mr. Knightley owned Donwell Abbey.",
    "rome": "Rome is the capital of Italy. The Tiber flows through the city. The Colosseum was finished in 80 AD.",
    "tea": "Tea is made from the leaves of Camellia sinensis. It was first drunk in China.",
    "salt": "Salt is mined near Salzburg. It was traded along the Salzach for centuries.",
    "letters/1": "Ann Lee wrote to Jo March in 1850. She lost three horses at Lisbon.",
    "letters/2": "Tom Gray sold the piano at Cairo in 1911. He hid silver coins at the old mill.",
}
QUESTIONS = ["Where was tea first drunk?", "Who owned Donwell Abbey?", "Who sold the piano?", "Why?"]


class Server:
    """`attar serve`, on a port of its own."""

    def __init__(self, *words: object, seconds: float = 300) -> None:
        command = [sys.executable, "-m", "attar", "serve", *map(str, words), "--port", "0"]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        # Reading its log ends with the process, whatever that is waiting for.
        late = threading.Timer(seconds, self.process.kill)
        late.start()
        lines = []
        for line in self.process.stderr:
            lines.append(line)
            if " at http" in line:
                break
        self.log = threading.Thread(target=self.process.stderr.read)
        self.log.start()
        if lines and " at http" in lines[-1]:
            self.url = lines[-1].split(" at ")[1].strip()
            self.http = httpx.Client(base_url=self.url, timeout=60)
            while not self.is_ready() and self.process.poll() is None:
                time.sleep(0.1)
        in_time = late.is_alive()
        late.cancel()
        if self.process.poll() is not None or not in_time:
            self.process.kill()
            self.end()
            what = "the server ended" if in_time else f"the server did not start in {seconds:g} s"
            raise AssertionError(f"{what}: {''.join(lines)}")

    def is_ready(self) -> bool:
        try:
            return self.get("/readyz").status_code == 200
        except httpx.TransportError:  # one that starts on a busy machine may give up on a connection
            return False

    def get(self, path, **words):
        return self.http.get(path, **words)

    def post(self, path, body=None, **words):
        return self.http.post(path, json=body, **words)

    def close(self) -> None:
        self.http.close()
        self.process.send_signal(signal.SIGINT)
        self.end()

    def end(self) -> None:
        self.process.wait(60)
        self.log.join()
        self.process.stderr.close()


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stores")
    with Library(folder / "plain", Reader.load()) as library:
        library.add_many(TEXTS.items())
    split(folder / "plain", folder / "shards", 2)
    split(folder / "plain", folder / "whole", 1)
    return folder


@pytest.fixture(scope="module")
def whole(stores):
    """The documents as they are at first, in one store that nobody changes."""
    with Library(stores / "whole", Reader.load(), read_only=True) as library:
        yield library


@pytest.fixture(scope="module")
def on_ray(stores, ray_cluster):
    server = Server(stores / "shards", "--ray", ray_cluster)
    yield server
    server.close()


@pytest.fixture(scope="module")
def plain(stores):
    server = Server(stores / "plain")
    yield server
    server.close()


@pytest.fixture(params=["plain", "on_ray"])
def server(request):
    return request.getfixturevalue(request.param)


def rounded(results: Any) -> Any:
    """Results as JSON, with five digits or three decimals: this process may compute with more threads than a server."""
    if isinstance(results, float):
        return round(float(f"{results:.5g}"), 3)
    if isinstance(results, dict):
        return {name: rounded(value) for name, value in results.items()}
    if isinstance(results, list):
        return [rounded(each) for each in results]
    return rounded(msgspec.structs.asdict(results)) if isinstance(results, msgspec.Struct) else results


def refused(response: httpx.Response, status: int) -> str:
    assert response.headers["content-type"] == "application/problem+json", response.text
    assert response.status_code == response.json()["status"] == status, response.text
    return response.json()["detail"]


def test_all_documents_are_asked(server, whole):
    for question in QUESTIONS:
        reply = server.post(wire.ASK, {"question": question}).json()
        answers = [wire.Answer(**each) for each in reply["answers"]]
        assert rounded(answers) == rounded(whole.ask_all(question))
        assert "missing" not in reply
    reply = server.post(wire.ASK, {"questions": QUESTIONS, "top": 1}).json()
    assert [each["answers"][0]["text"] for each in reply["results"]] == [
        whole.ask_all(question)[0].text for question in QUESTIONS
    ]


def test_search_finds_documents_and_sentences(server, whole):
    with Client(server.url) as client:
        for query in ("river of the Italian capital", "mining salt", "piano"):
            assert rounded(client.search(query, top=3)) == rounded(whole.search(query, top=3))


def test_named_documents_are_asked(server, whole):
    with Client(server.url) as client:
        assert client.ask("tea", QUESTIONS[0])[0].text == "China"
        names = ["tea", "emma", "letters/2", "salt", "tea"]
        asked = [*QUESTIONS, QUESTIONS[0]]
        found = client.ask_many(names, asked, top=1)
        expected = whole.ask_many(names, asked, top=1)
        assert [each[0].text for each in found] == [each[0].text for each in expected]


def test_an_unknown_document_is_404_with_similar_names_of_all_shards(server):
    body = {"documents": ["tea", "letters/11"], "question": "Who?"}
    detail = refused(server.post(wire.ASK, body), 404)
    assert "'letters/11'" in detail
    assert "did you mean 'letters/1'" in detail
    assert "did you mean 'rome'" in refused(server.get("/v1/documents/roma"), 404)


def test_documents_are_listed_in_order_page_by_page(server):
    first = server.get("/v1/documents", params={"limit": 4}).json()
    assert [each["name"] for each in first["documents"]] == ["emma", "letters/1", "letters/2", "rome"]
    assert (first["total"], first["next"]) == (6, "rome")
    second = server.get("/v1/documents", params={"after": "rome"}).json()
    assert ([each["name"] for each in second["documents"]], second["next"]) == (["salt", "tea"], None)
    with Client(server.url) as client:
        assert [each.name for each in client.documents()] == sorted(TEXTS)
        assert len(client) == 6


def test_documents_are_added_continued_merged_and_removed(server):
    names = [f"new/{number}" for number in range(6)]
    assert len({shard_of(name, 2) for name in names}) == 2
    with Client(server.url) as client:
        for name in names:
            assert client.add(name, f"Rosa Diaz bought a map of 1802 for {name}.").change == "added"
            assert client.add(name, f"Rosa Diaz bought a map of 1802 for {name}.").change == "unchanged"
        refused(
            server.http.put(f"/v1/documents/{names[0]}", json={"text": "Another.", "replace": False}), 409
        )
        for _ in range(2):  # the second is recognised by its key
            client.append(names[0], "Then Ada Byron lost it.", key="k")
        assert client.show(names[0]).text.endswith(f"{names[0]}.\n\nThen Ada Byron lost it.")
        assert client.ask(names[0], "Who lost the map?")[0].text == "Ada Byron"
        for _ in range(2):
            assert client.merge("new/all", names[:3], key="m").change == "merged"
        assert client.show("new/all").text.count("Rosa Diaz") == 3
        assert client.ask_all("Who bought a map of 1802?")[0].text == "Rosa Diaz"
        detail = refused(server.post(wire.REMOVE, {"documents": [*names, "nobody"]}), 404)
        assert "'nobody'" in detail
        assert len(client) == 13
        client.remove(*names, "new/all")
        assert len(client) == 6
        assert client.ask_all("Who bought a map of 1802?")[0].text != "Rosa Diaz"
    refused(server.http.delete(f"/v1/documents/{names[0]}"), 404)
    refused(server.post(f"/v1/documents/{names[0]}/append", {"text": "More."}), 404)
    refused(server.post(wire.MERGE, {"new": "x", "documents": ["tea", "nobody"]}), 404)


def test_a_file_with_several_documents_is_added(server):
    with Client(server.url) as client:
        line = b'{"name": "line %d", "text": "Jo March hid coins in %d."}\n'
        lines = b"".join(line % (number, 1800 + number) for number in range(4))
        changes = client.add_file(lines, "notes.jsonl")
        assert [change.change for change in changes] == ["added"] * 4
        names = [change.name for change in changes]
        assert client.ask(names[2], "When did Jo March hide coins?")[0].text == "1802"
        client.remove(*names)


def test_vectors_are_looked_up(server, whole):
    names = ["tea", "rome", "salt"]
    vectors = np.random.default_rng(0).normal(size=(3, whole.memory("tea").size)).astype(np.float32)
    with Client(server.url) as client:
        packed = client.lookup(names, vectors)
    body = {"documents": names, "vectors": vectors.tolist()}
    plain = server.post(wire.LOOKUP, body).json()["readouts"]
    for name, vector, row, readout in zip(names, vectors, packed, plain, strict=True):
        expected = whole.memory(name).astype("float32").lookup(vector[None])[0]
        np.testing.assert_allclose(readout, expected, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(row[: len(expected)], expected, rtol=1e-5, atol=1e-6)
    refused(server.post(wire.LOOKUP, {"document": "nobody", "vector": vectors[0].tolist()}), 404)
    refused(server.post(wire.LOOKUP, {"document": "tea", "vector": [1.0]}), 422)


def test_a_document_is_shown_explained_and_compared(server):
    shown = server.get("/v1/documents/tea", params={"memory": 1}).json()
    assert (shown["text"], shown["memory"]["rows"] > 0) == (TEXTS["tea"], True)
    explained = server.post("/v1/explain", {"document": "tea", "question": QUESTIONS[0]}).json()
    assert explained["answers"][0]["text"] == "China"
    explained = server.post("/v1/explain", {"text": TEXTS["rome"], "question": "What is the capital?"}).json()
    assert len(explained["tokens"]) == len(explained["weights"])
    assert server.post("/v1/compare", {"document": "tea"}).json()["document"] == "tea"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"question": "Who?", "top": 0}, 422),
        ({"documents": [], "question": "Who?"}, 422),
        ({"documents": ["tea"] * 2, "questions": ["a", "b", "c"]}, 422),
        ({"questions": ["x"] * 2_000}, 422),
        ({"document": "tea", "question": "Who?", "more": 1}, 422),
    ],
)
def test_bad_requests_are_refused(server, body, status):
    refused(server.post(wire.ASK, body), status)


def test_metrics_count_the_documents_of_all_shards(server):
    assert "attar_store_documents 6.0" in server.get("/metrics").text
    assert server.get("/readyz").text == "ready\n"


def test_the_page_has_all_its_files_and_asks(server):
    found = set(re.findall(r'(?:src|href)="([\w.]+\.\w+)"', server.get("/").text))
    waiting = list(found)
    while waiting:
        name = waiting.pop()
        response = server.get(f"/{name}")
        kinds = {"js": "javascript", "css": "css", "svg": "svg"}
        assert response.status_code == 200, name
        assert kinds[name.rpartition(".")[2]] in response.headers["content-type"]
        new = set(re.findall(r'from "\./(\w+\.js)"', response.text)) - found
        found |= new
        waiting += new
    page = Path(__file__).parents[2] / "attar" / "server" / "page"
    assert found == {file.name for file in page.iterdir()} - {"index.html"}
    # As a browser sends what the page asks.
    headers = {"Origin": server.url, "Sec-Fetch-Site": "same-origin", "Accept": "*/*"}
    reply = server.http.post(wire.ASK, json={"question": QUESTIONS[0]}, headers=headers)
    assert reply.json()["answers"][0]["text"] == "China"


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
