"""A server in a process of its own, and what can be seen of it from outside: its memory and its store's readers."""

import contextlib
import http.client
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from attar.errors import OptionError

START = 120.0  # seconds that a server may take to be ready


@dataclass(frozen=True)
class Served:
    """Where a server listens, and its process."""

    port: int
    process: int

    def memory(self) -> int | None:
        """The bytes of memory that the process has; None where the system does not tell as Linux does."""
        status = Path(f"/proc/{self.process}/status")
        found = re.search(r"VmRSS:\s+(\d+) kB", status.read_text()) if status.exists() else None
        return int(found[1]) * 1024 if found else None

    def metric(self, name: str) -> float:
        """One of the server's own counts, without labels."""
        asked = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            asked.request("GET", "/metrics")
            told = asked.getresponse().read().decode()
        finally:
            asked.close()
        found = re.search(rf"^{name} (\S+)$", told, re.MULTILINE)
        if found is None:
            raise OptionError("/metrics", name, "none of that name")
        return float(found[1])


@contextlib.contextmanager
def serving(folder: Path, reader: Path | None, *words: str) -> Iterator[Served]:
    """A server on a library, at a port that was free, with more words of `attar serve`."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    command = [sys.executable, "-m", "attar", "serve", str(folder), "--port", str(port)]
    command += ["--log-level", "error", *words, *([] if reader is None else ["--reader", str(reader)])]
    process = subprocess.Popen(command)
    try:
        wait_until_ready(process, port)
        yield Served(port, process.pid)
    finally:
        process.terminate()
        process.wait()


def wait_until_ready(process: "subprocess.Popen[bytes]", port: int) -> None:
    """Wait until a server can answer."""
    end = time.monotonic() + START
    while time.monotonic() < end and process.poll() is None:
        asked = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        try:
            asked.request("GET", "/readyz")
            if asked.getresponse().status == 200:
                return
        except OSError:
            time.sleep(0.1)
        finally:
            asked.close()
    raise OptionError("server", "one that starts", "one that did not", "see what it said above")
