"""`attar serve --watch`: a folder that is followed while the server answers; it ends with the server."""

import os
import signal

import pytest

import attar
from benchmarks.server import family_of, resident_memory

from .conftest import wait_until

pytestmark = pytest.mark.slow


@pytest.fixture
def letters(tmp_path):
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "a.txt").write_text("Then Ann met Bob. Bob left for Rome.")
    return tmp_path / "letters"


def names(client):
    return [document.name for document in client.documents()]


@pytest.mark.parametrize("options", [(), ("--workers", "2"), ("--read-only",)])
def test_a_server_follows_a_folder(start, letters, folder, tiny_reader_folder, options):
    with attar.Library(folder, tiny_reader_folder) as library:
        library.add("first", "Cid slept.")
    running = start("--watch", letters, *options)
    running.wait_for("following its changes")
    running.wait_for("startup complete")
    with attar.Client(running.url) as client:
        assert names(client) == ["a", "first"]
        (letters / "b.txt").write_text("Then Eve came.")
        wait_until(lambda: "b" in client)
        (letters / "a.txt").unlink()
        wait_until(lambda: "a" not in client)
        assert client.ask_all("Who came?")
    assert running.stop(signal.SIGTERM) in (0, -signal.SIGTERM)
    assert "Traceback" not in "".join(running.lines)


@pytest.mark.skipif(not os.path.exists("/proc"), reason="processes are listed from /proc")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_following_ends_with_the_server(start, letters, number):
    running = start("--watch", letters)
    running.wait_for("following its changes")
    running.wait_for("startup complete")
    _, *below = family_of(running.process.pid)
    assert below
    running.stop(number)
    wait_until(lambda: not any(map(resident_memory, below)))


def test_a_server_goes_on_when_the_folder_vanishes(start, letters):
    running = start("--watch", letters)
    running.wait_for("following its changes")
    letters.rename(letters.with_name("away"))
    running.wait_for("is gone; its documents stay")
    with attar.Client(running.url) as client:
        assert names(client) == ["a"]


def test_a_folder_that_is_not_there_is_refused_before_anything_starts(start, tmp_path, folder):
    running = start("--watch", tmp_path / "nowhere")
    assert running.process.wait(300) == 2
    wait_until(lambda: running.lines)
    assert running.lines == [f"attar: --watch: there is no folder {tmp_path / 'nowhere'}; check the path\n"]
    assert not folder.exists()
