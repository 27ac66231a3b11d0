"""`python -m benchmarks.cluster_serve`: a library in shards on Ray Serve, over loopback, on this machine.

serve: batches of 256 questions to 2 shards, compared with a plain server in turns. kill: SIGKILL to a shard under load.
million: the resident memory of a server of a million made-up documents in 4 shards.
"""

import contextlib
import json
import os
import random
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import httpx
import numpy as np
import typer

from attar import Client, wire
from attar.cluster.shards import shard_of, shard_paths, split
from attar.library.library import Library
from attar.reader.reader import Reader
from attar.search.signatures import Signer, signature_bytes
from attar.search.statistics import default_statistics
from attar.store.records import Record
from attar.store.store import Store
from benchmarks.command import Json, Quick, run_command
from benchmarks.search import made_record, made_up, records_of
from benchmarks.server_rows import ServerProcess, serving
from benchmarks.stories import tell_stories

_SHARDS, _BATCH, _ROUNDS, _CONNECTIONS = 2, 256, 5, 4
_QUESTION = "Who left the house before the night?"
# Targets: share of the plain server's questions per second, seconds until a killed shard answers, gigabytes.
_SHARE, _BACK, _MEMORY = 0.5, 30.0, 4.0
# Seconds until all signatures must be loaded.
_LOADING = 600.0
# Begins the names of rows that are judged.
_TARGET = "target: "


