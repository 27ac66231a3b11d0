"""`attar watch` as a process: it follows a folder and ends at a signal; mistakes are one line."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from attar.library.library import Library


class Watching:
    """A command that runs, and the lines that it has printed."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "attar", "watch", *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
        )
        self.lines = []
        self.thread = threading.Thread(target=lambda: self.lines.extend(self.process.stdout))
        self.thread.start()

    def wait_for(self, words, seconds=300):
        """Wait until a line contains the words; a loaded machine may take minutes."""
        deadline = time.monotonic() + seconds
        while not any(words in line for line in list(self.lines)):
            assert self.process.poll() is None, "".join(self.lines)
            assert time.monotonic() < deadline, "".join(self.lines)
            time.sleep(0.05)

    def stop(self, number):
        self.process.send_signal(number)
        return self.end()

    def end(self):
        code = self.process.wait(300)
        self.thread.join()
        self.process.stdout.close()
        return code


@pytest.fixture
def watch(place, reader):
    started = []

    def start(*arguments):
        started.append(Watching(*arguments, "--reader", reader))
        return started[-1]

    yield start
    for watching in started:
        if watching.process.poll() is None:
            watching.stop(signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_folder_is_followed_until_a_signal_ends_it(place, watch, texts, number):
    watching = watch("S", "stories")
    watching.wait_for("3 added")
    watching.wait_for("attar: watching stories; stop with Ctrl+C")
    (place / "stories" / "new.txt").write_text(texts[4])
    watching.wait_for("added new: ")
    (place / "stories" / "new.txt").write_text(texts[5])
    watching.wait_for("replaced new: ")
    (place / "stories" / "new.txt").rename(place / "stories" / "old.txt")
    watching.wait_for("added old: ")
    watching.wait_for("removed new")
    assert watching.stop(number) == 0
    assert watching.lines[-1].startswith("attar: stopped; S stays as it is")
    assert "Traceback" not in "".join(watching.lines)
    with Library("S", read_only=True) as library:
        assert [document.name for document in library.documents()] == [
            *("old", "story0", "story1", "sub/story2"),
        ]
        assert list(library.store.check()) == []


@pytest.mark.slow
def test_a_folder_that_vanishes_ends_it_with_one_line_and_the_documents_stay(place, watch):
    watching = watch("S", "stories", "--json")
    watching.wait_for('"changes"')
    (place / "stories").rename(place / "away")
    assert watching.end() == 2
    assert watching.lines[-1] == (
        "attar: stories is gone; its documents stay; watch it again when it is back\n"
    )
    with Library("S", read_only=True) as library:
        assert len(library) == 3
