"""The journey of every test run: a corpus is read with Ray, split and served; a shard is lost and comes back."""

import os
import signal
import time

import pytest

from attar import Client, wire
from attar.cluster.reading import read_with_ray
from attar.cluster.shards import shard_of, split
from attar.documents.sources import find_files
from attar.library.drafts import read_files
from attar.library.library import Library
from benchmarks.cluster_reading import contents

from .servers import QUESTIONS, TEXTS, Server, rounded, shard_processes

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # of Ray


@pytest.fixture(scope="module")
def read(ray_cluster, tmp_path_factory, tiny_reader_folder):
    """The folder of a library that Ray has read, as `library`, from files whose paths are relative."""
    folder = tmp_path_factory.mktemp("journey")
    for name, text in TEXTS.items():
        file = folder / "texts" / f"{name}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        changes = read_with_ray("library", ["texts"], actors=2, reader=tiny_reader_folder)
    assert changes == {"added": len(TEXTS)}
    return folder


@pytest.fixture(scope="module")
def server(read, ray_cluster, tiny_reader_folder):
    split(read / "library", read / "shards", 2)
    server = Server(read / "shards", "--ray", ray_cluster, "--reader", tiny_reader_folder)
    yield server
    server.close()


def test_ray_reads_the_library_that_one_process_reads_byte_for_byte(read, tiny_reader, monkeypatch):
    monkeypatch.chdir(read)
    with Library(read / "expected", tiny_reader) as library:
        library.add_many(read_files(find_files(["texts"]).files))
    assert contents(read / "library") == contents(read / "expected")


def test_shards_on_ray_answer_like_one_library(server, read, tiny_reader):
    with Library(read / "library", tiny_reader, read_only=True) as whole, Client(server.url) as client:
        for question in QUESTIONS:
            assert rounded(client.ask_all(question)) == rounded(whole.ask_all(question))
            assert rounded(client.search(question)) == rounded(whole.search(question))
        names = sorted(TEXTS)
        asked = ["Who?"] * len(names)
        assert rounded(client.ask_many(names, asked)) == rounded(whole.ask_many(names, asked))
        assert [document.name for document in client.documents()] == names


def test_documents_are_added_continued_merged_and_removed(server):
    names = [f"new/{number}" for number in range(4)]
    assert len({shard_of(name, 2) for name in names}) == 2
    with Client(server.url) as client:
        for name in names:
            assert client.add(name, f"Rosa Diaz bought a map for {name}.").change == "added"
        client.append(names[0], "Then Ada Byron lost it.", key="k")
        assert client.show(names[0]).text.endswith("Then Ada Byron lost it.")
        assert client.merge("new/all", names).change == "merged"
        assert client.show("new/all").text.count("Rosa Diaz") == 4
        client.remove(*names, "new/all")
        assert len(client) == len(TEXTS)


def test_a_shard_that_is_lost_is_missed_by_name_and_comes_back(server):
    ours, lost = ([name for name in sorted(TEXTS) if shard_of(name, 2) == number] for number in (0, 1))
    (process,) = shard_processes(1)
    # Silent until Ray replaces it: a kill may be healed before anybody notices.
    os.kill(process, signal.SIGSTOP)
    deadline = time.monotonic() + 180
    try:
        missing = None
        while missing != ["shard 1"] and time.monotonic() < deadline:
            reply = server.http.post(wire.ASK, json={"question": "Who?"}).json()
            missing = reply.get("missing")
        assert missing == ["shard 1"]
        assert {answer.get("document") for answer in reply["answers"]} <= {*ours, None}
        refused = server.http.post(wire.ASK, json={"document": lost[0], "question": "Who?"})
        assert refused.status_code == 503
        assert "shard 1 of the library is not running" in refused.json()["detail"]
        assert server.http.post(wire.ASK, json={"document": ours[0], "question": "Who?"}).status_code == 200
        with Client(server.url) as client, pytest.warns(UserWarning, match="answered without shard 1"):
            client.ask_all("Who?")
    finally:
        os.kill(process, signal.SIGKILL)
    while server.http.get("/v1/documents").json().get("missing") and time.monotonic() < deadline:
        time.sleep(0.2)
    with Client(server.url, retries=60) as client:
        assert [document.name for document in client.documents()] == sorted(TEXTS)
        assert client.show(lost[0]).text == TEXTS[lost[0]]
