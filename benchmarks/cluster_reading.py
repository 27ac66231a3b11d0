"""`python -m benchmarks.cluster_reading --kills 20`: reading with Ray, killed at random, ends with the same library."""

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from attar.cluster.connection import connected
from attar.documents.sources import find_files
from attar.library.drafts import read_files
from attar.library.library import Library
from attar.store.records import Fault
from attar.store.store import Store
from benchmarks.command import run_command
from benchmarks.stories import story_texts
from benchmarks.timing import WrongResultError

_ACTORS = 2
# In the environment of the processes of a cluster that this program has started; no others are killed.
_MARK = "ATTAR_KILLED"
# Seconds after the first document is on disk, at most; every fourth job is killed so long after its start instead.
_LATEST, _EARLIEST = 1.0, 12.0


def write_stories(folder: Path, count: int) -> int:
    """Write texts of stories, of 100 to 3,000 characters, to files; returns their characters."""
    folder.mkdir(parents=True)
    lengths = random.Random(0)
    texts = [text[: lengths.randint(100, 3_000)] for text in story_texts(count)]
    for at, text in enumerate(texts):
        (folder / f"story{at:04}.txt").write_text(text)
    return sum(map(len, texts))


def contents(store: Path) -> dict[str, Any]:
    """All that a store holds but times: each document's entry, memory, text and signature, and the statistics."""
    with Store.open(store, create=False, read_only=True) as opened, opened.snapshot() as now:
        found: dict[str, Any] = {"": (now.header.reader, now.statistics)}
        for entry in now.documents():
            if isinstance(entry, Fault):
                raise WrongResultError(entry.line)
            record = now.record(entry)
            facts = (entry.title, entry.digest, entry.tokens, entry.source, entry.date, entry.parts)
            found[entry.name] = facts, record.memory_data, record.text, record.signature
        return found


def add_without_ray(store: Path, folder: Path) -> None:
    """What `attar add` does."""
    with Library(store) as library:
        library.add_many(read_files(find_files([folder]).files))


class Killer:
    """Reads a folder with Ray again and again, and kills the job, or one of its actors, at random moments."""

    def __init__(self, place: Path, address: str, seed: int = 0) -> None:
        self.folder, self.store, self.address = place / "stories", place / "library", address
        self.moments = random.Random(seed)

    def kill(self, actor: bool) -> bool:
        """Start the job and kill it, or one of its actors and wait for its end; whether there was one to kill."""
        with self._job() as job:
            if actor or self.moments.random() < 0.75:
                assert job.stdout is not None
                job.stdout.readline()
                time.sleep(self.moments.uniform(0, _LATEST))
            else:
                time.sleep(self.moments.uniform(0, _EARLIEST))
            if not actor:
                running = job.poll() is None
                job.kill()
                return running
            victims = actor_processes()[:1]
            for pid in victims:
                os.kill(pid, signal.SIGKILL)
            self._wait(job)
            return bool(victims)

    def finish(self) -> None:
        """Run the job to its end."""
        with self._job() as job:
            self._wait(job)

    def _wait(self, job: "subprocess.Popen[str]") -> None:
        job.communicate(timeout=600)
        if job.returncode != 0:
            raise WrongResultError(f"the job ended with code {job.returncode}")

    @contextmanager
    def _job(self) -> "Iterator[subprocess.Popen[str]]":
        command = [sys.executable, "-m", "attar", "add", str(self.store), str(self.folder)]
        command += ["--ray", self.address, "--actors", str(_ACTORS)]
        environment = os.environ | {"PYTHONUNBUFFERED": "1"}
        job = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        try:
            yield job
        finally:
            job.kill()
            job.communicate()


def actor_processes() -> list[int]:
    """The actors that read, of clusters that this program has started."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if (folder / "cmdline").read_bytes().startswith(b"ray::ReadingActor"):
                marked = f"{_MARK}={os.environ[_MARK]}".encode()
                found += [int(folder.name)] if marked in (folder / "environ").read_bytes() else []
        except OSError:
            continue
    return found


def mark_processes() -> None:
    """Mark the processes of clusters that this program starts from now on."""
    os.environ.setdefault(_MARK, uuid.uuid4().hex)


def main(
    kills: Annotated[int, typer.Option(min=1, help="Number of kills; every fifth is of an actor.")] = 20,
    documents: Annotated[int, typer.Option(min=1, help="Documents to read.")] = 200,
) -> None:
    """Kill reading with Ray at random moments, finish it, and compare the library with one read without Ray."""
    mark_processes()
    with tempfile.TemporaryDirectory(prefix="attar-cluster-") as place, connected("local", _ACTORS):
        import ray

        killer = Killer(Path(place), ray.get_runtime_context().gcs_address)
        write_stories(killer.folder, documents)
        done = tries = 0
        while done < kills:
            tries += 1
            actor = tries % 5 == 0
            done += (killed := killer.kill(actor))
            kept = _count(killer.store)
            what = ("an actor" if actor else "the job") if killed else "nothing left to kill"
            print(f"{done}: {what}, {kept:,} of {documents:,} documents are on disk", flush=True)
            if kept == documents:
                _compare(killer, Path(place, "expected"))
                shutil.rmtree(killer.store)
        killer.finish()
        _compare(killer, Path(place, "expected"))
    print(f"target: after {kills:,} kills the same library, byte for byte, as read without Ray: met")


def _count(store: Path) -> int:
    if not Store.exists(store):
        return 0
    with Store.open(store) as opened:
        return len(opened)


def _compare(killer: Killer, expected: Path) -> None:
    if not expected.exists():
        add_without_ray(expected, killer.folder)
    if contents(killer.store) != contents(expected):
        print("target: the same library, byte for byte, as read without Ray: missed")
        raise typer.Exit(1)


if __name__ == "__main__":
    run_command(main)
