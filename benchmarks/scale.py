"""`python -m benchmarks.scale`: what a library of any size costs, from rates measured here.

The rates are of one core, by the CPU time that this process takes, so that other programs hardly matter. A deployment
is their product with the numbers of documents and questions. `--prices` computes dollars, from figures that other
commands measured and from assumptions. docs/scale.md has the tables.
"""

import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import numpy as np
import torch
import typer

from attar.library.library import Library
from attar.reader.reader import Reader
from attar.search.signatures import DEFAULT_SIZE, signature_bytes
from benchmarks.command import Quick, run_command
from benchmarks.search import best, fill_library, made_up, queries_like
from benchmarks.stories import tell_stories

_DAY = 86_400
_QUESTION = "Where was tea first drunk?"
# What a document takes in memory once all are asked: signature, postings, key (`python -m benchmarks.search`).
_INDEX = 3_000
# Documents and questions per second of the libraries whose costs are printed.
_SIZES = ((1e5, 10), (1e7, 1e3), (1e9, 1e6))

# For prices: documents, and questions per second.
_DOCUMENTS, _QUESTIONS = 1e9, 1e6
# A paragraph of SQuAD, in word pieces; its bytes in a bank and on disk; a state of 384 numbers in bfloat16.
_PIECES, _BANK_BYTES, _MEMORY_BYTES, _STATE_BYTES = 164, 5_000, 5_942, 2 * 384
# One NVIDIA H200 with 16 cores: bytes; paragraphs into a library per second (`python -m benchmarks.reading`); questions
# per second by sentences read again (`python -m benchmarks.document_bank`), both with `FILE --device cuda`.
_GPU_BYTES, _GPU_READ, _GPU_ANSWERS = 141e9, 2_590, {0: 18_700, 1: 6_800, 3: 5_680}
# One core: pieces read and signatures compared per second (this command), seconds per question by sentences read again
# (`attar evaluate-questions`).
_CORE_READ, _CORE_SCAN, _CORE_ANSWER = 9_200, 21e6, {0: 0.0008, 1: 0.0104, 3: 0.0248}
# A vector database with a language model: bytes of a vector of 384 numbers, core seconds per search; passages, tokens
# of question and instructions, and tokens that are written.
_VECTOR, _SEARCH, _PASSAGES, _PROMPT, _WRITTEN = 4 * 384, 0.010, 5, 120, 50

# Dollars: of an H200 with 16 cores and of one core per hour, of a million tokens embedded, read and written.
_GPU_HOUR, _CORE_HOUR, _EMBEDDED, _TOKENS_IN, _TOKENS_OUT = 3.50, 0.05, 0.02, 0.15, 0.60


@dataclass(frozen=True)
class Rates:
    """What one core does and one document takes."""

    tokens: float  # per document
    read: float  # documents per second
    disk: float  # bytes per document: memory, text, signature
    index: float  # bytes of memory per document, once all are asked
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
        index=_INDEX,
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
        "cores, one document per question": questions / rates.ask,
        "cores, all documents per question": questions * (documents / rates.scan + rates.answer),
    }


def price_table() -> str:
    """Dollars for a million documents and a million questions, next to softmax attention and a language model."""
    gpu, core = _GPU_HOUR / 3600, _CORE_HOUR / 3600
    states, read_on_gpu = _PIECES * _STATE_BYTES, _dollars(1e6 / _GPU_READ * gpu)
    written = _WRITTEN * _TOKENS_OUT
    given_one = (_PIECES + _PROMPT) * _TOKENS_IN + written
    searched = (_PASSAGES * _PIECES + _PROMPT) * _TOKENS_IN + written + 1e6 * _SEARCH * core
    read = _dollars(1e6 * _PIECES / _CORE_READ * core), read_on_gpu, _dollars(_PIECES * _EMBEDDED)
    kept = (f"{size:,}" for size in (_BANK_BYTES, _MEMORY_BYTES, states, _VECTOR))
    rows = [
        [
            "10⁹ documents, 10⁶ questions/s",
            *("Attar, H200s", "Attar, cores"),
            "softmax, H200s",
            "language model",
        ],
        ["---"] * 5,
        ["10⁶ documents read", read_on_gpu, *read],
        ["bytes to answer from, each", *kept],
    ]
    for look, seconds in _CORE_ANSWER.items():
        # A second of all GPUs answers 10⁶ questions. Softmax has the same encoder, and answers as fast; what it needs
        # are GPUs that hold the states.
        bank, softmax = (_gpus(_QUESTIONS / _GPU_ANSWERS[look], size) for size in (_BANK_BYTES, states))
        on_gpus = [f"{_dollars(count * gpu)} ({count} GPUs)" for count in (bank, softmax)]
        on_cores = f"{_dollars(1e6 * seconds * core)} ({_QUESTIONS * seconds:,.0f} cores)"
        what = f"10⁶ questions to one document each, look {look}"
        rows.append([what, on_gpus[0], on_cores, on_gpus[1], _dollars(given_one)])
    to_all = 1e6 * _DOCUMENTS / _CORE_SCAN * core
    rows.append(["10⁶ questions to all documents", "–", _dollars(to_all), "–", _dollars(searched)])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows).replace(" --- ", "---")


def _gpus(busy: float, document: float) -> int:
    """GPUs for so many that are busy all the time, and for the bytes of all documents."""
    return int(np.ceil(max(busy, _DOCUMENTS * document / _GPU_BYTES)))


def _dollars(amount: float) -> str:
    """Dollars with two digits at least.

    >>> _dollars(0.0696), _dollars(3.281), _dollars(1171.4)
    ('$.070', '$3.28', '$1,171')
    """
    decimals = 0 if amount >= 10 else 2 if amount >= 0.1 else 3
    return "$" + f"{amount:,.{decimals}f}".lstrip("0")


def main(
    quick: Quick = False,
    prices: Annotated[bool, typer.Option("--prices", help="Only prices; measures nothing.")] = False,
) -> None:
    """Measure rates of one core, and print what libraries of several sizes take."""
    if prices:
        print(price_table())
        return
    rates = measure(quick)
    print(f"\nrates\n\n{table([asdict(rates)])}")
    print(f"\ncosts\n\n{table([costs(rates, *size) for size in _SIZES])}")


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
