"""Reading with Ray gives the library that one machine makes, byte for byte, also after crashes."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from attar.cluster.connection import connected
from attar.cluster.reading import keep_to_own_cores, read_with_ray, resources, room_for
from attar.cluster.shards import shard_paths, split
from attar.documents.sources import find_files
from attar.errors import AttarError, NameTakenError, OptionError, UnavailableError
from attar.library.drafts import read_files
from attar.library.library import Library
from attar.store.store import Store
from benchmarks.cluster_reading import Killer, contents, write_stories

from .servers import run_attar

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # of Ray


class TestOnRay:
    """What only a running cluster shows."""

    pytestmark = pytest.mark.nightly

    @pytest.fixture(scope="class")
    def sources(self, tmp_path_factory) -> Path:
        """Files of several kinds, one of them with many documents, one damaged, one name that comes twice."""
        folder = tmp_path_factory.mktemp("sources")
        write_stories(folder / "stories", 6)
        rows = [{"id": f"line/{at}", "text": f"Ann met Bob in Bath in {1800 + at}."} for at in range(20)]
        rows += [{"id": "line/3", "text": "Another text."}]
        (folder / "lines.jsonl").write_text("\n".join(map(json.dumps, rows)))
        table = pa.table({"name": ["p1", "p2"], "text": ["Eve left. She ran.", "Zoe came."]})
        pq.write_table(table, folder / "p.parquet")
        (folder / "page.html").write_text("<html><title>News</title><h1>Rain</h1><p>Ann stays in.</p></html>")
        (folder / "bad.pdf").write_bytes(b"%PDF nothing")
        return folder

    @pytest.fixture(scope="class")
    def on_one_machine(self, sources, tmp_path_factory, tiny_reader):
        """The library that one process makes of the sources, and the errors."""
        path, bad = tmp_path_factory.mktemp("one") / "library", []
        with Library(path, tiny_reader) as library:
            library.add_many(read_files(find_files([sources]).files, bad.append), on_refused=bad.append)
        return path, sorted(map(str, bad))

    @pytest.fixture(scope="class")
    def read(self, ray_cluster, tiny_reader_folder):
        """`read_with_ray` with the tiny reader, two actors, and errors in a list."""

        def run(out, sources, **options):
            options = {"actors": 2, "reader": tiny_reader_folder} | options
            return read_with_ray(out, sources, **options)

        return run

    def test_files_of_all_kinds_and_their_errors_are_those_of_one_machine(
        self, read, sources, on_one_machine, tmp_path, monkeypatch
    ):
        path, expected, bad = tmp_path / "library", contents(on_one_machine[0]), []
        assert read(path, [sources], on_bad=bad.append) == {"added": 29}
        assert contents(path) == expected
        assert sorted(map(str, bad)) == on_one_machine[1]
        assert ["bad.pdf" in on_one_machine[1][0], "document 'line/3'" in on_one_machine[1][1]] == [
            True,
            True,
        ]
        # What the library has comes back without a memory; the writer would read it, with torch.
        monkeypatch.setattr("attar.library.adding.encode_texts", None)
        assert read(path, [sources], on_bad=lambda fault: None) == {"unchanged": 29}
        assert contents(path) == expected

    def test_into_shards(self, read, sources, on_one_machine, tmp_path):
        """The shards of an empty library."""
        Store.open(tmp_path / "empty").close()
        split(tmp_path / "empty", tmp_path / "shards", 2)
        read(tmp_path / "shards", [sources], on_bad=lambda fault: None)
        split(tmp_path / "shards", tmp_path / "joined", 1)
        joined, expected = contents(tmp_path / "joined"), contents(on_one_machine[0])
        assert all(contents(path) for path in shard_paths(tmp_path / "shards"))
        assert {name: parts for name, (_, *parts) in joined.items() if name} == {
            name: parts for name, (_, *parts) in expected.items() if name
        }

    def test_a_job_that_is_killed_and_continued_ends_with_the_same_library(self, ray_cluster, tmp_path):
        killer = Killer(tmp_path, ray_cluster, seed=3)
        write_stories(killer.folder, 240)
        assert killer.kill(actor=False)
        # The job goes on without one of its actors, to the end.
        assert killer.kill(actor=True)
        with Library(tmp_path / "expected") as library:
            library.add_many(read_files(find_files([killer.folder]).files))
        assert contents(killer.store) == contents(tmp_path / "expected")

    def test_a_name_that_is_taken_ends_it_unless_errors_are_wanted(self, read, tmp_path, tiny_reader):
        (tmp_path / "ann.txt").write_text("Ann left.")
        with Library(tmp_path / "library", tiny_reader) as library:
            library.add("ann", "Another text.")
        with pytest.raises(NameTakenError, match="document 'ann'"):
            read(tmp_path / "library", [tmp_path / "ann.txt"])

    def test_an_error_of_an_actor_is_one_line(self, read, tmp_path, tiny_reader):
        """A reader whose weights are damaged fails where it is loaded."""
        (tmp_path / "ann.txt").write_text("Ann left.")
        tiny_reader.save(tmp_path / "reader")
        with (tmp_path / "reader" / "weights.safetensors").open("r+b") as file:
            file.truncate(1_000)
        with pytest.raises(AttarError) as caught:
            read(tmp_path / "new", [tmp_path / "ann.txt"], reader=tmp_path / "reader")
        assert "\n" not in str(caught.value)

    def test_without_a_document_to_add_nothing_is_created(self, ray_cluster, tmp_path, tiny_reader_folder):
        (tmp_path / "empty.txt").touch()
        words = ["add", "library", "empty.txt", "--ray", ray_cluster, "--reader", tiny_reader_folder]
        code, (line,) = run_attar(*words, cwd=tmp_path)
        assert (code, line) == (2, "attar: empty.txt is empty; leave it out")
        assert [path.name for path in tmp_path.iterdir()] == ["empty.txt"]

    def test_ray_that_is_started_here_listens_on_this_machine_alone(self):
        code = """if True:
            from attar.cluster.connection import connected
            with connected():
                import ray
                print(ray.get_runtime_context().gcs_address)"""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=300
        )
        assert done.stdout.startswith("127.0.0.1:"), done.stderr

    def test_more_than_the_cluster_has_is_refused(self, read, sources, tmp_path, monkeypatch):
        monkeypatch.setattr("ray.cluster_resources", lambda: {"CPU": 2.0})
        with pytest.raises(
            OptionError, match="no actor with a GPU fits into a cluster with 0 GPUs and 2 CPUs"
        ):
            read(tmp_path / "library", [sources], device="cuda")
        assert not (tmp_path / "library").exists()

    def test_every_actor_on_a_device_has_its_gpu_and_its_share_of_the_cores(self, ray_cluster):
        import ray

        assert room_for(None, "cuda") == 2

        @ray.remote(**resources("cuda"))
        class Actor:
            def gpus_and_cores(self) -> tuple[list[int], set[int]]:
                keep_to_own_cores()
                return ray.get_gpu_ids(), os.sched_getaffinity(0)

        actors = [Actor.remote() for _ in range(2)]
        (gpus, cores), (other_gpus, other_cores) = ray.get(
            [actor.gpus_and_cores.remote() for actor in actors]
        )
        for actor in actors:
            ray.kill(actor)
        assert sorted([*gpus, *other_gpus]) == [0, 1]
        assert cores | other_cores == os.sched_getaffinity(0)
        assert cores.isdisjoint(other_cores) or os.cpu_count() == 1

    @pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
    def test_a_gpu_that_only_ray_knows_of_is_one_line(self, ray_cluster, tmp_path, tiny_reader_folder):
        (tmp_path / "ann.txt").write_text("Ann left.")
        words = ["--ray", ray_cluster, "--device", "cuda", "--reader", tiny_reader_folder]
        code, (line,) = run_attar("add", "library", "ann.txt", *words, cwd=tmp_path)
        assert (code, "there is no GPU that PyTorch can use" in line) == (2, True), line
        assert not (tmp_path / "library").exists()


def test_no_cluster_at_the_address_is_one_line(tmp_path):
    (tmp_path / "ann.txt").write_text("Ann left.")
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    code, (line,) = run_attar("add", tmp_path / "S", tmp_path / "ann.txt", "--ray", address)
    assert code == 2
    assert line.startswith(f"attar: there is no cluster of Ray at {address}: Connection refused; start one")
    assert not (tmp_path / "S").exists()


@pytest.mark.parametrize("options", [["--sync"], ["--name", "x"]], ids=["sync", "name"])
def test_options_for_one_process_are_refused(tmp_path, options):
    code, (line,) = run_attar("add", tmp_path / "S", tmp_path, "--ray", *options)
    assert (code, "--ray reads files and folders only" in line) == (2, True)


def test_an_address_that_is_none_is_refused(monkeypatch):
    pytest.importorskip("ray")
    monkeypatch.setattr("ray.is_initialized", lambda: False)
    with pytest.raises(UnavailableError, match="no cluster of Ray at nowhere: no such address"):
        connected("nowhere").__enter__()
