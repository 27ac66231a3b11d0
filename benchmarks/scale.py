"""`python -m benchmarks.scale`: what a library of any size costs, from rates measured here.

The rates are of one core, by the CPU time that this process takes, so that other programs hardly matter. A deployment
is their product with the numbers of documents and questions. docs/scale.md has the tables and what they assume.
"""

import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from attar.library.library import Library
from attar.reader.reader import Reader
from attar.search.signatures import DEFAULT_SIZE, signature_bytes
from benchmarks.command import Json, Quick, run_command
from benchmarks.search import best, fill_library, made_up, queries_like
from benchmarks.stories import tell_stories

_DAY = 86_400
_QUESTION = "Where was tea first drunk?"
# Word counts of a document, in addition to its signature: as many pieces as a paragraph has, 4 bytes each.
_WORDS = 4 * 100
# Lookups per second in a bank of a million memories on one NVIDIA H200, k = 128: `python -m benchmarks.ops_gpu`.
_GPU_LOOKUPS = 200e6
# Documents and questions per second of the libraries whose costs are printed.
_SIZES = ((1e5, 10), (1e7, 1e3), (1e9, 1e4), (1e9, 1e6))


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


def measure(quick: bool) -> Rates:
    """The rates."""
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
    with tempfile.TemporaryDirectory() as folder, Library(folder, reader) as library:
        library.add_many((f"{at}", text) for at, text in enumerate(texts))
        first = library.store.stats()
        library.add_many((f"{at}", text) for at, text in enumerate(all_texts) if at >= len(texts))
        stats = library.store.stats()
        # By the documents after the first: what a library keeps once, as the statistics of search, is in both.
        used = (stats.file_bytes - stats.free_bytes) - (first.file_bytes - first.free_bytes)
    count = 300 if quick else 20_000
    with tempfile.TemporaryDirectory() as folder, Library(folder, reader) as library:
        fill_library(library, reader, count)
        library.ask_all(_QUESTION)
        times = [_cpu(lambda: library.ask_all(_QUESTION)) for _ in range(10 if quick else 100)]
    return Rates(
        tokens=stats.tokens / len(all_texts),
        read=len(texts) / reading,
        disk=used / (len(all_texts) - len(texts)),
        index=signature_bytes(DEFAULT_SIZE) + _WORDS,
        ask=len(asked) / asking,
        scan=scan,
        answer=max(float(np.median(times)) - count / scan, 1e-4),
    )


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

    >>> rates = Rates(150, read=50, disk=8e3, index=1_400, ask=300, scan=10e6, answer=.01)
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


def main(
    quick: Quick = False,
    json_output: Json = False,
) -> None:
    """Measure rates of one core, and print what libraries of several sizes take."""
    rates = measure(quick)
    found = {"rates": [asdict(rates)], "costs": [costs(rates, *size) for size in _SIZES]}
    if json_output:
        print(json.dumps(found))
        return
    for title, rows in found.items():
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
