"""`attar serve` as a process, for tests of what it answers, and the documents that they serve."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import msgspec

from tests.running import Running, wait_until

TEXTS = {
    "emma": "Emma Woodhouse lived at Hartfield with her father. Mr. Knightley owned Donwell Abbey.",
    "rome": "Rome is the capital of Italy. The Tiber flows through the city. The Colosseum was finished in 80 AD.",
    "tea": "Tea is made from the leaves of Camellia sinensis. It was first drunk in China.",
    "salt": "Salt is mined near Salzburg. It was traded along the Salzach for centuries.",
    "letters/1": "Ann Lee wrote to Jo March in 1850. She lost three horses at Lisbon.",
    "letters/2": "Tom Gray sold the piano at Cairo in 1911. He hid silver coins at the old mill.",
}
QUESTIONS = ["Where was tea first drunk?", "Who owned Donwell Abbey?", "Who sold the piano?", "Why?"]


class Server(Running):
    """`attar serve`, on a port of its own, once it answers."""

    def __init__(self, *words: object) -> None:
        super().__init__("serve", *words, "--port", 0)
        try:
            self.wait_for(" at http")
            self.http = httpx.Client(base_url=self.url, timeout=60)
            wait_until(self.is_ready)
        except AssertionError:
            self.stop(signal.SIGKILL)
            raise

    def is_ready(self) -> bool:
        assert self.process.poll() is None, "".join(self.lines)
        try:
            return self.http.get("/readyz").status_code == 200
        except httpx.TransportError:  # one that starts on a busy machine may give up on a connection
            return False

    def close(self) -> None:
        self.http.close()
        self.stop(signal.SIGINT)


def run_attar(*words: object, cwd: Path | None = None, **environment: str) -> tuple[int, list[str]]:
    """A command that is refused: its exit code, and its lines on stderr without those of Ray's core."""
    command = [sys.executable, "-m", "attar", *map(str, words)]
    done = subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, env=os.environ | environment, timeout=300
    )
    lines = [line for line in done.stderr.splitlines() if line.startswith("attar:")]
    return done.returncode, lines


def shard_processes(number: int) -> list[int]:
    """The processes of a shard on Ray: those that have its store open."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            title = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
            if title.startswith(b"ray::ShardServer"):
                opened = [os.readlink(descriptor) for descriptor in (entry / "fd").iterdir()]
                if any(f"shard-{number:05}/" in path for path in opened):
                    found.append(int(entry.name))
        except OSError:
            continue
    return found


def rounded(results: Any) -> Any:
    """Results as JSON, with five digits or three decimals: this process may compute with more threads than a server."""
    if isinstance(results, float):
        return round(float(f"{results:.5g}"), 3)
    if isinstance(results, dict):
        return {name: rounded(value) for name, value in results.items()}
    if isinstance(results, list):
        return [rounded(each) for each in results]
    return rounded(msgspec.structs.asdict(results)) if isinstance(results, msgspec.Struct) else results