def run(*, only: str = "", quick: bool = False, documents: int = 1_000_000) -> dict[str, Any]:
    """The figures of all parts, or of one."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="attar-bench-") as place:
        folder = Path(place)
        if only != "million":
            with Library(folder / "plain", Reader.load(), durability="relaxed") as library:
                stories = list(tell_stories(1, 8 if quick else 256))
                library.add_many((f"{at:04}", story.text) for at, story in enumerate(stories))
            split(folder / "plain", folder / "shards", _SHARDS)
            names = [f"{at:04}" for at in range(len(stories))]
        if only in ("", "serve"):
            found |= measure_serving(folder, names, 0.5 if quick else 6.0)
        if only in ("", "kill"):
            found |= measure_kill(folder, names)
        if only in ("", "million"):
            found |= measure_memory(folder / "many", 2_000 if quick else documents)
    return found


def measure_serving(folder: Path, names: list[str], seconds: float) -> dict[str, Any]:
    """Questions per second in batches, of a plain server and of shards on Ray, in turns."""
    with serving(folder / "plain", None) as plain, serving(folder / "shards", None, "--ray") as shards:
        rates: dict[str, list[float]] = {"plain": [], "ray": []}
        for server in (plain, shards):
            questions_per_second(server, names, 1.0)
        for _ in range(_ROUNDS):
            rates["plain"].append(questions_per_second(plain, names, seconds / 2))
            rates["ray"].append(questions_per_second(shards, names, seconds / 2))
        rankings = [ranking(server) for server in (plain, shards)]
    shares = [ray / own for ray, own in zip(rates["ray"], rates["plain"], strict=True)]
    return {
        "plain server (questions/s)": median(rates["plain"]),
        "2 shards on Ray (questions/s)": median(rates["ray"]),
        "share": median(shares),
        "shares of the rounds": [round(share, 2) for share in sorted(shares)],
        f"{_TARGET}share ≥ {_SHARE}": median(shares) >= _SHARE,
        "answers from all documents compared": sum(map(len, rankings[0])),
        f"{_TARGET}same answers in the same order": rankings[0] == rankings[1],
    }


def ranking(server: ServerProcess) -> list[list[tuple[str | None, str]]]:
    """The answers to some questions from all documents, in order."""
    questions = [_QUESTION, "Who was in the garden?", "Where did they meet?", "When was it?"]
    with Client(f"http://127.0.0.1:{server.port}", retries=100) as client:
        return [
            [(each.document, each.text) for each in client.ask_all(question, top=20)]
            for question in questions
        ]


def questions_per_second(server: ServerProcess, names: list[str], seconds: float) -> float:
    """Questions answered per second by batches over all documents, from some connections."""
    end, answered = time.monotonic() + seconds, []
    body = {"documents": [names[at % len(names)] for at in range(_BATCH)], "question": _QUESTION, "top": 1}

    def drive() -> None:
        with httpx.Client(base_url=f"http://127.0.0.1:{server.port}", timeout=60) as http:
            while time.monotonic() < end:
                reply = http.post(wire.ASK, json=body)
                if reply.status_code == 503:  # a full queue, where the machine is slow
                    time.sleep(0.05)
                    continue
                reply.raise_for_status()
                answered.append(_BATCH)

    began = time.monotonic()
    threads = [threading.Thread(target=drive) for _ in range(_CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(answered) / (time.monotonic() - began)


def measure_kill(folder: Path, names: list[str]) -> dict[str, Any]:
    """Kill a shard's process while its documents and the others are asked, and documents are added."""
    with serving(folder / "shards", None, "--ray") as server:
        with Client(f"http://127.0.0.1:{server.port}") as client:
            expected = {name: client.ask(name, _QUESTION, top=1)[0].text for name in names}
        stop, seen, added = threading.Event(), list[tuple[float, int, int]](), list[str]()
        wrong: list[str] = []

        def ask(number: int) -> None:
            own = [name for name in names if shard_of(name, _SHARDS) == number]
            with httpx.Client(base_url=f"http://127.0.0.1:{server.port}", timeout=60) as http:
                while not stop.is_set():
                    name = random.choice(own)
                    reply = http.post(wire.ASK, json={"document": name, "question": _QUESTION, "top": 1})
                    seen.append((time.monotonic(), number, reply.status_code))
                    if reply.status_code == 200 and reply.json()["answers"][0]["text"] != expected[name]:
                        wrong.append(name)

        def add() -> None:
            with Client(f"http://127.0.0.1:{server.port}", retries=100) as client:
                while not stop.is_set():
                    name = f"added {len(added)}"
                    client.add(name, f"Ann Lee left {name}.")
                    added.append(name)

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(_SHARDS)]
        threads.append(threading.Thread(target=add))
        for thread in threads:
            thread.start()
        time.sleep(3)
        (pid,) = shard_processes(server.process, 1)
        killed = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        while time.monotonic() < killed + 2 * _BACK:
            time.sleep(0.1)
            if shard_processes(server.process, 1) not in ([], [pid]) and seconds_until_back(seen, 1, killed):
                break
        time.sleep(2)
        stop.set()
        for thread in threads:
            thread.join()
        with Client(f"http://127.0.0.1:{server.port}", retries=100) as client:
            kept = {document.name for document in client.documents()}
            wrong += [name for name in names if client.ask(name, _QUESTION, top=1)[0].text != expected[name]]
    back = seconds_until_back(seen, 1, killed)
    statuses = [{status for _, number, status in seen if number == own} for own in range(_SHARDS)]
    sound = statuses[0] == {200} and statuses[1] <= {200, 503}
    missing = {*names, *added} - kept
    return {
        "killed shard answers again after (s)": back,
        "statuses of the other shard": sorted(statuses[0]),
        "503 of the killed shard": sum(number == 1 and status == 503 for _, number, status in seen),
        "wrong answers": len(wrong),
        "documents before": len(names),
        "documents added meanwhile": len(added),
        "documents lost": len(missing),
        f"{_TARGET}answers again after ≤ {_BACK:g} s": back is not None and back <= _BACK,
        f"{_TARGET}the other shard is unaffected": sound,
        f"{_TARGET}no wrong answer, no lost document": not wrong and not missing,
    }


def seconds_until_back(seen: list[tuple[float, int, int]], number: int, killed: float) -> float | None:
    """From the kill to the first answer after the last refusal; None if there is none yet.

    Nobody may have asked while the shard was away: then it is the first answer after the kill.

    >>> seconds_until_back([(1, 1, 200), (3, 1, 503), (4, 0, 200), (5, 1, 503), (7, 1, 200)], 1, killed=2)
    5
    >>> seconds_until_back([(1, 1, 200), (3, 1, 200)], 1, killed=2)
    1
    >>> seconds_until_back([(1, 1, 200), (3, 1, 503)], 1, killed=2)
    """
    own = [(at, status) for at, each, status in list(seen) if each == number and at > killed]
    last = max((at for at, status in own if status != 200), default=killed)
    return min((at - killed for at, status in own if status == 200 and at > last), default=None)


