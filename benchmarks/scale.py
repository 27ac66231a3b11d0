"""`python -m benchmarks.scale`: what a library of any size costs, from rates measured here, and a simulation of shards.

The rates are of one core, by the CPU time that this process takes, so that other programs hardly matter. A deployment
is their product with the numbers of documents and questions. The simulation asks all shards at once and waits for the
slowest; service times are drawn from those measured. docs/scale.md has the tables and what they assume.
"""

import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Annotated, Any

import numpy as np
import torch
import typer
from numpy.typing import NDArray

from attar.cluster.calls import LocalShard
from attar.cluster.sharded import ShardedLibrary
from attar.library.library import Library
from attar.reader.reader import Reader
from attar.search.signatures import DEFAULT_SIZE, signature_bytes
from benchmarks.command import Json, Quick, run_command
from benchmarks.search import best, fill_library, made_up, queries_like
from benchmarks.stories import tell_stories

Times = NDArray[np.float64]
_DAY = 86_400
_QUESTION = "Where was tea first drunk?"
# Word counts of a document, in addition to its signature: as many pieces as a paragraph has, 4 bytes each.
_WORDS = 4 * 100
# Lookups per second in a bank of a million memories on one NVIDIA H200, k = 128: `python -m benchmarks.ops_gpu`.
_GPU_LOOKUPS = 200e6
# Documents of the library whose shards are simulated, and shards that a question is merged over.
_DOCUMENTS, _MERGED = 1e9, 100


@dataclass(frozen=True)
class Rates:
    """What one core does and one document takes."""

    tokens: float  # per document
    read: float  # documents per second
    disk: float  # bytes per document: memory, text, signature
    index: float  # bytes of memory per document: signature and word counts
    ask: float  # questions in words per second, each to one document, 256 in one call
    scan: float  # signatures per second, in batches of 64
    answer: float  # seconds per question to all documents, apart from the scan
    merge: (
        float  # seconds per shard and question that the server takes to merge the rounds, without transport
    )


def measure(quick: bool) -> tuple[Rates, Times]:
    """The rates, and service times in seconds of questions to all documents of a shard, without the scan."""
    torch.set_num_threads(1)
    rounds, reader = 1 if quick else 3, Reader.load()
    all_texts = [story.text for story in tell_stories(1, 8 if quick else 64)]
    texts = all_texts[: 4 if quick else 16]
    memories = reader.read_many(texts)
    reading = cpu_seconds(lambda: reader.read_many(texts), rounds)
    asked = [memories[at % len(memories)] for at in range(8 if quick else 256)]
    asking = cpu_seconds(lambda: reader.answer_many(asked, [_QUESTION] * len(asked)), rounds)
    packed = made_up(2_000 if quick else 200_000, signature_bytes(DEFAULT_SIZE))
    queries = queries_like(packed, 64)
    scan = len(packed) * len(queries) / cpu_seconds(lambda: best(packed, queries, 10), rounds)
    with tempfile.TemporaryDirectory() as folder, Library(folder, reader, durability="relaxed") as library:
        library.add_many((f"{at}", text) for at, text in enumerate(texts))
        first = library.store.stats()
        one, many = (
            cpu_seconds(
                partial(ShardedLibrary([LocalShard(library)] * count).ask_all_many, [_QUESTION]), rounds
            )
            for count in (1, 1 + _MERGED)
        )
        library.add_many((f"{at}", text) for at, text in enumerate(all_texts) if at >= len(texts))
        stats = library.store.stats()
        # By the documents after the first: what a library keeps once, as the statistics of search, is in both.
        used = (stats.file_bytes - stats.free_bytes) - (first.file_bytes - first.free_bytes)
    count = 300 if quick else 20_000
    with tempfile.TemporaryDirectory() as folder, Library(folder, reader, durability="relaxed") as library:
        fill_library(library, reader, count)
        library.ask_all(_QUESTION)
        times = np.array([_cpu(lambda: library.ask_all(_QUESTION)) for _ in range(10 if quick else 100)])
    times = np.maximum(times - count / scan, 1e-4)
    rates = Rates(
        tokens=stats.tokens / len(all_texts),
        read=len(texts) / reading,
        disk=used / (len(all_texts) - len(texts)),
        index=signature_bytes(DEFAULT_SIZE) + _WORDS,
        ask=len(asked) / asking,
        scan=scan,
        answer=float(np.median(times)),
        merge=(many - one) / _MERGED,
    )
    return rates, times


