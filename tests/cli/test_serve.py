"""`attar serve` without a library: a new one is created and reported, or refused."""

import socket
from pathlib import Path

import pytest

from tests.running import Running

from .conftest import assert_one_line


@pytest.fixture(autouse=True)
def own_threads(monkeypatch):
    """The command sets the number of threads; other tests keep theirs."""
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@pytest.mark.slow
def test_a_new_library_is_reported_once(place, reader):
    for said in ("attar: new library at S\n", "S at http"):
        server = Running("serve", "S", "--reader", reader, "--port", 0)
        server.wait_for(" at http")
        server.stop()
        assert said in server.lines[0]
    assert Path("S/data.mdb").exists()


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["nowhere", "--read-only"], "there is no library"),
        (["no/where"], "there is no folder"),
        (["stories"], "has other files"),
        (["S", "--host", "0.0.0.0"], "--no-token"),
        (["S", "--ssl-certfile", "none.pem"], "none.pem"),
    ],
    ids=["read-only", "missing folder", "other files", "public", "certificate"],
)
def test_no_library_is_created(place, attar, words, line):
    before = sorted(Path().rglob("*"))
    assert_one_line(attar("serve", *words, "--port", 0), line)
    assert sorted(Path().rglob("*")) == before


def test_no_library_is_created_if_the_address_is_in_use(place, attar):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert_one_line(attar("serve", "S", "--port", taken.getsockname()[1]), "in use")
    assert not Path("S").exists()
