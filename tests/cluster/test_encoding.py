"""Reading with Ray gives the library that one machine makes, byte for byte, also after crashes."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from attar.cluster.connection import connected
from attar.cluster.encoding import Workers, encode
from attar.cluster.shards import shard_paths, split
from attar.cluster.sources import find_sources
from attar.documents.sources import find_files
from attar.errors import AttarError, NameTakenError, OptionError, UnavailableError
from attar.library.drafts import read_files
from attar.library.library import Library
from attar.store.parquet import export_store
from attar.store.store import Store
from benchmarks.cluster_reading import Killer, contents, write_stories

# Ray's own warnings.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="session")
def sources(tmp_path_factory) -> Path:
    """Files of several kinds, one of them with many documents, one damaged, one name that comes twice."""
    folder = tmp_path_factory.mktemp("sources")
    write_stories(folder / "stories", 6)
    rows = [{"id": f"line/{at}", "text": f"Ann met Bob in Bath in {1800 + at}."} for at in range(20)]
    rows += [{"id": "line/3", "text": "Another text."}]
    (folder / "lines.jsonl").write_text("\n".join(map(json.dumps, rows)))
    pq.write_table(
        pa.table({"name": ["p1", "p2"], "text": ["Eve left. She ran.", "Zoe came."]}), folder / "p.parquet"
    )
    (folder / "page.html").write_text("<html><title>News</title><h1>Rain</h1><p>Ann stays in.</p></html>")
    (folder / "bad.pdf").write_bytes(b"%PDF nothing")
    return folder


@pytest.fixture(scope="session")
def on_one_machine(sources, tmp_path_factory):
    """The library that one process makes of the sources, and the errors."""
    path, bad = tmp_path_factory.mktemp("one") / "library", []
    with Library(path) as library:
        library.add_many(read_files(find_files([sources]).files, bad.append), on_refused=bad.append)
    return path, sorted(map(str, bad))


@pytest.fixture(scope="session")
def with_ray(ray_cluster, sources, tmp_path_factory):
    path, bad = tmp_path_factory.mktemp("ray") / "library", []
    changes = encode(path, [sources], workers=Workers(actors=2), on_bad=bad.append)
    return path, sorted(map(str, bad)), changes


def test_the_library_is_the_same_byte_for_byte(with_ray, on_one_machine):
    assert contents(with_ray[0]) == contents(on_one_machine[0])
    assert with_ray[1] == on_one_machine[1]
    assert ["bad.pdf" in with_ray[1][0], "document 'line/3'" in with_ray[1][1]] == [True, True]
    assert with_ray[2] == {"added": 29}


def test_encoding_the_same_files_again_reads_no_text(with_ray, sources, monkeypatch):
    """What is in the store comes back without a memory; the writer would read it, with torch."""
    monkeypatch.setattr("attar.library.adding.encode_texts", None)
    before = contents(with_ray[0])
    assert encode(with_ray[0], [sources], workers=Workers(2), on_bad=lambda fault: None) == {"unchanged": 29}
    assert contents(with_ray[0]) == before


def test_into_shards_and_from_urls(ray_cluster, sources, on_one_machine, tmp_path):
    """The shards of an empty library, filled from another file system."""
    Store.open(tmp_path / "empty").close()
    split(tmp_path / "empty", tmp_path / "shards", 2)
    memory = fsspec.filesystem("memory")
    memory.put(str(sources / "stories") + "/", "/stories/", recursive=True)
    urls = ["memory://stories", f"file://{sources / 'lines.jsonl'}"]
    encode(tmp_path / "shards", urls, workers=Workers(2), on_bad=lambda fault: None)
    assert len(find_sources(urls[:1]).files) == 6
    split(tmp_path / "shards", tmp_path / "joined", 1)
    joined, expected = contents(tmp_path / "joined"), contents(on_one_machine[0])
    assert all(contents(path) for path in shard_paths(tmp_path / "shards"))
    names = {name.removeprefix("stories/"): name for name in expected}
    assert sum(name.startswith("story") for name in joined) == 6
    for name, (_, *parts) in joined.items():
        if name:
            assert parts == list(expected[names[name]][1:])


def test_into_parquet(ray_cluster, on_one_machine, sources, tmp_path):
    encode(tmp_path / "out.parquet", [sources / "lines.jsonl"], workers=Workers(1), on_bad=lambda fault: None)
    assert [file.name for file in tmp_path.iterdir()] == ["out.parquet"]
    with Store.open(on_one_machine[0], read_only=True) as store:
        names = [entry.name for entry in store.documents() if entry.name.startswith("line/")]
        export_store(store, tmp_path / "expected.parquet", only=names)
    times = ["created", "changed"]
    found, expected = (
        pq.read_table(tmp_path / f"{name}.parquet").drop(times) for name in ("out", "expected")
    )
    assert found.equals(expected)


def test_a_job_that_is_killed_and_continued_ends_with_the_same_library(ray_cluster, tmp_path):
    killer = Killer(tmp_path, ray_cluster, seed=3)
    write_stories(killer.folder, 120)
    assert killer.kill(actor=False)
    # The job goes on without one of its actors, to the end.
    assert killer.kill(actor=True)
    with Library(tmp_path / "expected") as library:
        library.add_many(read_files(find_files([killer.folder]).files))
    assert contents(killer.store) == contents(tmp_path / "expected")


def test_a_name_that_is_taken_ends_it_unless_errors_are_wanted(ray_cluster, tmp_path):
    (tmp_path / "ann.txt").write_text("Ann left.")
    with Library(tmp_path / "library") as library:
        library.add("ann", "Another text.")
    with pytest.raises(NameTakenError, match="document 'ann': expected a new name"):
        encode(tmp_path / "library", [tmp_path / "ann.txt"], workers=Workers(1))


def test_an_error_of_an_actor_is_one_line(ray_cluster, tmp_path):
    """A reader whose weights are damaged fails where it is loaded."""
    (tmp_path / "ann.txt").write_text("Ann left.")
    reader = tmp_path / "reader"
    Library(tmp_path / "library").reader.save(reader)
    with (reader / "weights.safetensors").open("r+b") as file:
        file.truncate(1_000)
    with pytest.raises(AttarError) as caught:
        encode(tmp_path / "new", [tmp_path / "ann.txt"], reader=reader, workers=Workers(1))
    assert "\n" not in str(caught.value)


def test_without_a_document_to_add_nothing_is_created(ray_cluster, tmp_path):
    (tmp_path / "empty.txt").touch()
    words = ["add", "library", "empty.txt", "--ray", ray_cluster, "--actors", "1"]
    done = subprocess.run(
        [sys.executable, "-m", "attar", *words], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    # Before it there may be a log line of Ray's core.
    *_, line = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (2, "")
    assert line == "attar: empty.txt is empty; leave it out"
    assert [path.name for path in tmp_path.iterdir()] == ["empty.txt"]


def test_more_than_the_cluster_has_is_refused(ray_cluster, sources, tmp_path):
    with pytest.raises(OptionError, match="cluster: expected room for an actor with 64 CPUs, got 0 GPUs"):
        encode(tmp_path / "library", [sources], workers=Workers(threads=64))


@pytest.mark.parametrize(("field", "value"), [("actors", 0), ("threads", 0), ("gpus", -1.0)])
def test_workers_are_positive(field, value):
    with pytest.raises(OptionError, match=field):
        Workers(**{field: value})


def attar(*arguments: str, **environment: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "attar", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | environment, timeout=120)
    return done.returncode, done.stderr


def test_no_cluster_at_the_address_is_one_line(sources, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    code, errors = attar("add", str(tmp_path / "S"), str(sources), "--ray", address)
    assert code == 2
    assert errors == (
        f"attar: ray {address}: expected a cluster of Ray, got Connection refused; "
        "start one (ray start --head), or give HOST:PORT of one\n"
    )
    assert not (tmp_path / "S").exists()


def test_without_ray_installed_it_is_one_line(sources, tmp_path):
    (tmp_path / "ray.py").write_text("raise ImportError('no ray', name='ray')")
    code, errors = attar("add", str(tmp_path / "S"), str(sources), "--ray", PYTHONPATH=f"{tmp_path}:.")
    assert code == 2
    assert errors == "attar: ray: expected the package ray, got none; pip install '.[ray]'\n"


@pytest.mark.parametrize("options", [["--sync"], ["--shared-names"], ["--name", "x"]])
def test_options_for_one_process_are_refused(sources, tmp_path, options):
    code, errors = attar("add", str(tmp_path / "S"), str(sources), "--ray", *options)
    assert (code, errors.count("\n")) == (2, 1)
    assert "attar: --ray: expected files, folders and URLs to read" in errors


def test_an_address_that_is_none_is_refused(monkeypatch):
    monkeypatch.setattr("ray.is_initialized", lambda: False)
    with pytest.raises(UnavailableError, match="ray nowhere: expected a cluster of Ray, got no such address"):
        connected("nowhere").__enter__()
