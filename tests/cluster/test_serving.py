"""A library in shards, served: options, errors in one line."""

import re

import pytest
import torch

from attar import Client
from attar.cluster.shards import split
from attar.library.library import Library

from .servers import QUESTIONS, TEXTS, Server, rounded, run_attar

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("whole", "--ray"),
            "--ray serves shards, and whole has none; make shards: attar shard whole --into 2",
        ),
        (("nowhere", "--ray"), "there is no folder nowhere; check the path"),
        (
            ("shards", "--ray", "--workers", "2"),
            "--workers is for a library without shards; leave it out, or make more shards",
        ),
    ],
    ids=["one store", "no folder", "workers"],
)
def test_bad_options_are_one_line(stores, words, message):
    code, (line,) = run_attar("serve", *words, "--port", "0", cwd=stores)
    assert (code, message in line) == (2, True), line


@pytest.mark.nightly
class TestOnRay:
    """What only a running cluster shows."""

    def test_what_is_missing_where_a_shard_runs_is_one_line(
        self, stores, ray_cluster, tmp_path, tiny_reader_folder
    ):
        split(stores / "whole", tmp_path / "two", 2)
        words = ("serve", tmp_path / "two", "--port", "0", "--ray", ray_cluster)
        code, (line,) = run_attar(*words, "--reader", tmp_path / "no-reader")
        assert (code, bool(re.search(r"shard [01] does not start: .*no-reader", line))) == (2, True), line
        (tmp_path / "two" / "shard-00001").rename(tmp_path / "gone")
        code, (line,) = run_attar(*words, "--reader", tiny_reader_folder)
        assert code == 2
        assert re.search(
            r"shard 1 does not start: shard 1 of .*: there is no store at .*; bring it back", line
        )

    def test_a_gpu_for_each_shard_or_one_line(self, stores, ray_cluster, tmp_path, tiny_reader_folder):
        words = ("--port", "0", "--ray", ray_cluster, "--reader", tiny_reader_folder, "--device", "cuda")
        split(stores / "whole", tmp_path / "three", 3)
        code, (line,) = run_attar("serve", tmp_path / "three", *words)
        assert code == 2
        assert "--device cuda needs a GPU for each of 3 shards, and the cluster has 2; leave it out" in line
        if not torch.cuda.is_available():  # Ray gives each its GPU, on paper; PyTorch finds none
            code, (line,) = run_attar("serve", stores / "shards", *words)
            message = r"shard [01] does not start: there is no GPU that PyTorch can use"
            assert (code, bool(re.search(message, line))) == (2, True), line

    def test_shards_on_ray_answer_from_banks(self, stores, ray_cluster, whole, tiny_reader_folder):
        """Banks on the CPU: the way is that of GPUs."""
        whole.open_bank("cpu")
        words = ("--ray", ray_cluster, "--reader", tiny_reader_folder, "--device", "cpu")
        server = Server(stores / "shards", *words)
        try:
            with Client(server.url) as client:
                for name in TEXTS:
                    for question in QUESTIONS:
                        assert rounded(client.ask(name, question)) == rounded(whole.ask(name, question))
        finally:
            server.close()

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
