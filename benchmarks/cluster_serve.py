"""`python -m benchmarks.cluster_serve`: a million made-up documents in 4 shards on Ray, on this machine.

Prints the resident memory of all processes, and how long a question to all documents takes.
"""

import contextlib
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Annotated

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
from benchmarks.server import family_of, serving
from benchmarks.stories import tell_stories

_QUESTION = "Who left the house before the night?"
# The most resident memory, in bytes.
_MEMORY = 4e9
# Seconds until all signatures must be loaded.
_LOADING = 600.0


def measure(folder: Path) -> tuple[float, float, float]:
    """Serve shards: seconds of the first search, of a question to all, and resident bytes of all processes."""
    with serving(folder, None, "--ray") as server:
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
        return loading, median(times), memory_of(server.process)


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


def memory_of(process: int) -> int:
    """The resident bytes of a process and its children but for files, shared pages in shares."""
    total = 0
    for each in family_of(process):
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{each}/smaps_rollup").read_text().splitlines():
                name, _, rest = line.partition(":")
                if name in ("Pss_Anon", "Pss_Shmem"):
                    total += 1024 * int(rest.split()[0])
    return total


def main(
    documents: Annotated[int, typer.Option(min=1, help="Documents.")] = 1_000_000, quick: Quick = False
) -> None:
    """Measure a library in shards on Ray; exit with code 1 if it takes more than 4 GB."""
    count = 2_000 if quick else documents
    with tempfile.TemporaryDirectory(prefix="attar-bench-") as place:
        fill_shards(Path(place) / "many", count, 4)
        loading, asking, resident = measure(Path(place) / "many")
    print(f"{count:,} documents: first search {loading:.2f} s, ask all {asking:.2f} s")
    print(f"resident memory of all processes, shared memory too: {resident / 1e9:.2f} GB")
    if resident > _MEMORY:
        raise typer.Exit(1)


if __name__ == "__main__":
    run_command(main)