def measure_memory(folder: Path, count: int) -> dict[str, Any]:
    """Serve many made-up documents in 4 shards, and measure the memory of all processes, those of Ray too."""
    began = time.monotonic()
    fill_shards(folder, count, 4)
    filled = time.monotonic() - began
    with serving(folder, None, "--ray") as server, watched(server.process) as highest:
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
            ask = {"documents": [f"{at:07}" for at in range(_BATCH)], "question": _QUESTION}
            http.post(wire.ASK, json=ask).raise_for_status()
        own = memory_of(server.process)
    resident = own["Pss_Anon"] + own["Pss_Shmem"]
    return {
        "documents": count,
        "making them (s)": filled,
        "first search (s)": loading,
        "ask all (s)": median(times),
        "resident memory of all processes, shared memory too (GB)": resident / 1e9,
        "highest, while loading (GB)": max(highest, default=0) / 1e9,
        "mapped pages of files, which the system may drop (GB)": own["Pss_File"] / 1e9,
        "both (Pss, GB)": own["Pss"] / 1e9,
        f"{_TARGET}resident memory ≤ {_MEMORY:g} GB": resident / 1e9 <= _MEMORY,
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
        stores = [
            stack.enter_context(Store.open(path, create=False, durability="relaxed"))
            for path in shard_paths(folder)
        ]
        for first in range(0, count, 20_000):
            packed = made_up(min(20_000, count - first), signature_bytes(signer.size))
            names = [f"{at:07}" for at in range(first, first + len(packed))]
            for number, own in enumerate(stores):
                with own.transaction() as changes:
                    for at, name in enumerate(names):
                        if shard_of(name, shards) == number:
                            text = (first + at) % len(texts)
                            made = made_record(records[text], packed[at], numbers, signer.pieces)
                            record = Record.of(name, memories[text], text=texts[text], signature=made)
                            changes.put(record, reader=reader.fingerprint)


@contextlib.contextmanager
def watched(process: int) -> Iterator[list[int]]:
    """The resident memory of a process and its children but for files, taken every half second."""
    found: list[int] = []
    stop = threading.Event()

    def watch() -> None:
        while not stop.wait(0.5):
            now = memory_of(process)
            found.append(now["Pss_Anon"] + now["Pss_Shmem"])

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield found
    finally:
        stop.set()
        thread.join()


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


def family_of(process: int) -> list[int]:
    """A process, its children and theirs."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(stat.parent.name))
    family, waiting = [], [process]
    while waiting:
        each = waiting.pop()
        family.append(each)
        waiting += children.get(each, [])
    return family


def shard_processes(process: int, number: int) -> list[int]:
    """The processes of a shard, among the children of a server."""
    found = []
    for each in family_of(process):
        with contextlib.suppress(OSError):
            title = Path(f"/proc/{each}/cmdline").read_bytes()
            if title.startswith(b"ray::ServeReplica:attar-") and f"-{number}:shard".encode() in title:
                found.append(each)
    return found


def main(
    only: Annotated[str, typer.Option(help="serve, kill or million.")] = "",
    documents: Annotated[int, typer.Option(min=1, help="Documents of the part million.")] = 1_000_000,
    quick: Quick = False,
    as_json: Json = False,
) -> None:
    """Measure a library in shards on Ray Serve; exit with code 1 if a target is missed."""
    found = run(only=only, quick=quick, documents=documents)
    if as_json:
        print(json.dumps(found))
    else:
        for name, value in found.items():
            print(f"{name:60} {_shown(name, value)}")
    if not quick and not all(value for name, value in found.items() if name.startswith(_TARGET)):
        raise typer.Exit(1)


def _shown(name: str, value: Any) -> str:
    if name.startswith(_TARGET):
        return "met" if value else "missed"
    return f"{value:,.2f}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    run_command(main)