def cpu_seconds(work: Callable[[], Any], rounds: int) -> float:
    """The median CPU time of some calls, after one that is not counted."""
    work()
    return float(np.median([_cpu(work) for _ in range(rounds)]))


def _cpu(work: Callable[[], Any]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def costs(rates: Rates, documents: float, questions: float, memory: float = 64e9) -> dict[str, float]:
    """What a library takes: disk, memory, shards of machines with this much memory, and cores.

    >>> rates = Rates(150, read=50, disk=8e3, index=1_400, ask=300, scan=10e6, answer=.01, merge=0)
    >>> costs(rates, 1e9, 0)["shards"]
    44.0
    """
    return {
        "documents": documents,
        "questions/s": questions,
        "disk (GB)": documents * rates.disk / 1e9,
        "index in memory (GB)": documents * rates.index / 1e9,
        # Half of a machine's memory is left to the system's cache of memories and texts.
        "shards": float(np.ceil(documents * rates.index / (memory / 2))),
        "core-days to read": documents / rates.read / _DAY,
        "GPUs, lookups": questions / _GPU_LOOKUPS,
        "cores, one document per question": questions / rates.ask,
        "cores, all documents per question": questions * (documents / rates.scan + rates.answer),
    }


def simulate(
    times: Times, shards: int, replicas: int, load: float, questions: int, seed: int = 0
) -> dict[str, float]:
    """The time until all shards have answered, in milliseconds: median, 99th percentile, and one shard's own.

    `load` is the share of time that a replica is busy. Questions arrive at random (Poisson); of two replicas drawn at
    random the one that is free first takes a question, as Ray Serve does it.
    """
    random = np.random.default_rng(seed)
    every = float(times.mean()) / (load * replicas)
    arrivals = np.cumsum(random.exponential(every, questions))
    free = np.zeros((shards, replicas))
    rows = np.arange(shards)
    slowest, alone = np.empty(questions), np.empty(questions)
    for at, now in enumerate(arrivals):
        pair = random.integers(0, replicas, (2, shards))
        chosen = np.where(free[rows, pair[0]] <= free[rows, pair[1]], pair[0], pair[1])
        done = np.maximum(now, free[rows, chosen]) + random.choice(times, shards)
        free[rows, chosen] = done
        slowest[at], alone[at] = done.max() - now, done[0] - now
    warm = questions // 5  # queues are empty at first
    return {
        "shards": shards,
        "replicas": replicas,
        "load": load,
        "p50 (ms)": 1e3 * float(np.median(slowest[warm:])),
        "p99 (ms)": 1e3 * float(np.quantile(slowest[warm:], 0.99)),
        "p99 of one shard (ms)": 1e3 * float(np.quantile(alone[warm:], 0.99)),
    }


def run(*, quick: bool = False, shards: int = 1_000) -> dict[str, Any]:
    """Rates, costs at several sizes, and simulations at several loads and numbers of replicas."""
    rates, times = measure(quick)
    own = times + _DOCUMENTS / shards / rates.scan
    sizes = [(1e5, 10), (1e7, 1e3), (1e9, 1e4), (1e9, 1e6)]
    asked = 200 if quick else 5_000
    loads = [(replicas, load) for load in (0.3, 0.7) for replicas in (1, 2, 4)]
    return {
        "rates": asdict(rates),
        "service times (ms)": {
            f"p{share}": 1e3 * float(np.percentile(own, share)) for share in (50, 90, 99, 100)
        },
        "costs": [costs(rates, *size) for size in sizes],
        "simulation": [simulate(own, shards, *each, asked) for each in loads],
    }


def main(
    quick: Quick = False,
    shards: Annotated[int, typer.Option(help="Shards to simulate.", min=1)] = 1_000,
    json_output: Json = False,
) -> None:
    """Measure rates of one core, and print what libraries of several sizes take."""
    found = run(quick=quick, shards=shards)
    if json_output:
        print(json.dumps(found))
        return
    for title in ("rates", "service times (ms)", "costs", "simulation"):
        rows = found[title] if isinstance(found[title], list) else [found[title]]
        print(f"\n{title}\n\n{table(rows)}")


def table(rows: list[dict[str, float]]) -> str:
    """A table in Markdown, one column per row of numbers.

    >>> print(table([{"shards": 4.0, "load": .5}]))
    | shards | 4 |
    |---|---|
    | load | 0.5 |
    """
    first, *others = (f"| {' | '.join([name, *(f'{row[name]:,.4g}' for row in rows)])} |" for name in rows[0])
    return "\n".join([first, "|---" * (len(rows) + 1) + "|", *others])


if __name__ == "__main__":
    run_command(main)
