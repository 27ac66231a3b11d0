"""`python -m benchmarks.cluster_serve`: a million made-up documents in 4 shards on Ray Serve, on this machine.

Prints the resident memory of all processes, and how long a question to all documents takes.
"""

import contextlib
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import httpx
import numpy as np
import typer

from attar import wire
from attar.cluster.shards import shard_of, shard_paths, split
from attar.reader.reader import Reader
from attar.search.signatures import Signer, signature_bytes
from attar.search.statistics import default_statistics
from attar.store.records import DocumentEntry, Record
from attar.store.store import Store
from benchmarks.command import Quick, run_command
from benchmarks.search import made_record, made_up, records_of
from benchmarks.server import family_of, serving, watched
from benchmarks.stories import tell_stories

_QUESTION = "Who left the house before the night?"
# The most resident memory, in gigabytes.
_MEMORY = 4.0
# Seconds until all signatures must be loaded.
_LOADING = 600.0


def measure_memory(folder: Path, count: int) -> dict[str, Any]:
    """Serve many made-up documents in 4 shards, and measure the memory of all processes, those of Ray too."""
    began = time.monotonic()
    fill_shards(folder, count, 4)
    filled = time.monotonic() - began
    with serving(folder, None, "--ray") as server, watched(lambda: resident(server.process), 0.5) as highest:
        with httpx.Client(base_url=f"http://127.0.0.1:{server.port}", timeout=600) as http:
            began = time.monotonic()
            # While the shards load their signatures, a search ends at the server's time limit: 504.
            while (reply := http.post(wire.SEARCH, json={"query": _QUESTION})).status_code in (503, 504):
                if time.monotonic() > began + _LOADING:
                    break
            reply.raise_for_status()
            loading = time.monotonic() - began
            times = []
            for _ in range(5):
                began = time.monotonic()
                http.post(wire.ASK, json={"question": _QUESTION}).raise_for_status()
                times.append(time.monotonic() - began)
        own = memory_of(server.process)
    return {
        "documents": count,
        "making them (s)": filled,
        "first search (s)": loading,
        "ask all (s)": median(times),
        "resident memory of all processes, shared memory too (GB)": (own["Pss_Anon"] + own["Pss_Shmem"])
        / 1e9,
        "highest, while loading (GB)": max(highest, default=0) / 1e9,
        "mapped pages of files, which the system may drop (GB)": own["Pss_File"] / 1e9,
        "both (Pss, GB)": own["Pss"] / 1e9,
    }


def fill_shards(folder: Path, count: int, shards: int) -> None:
    """Write made-up documents, with their signatures, to the shards of their names."""
    reader = Reader.load()
    statistics = default_statistics(reader.fingerprint)
    assert statistics is not None
    signer = Signer.of(reader, statistics)
    texts = [story.text[:400] for story in tell_stories(2, 16)]
    memories, records = reader.read_many(texts), records_of(signer, texts)
    with Store.open(folder.with_name("empty")) as store, store.transaction() as changes:
        changes.put_statistics(signer.statistics.data)
    split(folder.with_name("empty"), folder, shards)
    numbers = np.random.default_rng(0)
    with contextlib.ExitStack() as stack:
        stores = [stack.enter_context(Store.open(path, create=False)) for path in shard_paths(folder)]
        for first in range(0, count, 20_000):
            packed = made_up(min(20_000, count - first), signature_bytes(signer.size))
            names = [f"{at:07}" for at in range(first, first + len(packed))]
            for number, own in enumerate(stores):
                with own.transaction() as changes:
                    for at, name in enumerate(names):
                        if shard_of(name, shards) == number:
                            text = (first + at) % len(texts)
                            made = made_record(records[text], packed[at], numbers, signer.pieces)
                            record = Record.of(
                                DocumentEntry(name=name), memories[text], text=texts[text], signature=made
                            )
                            changes.put(record, reader=reader.fingerprint)


def resident(process: int) -> int:
    """The resident memory of a process and its children but for files."""
    now = memory_of(process)
    return now["Pss_Anon"] + now["Pss_Shmem"]


def memory_of(process: int) -> dict[str, int]:
    """The resident bytes of a process and its children, shared pages in shares: own, shared, of files, and all."""
    total = dict.fromkeys(("Pss_Anon", "Pss_Shmem", "Pss_File", "Pss"), 0)
    for each in family_of(process):
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{each}/smaps_rollup").read_text().splitlines():
                name, _, rest = line.partition(":")
                if name in total:
                    total[name] += 1024 * int(rest.split()[0])
    return total


def main(
    documents: Annotated[int, typer.Option(min=1, help="Documents.")] = 1_000_000, quick: Quick = False
) -> None:
    """Measure a library in shards on Ray Serve; exit with code 1 if it takes more than 4 GB."""
    with tempfile.TemporaryDirectory(prefix="attar-bench-") as place:
        found = measure_memory(Path(place) / "many", 2_000 if quick else documents)
    for name, value in found.items():
        print(f"{name:60} {value:,.2f}" if isinstance(value, float) else f"{name:60} {value:,}")
    if found["resident memory of all processes, shared memory too (GB)"] > _MEMORY:
        raise typer.Exit(1)


if __name__ == "__main__":
    run_command(main)
