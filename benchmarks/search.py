"""`python -m benchmarks.search`: the speed of search at the sizes of its targets, on made-up signatures.

Signatures are made up in clusters: signs of a centre, some of them flipped. Documents of the library share the
memories of a few texts that are really read; their signatures are made up too.
"""

import contextlib
import itertools
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import typer
from numpy.typing import NDArray

from attar.library.library import Library
from attar.reader.reader import Reader
from attar.search.ranking import CANDIDATES, is_rounded, near_scores, scores
from attar.search.signatures import (
    DEFAULT_SIZE,
    SignatureRecord,
    Signer,
    Sums,
    signature_bytes,
    triangle_numbers,
)
from attar.search.statistics import Floats, default_statistics
from attar.store.records import DocumentEntry, Record
from benchmarks.command import Quick, run_command

_CLUSTER = 200
_TEXTS = [
    "Emma Woodhouse lived at Hartfield with her father. Mr. Knightley owned Donwell Abbey.",
    "Rome is the capital of Italy. The Tiber flows through the city.",
    "Tea is made from the leaves of Camellia sinensis. It was first drunk in China.",
]
_QUESTION = "Where was tea first drunk?"


def made_up(count: int, size: int, seed: int = 0) -> NDArray[np.uint8]:
    """Packed signs `[count, size]` in clusters of two hundred."""
    random = np.random.default_rng(seed)
    centres = random.integers(0, 256, (max(1, count // _CLUSTER), size), dtype=np.uint8)
    packed = np.empty((count, size), np.uint8)
    for first in range(0, count, 10_000):
        rows = packed[first : first + 10_000]
        # Two ANDed bytes have a quarter of their bits set: these are flipped.
        flipped = random.integers(0, 256, rows.shape, dtype=np.uint8)
        flipped &= random.integers(0, 256, rows.shape, dtype=np.uint8)
        rows[:] = centres[random.integers(0, len(centres), len(rows))] ^ flipped
    return packed


def median_ms(work: Callable[[], Any], rounds: int) -> float:
    """The median time of some calls, after one that is not counted."""
    work()
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return 1e3 * float(np.median(times))


def queries_like(packed: NDArray[np.uint8], count: int, size: int = DEFAULT_SIZE) -> NDArray[np.float32]:
    """Queries near some of the signatures: their signs with noise of the same size."""
    random = np.random.default_rng(1)
    bits = np.unpackbits(packed[random.integers(0, len(packed), count)], axis=1, bitorder="little")
    signs = 2.0 * bits[:, : triangle_numbers(size)] - 1
    return (signs + random.standard_normal(signs.shape)).astype(np.float32)


def best(packed: NDArray[np.uint8], queries: Floats, count: int) -> NDArray[np.intp]:
    """The rows `[m, count]` with the highest scores for each query, best first.

    The first scan may round; the best of it, many times as many as asked for, are compared exactly.
    """
    near = near_scores(packed, queries, is_rounded(len(packed)))
    candidates = min(len(packed), max(CANDIDATES, 8 * count))
    places = np.argpartition(-near, candidates - 1, axis=1)[:, :candidates]
    rows = []
    for query, own in zip(queries, places, strict=True):
        exact = scores(packed, query[None], own)[0]
        rows.append(own[np.argsort(-exact, kind="stable")][:count])
    return np.stack(rows)


def measure_scan(count: int, rounds: int) -> dict[str, float]:
    """The exact scan, alone and in batches of 64."""
    packed = made_up(count, signature_bytes(DEFAULT_SIZE))
    queries = queries_like(packed, 64)
    return {
        "signatures": count,
        "exact scan, one query (ms)": median_ms(lambda: best(packed, queries[:1], 10), rounds),
        "exact scan, each of 64 (ms)": median_ms(lambda: best(packed, queries, 10), 1) / 64,
    }


def measure_build(reader: Reader, rounds: int) -> dict[str, float]:
    """Signatures made per second from token states that are given: 155 tokens, as SQuAD's paragraphs have."""
    statistics = default_statistics(reader.fingerprint)
    assert statistics is not None
    projection = statistics.projection(DEFAULT_SIZE)
    random = np.random.default_rng(0)
    states = random.standard_normal((155, projection.state_size)).astype(np.float32)
    ids = random.integers(1_000, 20_000, 155)
    each = median_ms(lambda: Sums.of(ids, states, projection).signature(), 20 * rounds)
    return {"signatures made per second": 1e3 / each}


def made_record(
    record: SignatureRecord, packed: NDArray[np.uint8], random: np.random.Generator, pieces: int
) -> bytes:
    """A document's record with made-up signs and word pieces."""
    own = np.unique(random.integers(0, pieces, 100)).astype("<u2")
    changed = {"signature": packed.tobytes(), "pieces": own.tobytes(), "counts": bytes([1]) * len(own)}
    return msgspec.structs.replace(record, **changed).to_bytes()


def records_of(signer: Signer, texts: Sequence[str]) -> list[SignatureRecord]:
    """The records of texts that are really read."""
    read = (signer.record(signer.sums(text), text_kept=True) for text in texts)
    return [SignatureRecord.from_bytes(each) for each in read]


def fill_library(library: Library, reader: Reader, count: int) -> Signer:
    """Write made-up documents to a library, and return what makes its signatures."""
    memories = reader.read_many(_TEXTS)
    statistics = default_statistics(reader.fingerprint, reader.folder)
    assert statistics is not None
    signer = Signer.of(reader, statistics)
    records = records_of(signer, _TEXTS)
    random = np.random.default_rng(0)
    packed = made_up(count, signature_bytes(signer.size))
    for first in range(0, count, 5_000):
        with library.store.transaction() as changes:
            if not first:
                changes.put_statistics(signer.statistics.data)
            for at in range(first, min(count, first + 5_000)):
                own = at % len(_TEXTS)
                signature = made_record(records[own], packed[at], random, signer.pieces)
                record = Record.of(
                    DocumentEntry(name=f"{at:07}"), memories[own], text=_TEXTS[own], signature=signature
                )
                changes.put(record, reader=reader.fingerprint)
    return signer


def anonymous_memory() -> int:
    """The bytes of this process without those of files, such as a store's pages; 0 on systems other than Linux."""
    with contextlib.suppress(OSError):
        (line,) = (each for each in Path("/proc/self/status").read_text().splitlines() if "RssAnon" in each)
        return 1024 * int(line.split()[1])
    return 0


def measure_library(reader: Reader, count: int, rounds: int) -> dict[str, float]:
    """Adding one and asking all of a library, without the time to read and to encode the question."""
    with tempfile.TemporaryDirectory() as folder, Library(folder, reader) as library:
        signer = fill_library(library, reader, count)
        before = anonymous_memory()
        began = time.process_time()
        library.make_signatures()
        loaded = time.process_time()
        library.search(_QUESTION)
        searched, served = time.process_time(), anonymous_memory() - before
        reading = median_ms(lambda: reader.read(_TEXTS[2]), rounds)
        encoding = median_ms(lambda: signer.query(_QUESTION), rounds)
        names = iter(f"new {at}" for at in range(1_000))
        added = median_ms(lambda: library.add(next(names), _TEXTS[2]), rounds)
        # Never the same question twice: the scores of the last ones are kept.
        questions = (f"{_QUESTION} {at}" for at in itertools.count())
        asked = median_ms(lambda: library.ask_all(next(questions)), rounds)
    return {
        "documents": count,
        "reading all signatures, processor time (s)": loaded - began,
        "the first search after that, processor time (s)": searched - loaded,
        "memory per document once all are asked (bytes)": served / count,
        "add one, beyond reading (ms)": added - reading,
        "ask all, beyond encoding the question (ms)": asked - encoding,
    }


def main(
    quick: Quick = False,
    only: Annotated[str, typer.Option(help="build, library or scan; all by default.")] = "",
) -> None:
    """Measure the speed of search."""
    reader, rounds = Reader.load(), 2 if quick else 7
    parts: dict[str, Callable[[], dict[str, float]]] = {
        "build": lambda: measure_build(reader, rounds),
        "library": lambda: measure_library(reader, 300 if quick else 100_000, rounds),
        "scan": lambda: measure_scan(5_000 if quick else 1_000_000, rounds),
    }
    for name, part in parts.items():
        if only in ("", name):
            for what, value in part().items():
                print(f"{what:<50}{value:>14,.{1 if value >= 10 else 3}f}")


if __name__ == "__main__":
    run_command(main)
