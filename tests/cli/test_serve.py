"""`attar serve` without a library: a new one is created and reported, or refused."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import assert_one_line


@pytest.fixture(autouse=True)
def own_threads(monkeypatch):
    """The command sets the number of threads; other tests keep theirs."""
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


def lines_at_start(*words) -> list[str]:
    """The lines that a server prints up to its address; then it is stopped."""
    command = [sys.executable, "-m", "attar", "serve", *map(str, words), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        lines = []
        for line in process.stderr:
            lines.append(line.strip())
            if " at http" in line:
                break
        process.terminate()
        process.stderr.read()
    return lines


@pytest.mark.slow
def test_a_new_library_is_reported_once(place, reader):
    assert lines_at_start("S", "--reader", reader)[0] == "attar: new library at S"
    assert Path("S/data.mdb").exists()
    (only,) = lines_at_start("S", "--reader", reader)
    assert "S at http" in only


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["nowhere", "--read-only"], "there is no library"),
        (["no/where"], "there is no folder"),
        (["stories"], "has other files"),
        (["S", "--host", "0.0.0.0"], "--no-token"),
        (["S", "--token", "a", "--token-file", "b"], "--token-file"),
        (["S", "--ssl-certfile", "none.pem"], "none.pem"),
        (["S", "--replicas", "2"], "--ray"),
    ],
    ids=["read-only", "missing folder", "other files", "public", "two tokens", "certificate", "replicas"],
)
def test_no_library_is_created(place, attar, words, line):
    before = sorted(Path().rglob("*"))
    assert_one_line(attar("serve", *words, "--port", 0), line)
    assert sorted(Path().rglob("*")) == before


def test_no_library_is_created_if_the_address_is_in_use(place, attar):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert_one_line(attar("serve", "S", "--port", taken.getsockname()[1]), "in use")
    assert not Path("S").exists()
