"""A command that runs as a process beside the tests, and the lines that it prints."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable


def wait_until(there: Callable[[], object], seconds: float = 300) -> None:
    """Wait until a condition holds; a loaded machine may take minutes, a broken program must not take for ever."""
    deadline = time.monotonic() + seconds
    while not there():
        assert time.monotonic() < deadline
        time.sleep(0.01)


class Running:
    """`attar …` as a process, and the lines that it has printed."""

    def __init__(self, *words: object) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "attar", *map(str, words)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
        )
        self.lines: list[str] = []
        self.thread = threading.Thread(target=lambda: self.lines.extend(self.process.stdout))
        self.thread.start()

    @property
    def url(self) -> str | None:
        """The address that a server has printed."""
        found = re.search(r" at (https?://[^\s\"}]+)", "".join(self.lines))
        return found and found[1]

    def wait_for(self, words: str, times: int = 1) -> None:
        """Wait until this many lines contain the words; fail if the process ends first."""

        def are_there() -> bool:
            assert self.process.poll() is None, "".join(self.lines)
            return sum(words in line for line in list(self.lines)) >= times

        wait_until(are_there)

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal to the process, if it still runs, and wait for its end."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.end()

    def end(self) -> int:
        """Wait until the process has ended by itself."""
        code = self.process.wait(300)
        self.thread.join()
        self.process.stdout.close()
        return code
