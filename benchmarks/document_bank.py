"""`python -m benchmarks.document_bank`: questions to the documents of a library that lie on a device, per second.

Each question is about a document of its own. The device's part (encoding, products, overlap) is measured by itself as
well: the rest makes answers of it, in Python. With `--ask-all`, all documents are asked the questions of a file in
SQuAD's JSON, whose paragraphs are documents, too; no question is asked twice.
"""

import random
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated

import torch
import typer

from attar.library.bank import BankShard, DocumentBank
from attar.library.library import Library
from attar.paper.compare import aligned_table
from attar.paper.table1 import this_machine
from attar.reader.reader import Reader
from attar.results import Answer, Asked
from attar.search.ranking import CorpusQuery
from attar.search.signatures import DEFAULT_SIZE, signature_bytes, triangle_numbers
from attar.text.sentences import sentence_spans
from attar.training.data import read_passages
from attar.workers import count_workers
from benchmarks.command import ReaderFolder, run_command
from benchmarks.reading import fastest, operations, texts_of
from benchmarks.stories import tell_stories

# Batches that each caller asks.
_EACH = 4


def main(
    file: Annotated[Path | None, typer.Argument(help="Texts: SQuAD's JSON, or JSON lines; also .xz.")] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    documents: Annotated[int, typer.Option(help="How many documents; texts are repeated.", min=1)] = 40,
    batch: Annotated[int, typer.Option(help="Questions that are asked together.", min=1)] = 256,
    rounds: Annotated[int, typer.Option(help="How often each is measured; the best counts.", min=1)] = 3,
    callers: Annotated[int, typer.Option(help="Batches that are asked at the same time.", min=1)] = 2,
    workers: Annotated[int, typer.Option(help="Processes that make answers; -1: one per core.")] = -1,
    passage: Annotated[int, typer.Option(help="Cut texts into passages of so many characters.")] = 0,
    questions_file: Annotated[
        Path | None, typer.Option("--ask-all", help="Ask all documents these questions.")
    ] = None,
    reader: ReaderFolder = None,
) -> None:
    """Fill a bank, and ask it."""
    print(this_machine())
    stories = list(tell_stories(1, 200))
    texts = [story.text for story in stories] if file is None else texts_of(file)
    texts = [part for text in texts for part in passages_of(text, passage)] if passage else texts
    of_all = [] if questions_file is None else read_passages(questions_file)
    texts = [*(asked_about.text for asked_about in of_all), *texts]
    # All differ: one that is asked several times in a batch is encoded once.
    asked = [
        f"Who met {stories[at % len(stories)].text.split()[0]} by the river on day {at}?"
        for at in range(batch)
    ]
    workers = count_workers() if workers < 0 else workers
    with tempfile.TemporaryDirectory(prefix="attar-bank-") as folder:
        loaded = Reader.load(reader)
        with Library(f"{folder}/library", loaded, device=device) as library:
            began = time.perf_counter()
            library.add_many((f"{at}", texts[at % len(texts)]) for at in range(documents))
            read = time.perf_counter() - began
            began = time.perf_counter()
            bank = DocumentBank(library, device, workers=workers)
            opened = time.perf_counter() - began
            what = f"{documents:,} documents on {device}: read in {read:.1f} s, opened in {opened:.1f} s, "
            print(f"{what}{bank.nbytes / documents:,.0f} bytes per document there")
            print(f"{batch:,} questions together, {callers} batches at a time, {workers} processes\n")
            if of_all:
                ask_all(bank, library, [q.text for part in of_all for q in part.questions], batch, callers)
                return
            names = [f"{at * 7919 % documents}" for at in range(batch)]
            rates = {
                "encoded and looked up, the device's part": batch / on_device(bank, names, asked, rounds)
            }
            for look in (0, 1, 3) if loaded.parts.config.look else (0,):
                seconds = answered(bank, names, asked, look, callers, rounds)
                rates[f"answered, look {look}"] = batch * callers / seconds
            print_rates(rates)
            lengths = list(map(len, loaded.questions.pieces(asked)))
            length, quick = sum(lengths) / len(lengths), loaded.parts.config.network.quick
            layers = None if quick is None else quick.shared + quick.layers
            encoding = length * operations(loaded.options.encoder, length, layers)
            print(
                f"a question: {encoding / 1e6:.0f} million operations, {bank.nbytes / documents:,.0f} bytes read"
            )
            results = bank.ask_each(names[:200], asked[:200], look=0)
            ours = [result.answers for result in results if isinstance(result, Asked)]
            print(agreement(ours, library.ask_many(names[:200], asked[:200], look=0)))


def on_device(bank: DocumentBank, names: list[str], questions: list[str], rounds: int) -> float:
    """The seconds of a batch's encoding and lookup, with their transfers."""
    from attar.store.records import key_of

    places = [bank.documents[key_of(name)].place for name in names]

    def run() -> None:
        bank._on_device.look_up(questions, places)
        if torch.cuda.is_available():
            torch.cuda.synchronize()

    run()
    return fastest(run, max(rounds, 5))


def answered(
    bank: DocumentBank, names: list[str], questions: list[str], look: int, callers: int, rounds: int
) -> float:
    """The seconds per batch of each of `callers`, who ask several one after another."""

    def run() -> None:
        with ThreadPoolExecutor(callers) as pool:
            asked = [pool.submit(bank.ask_each, names, questions, look=look) for _ in range(_EACH * callers)]
            for each in asked:
                each.result()

    run()
    return fastest(run, rounds) / _EACH


def passages_of(text: str, characters: int) -> Iterator[str]:
    """Yield whole sentences, about so many characters of them at a time."""
    start = end = 0
    for _, end in sentence_spans(text):
        if end - start >= characters:
            yield text[start:end].strip()
            start = end
    if start < end:
        yield text[start:end].strip()


def ask_all(bank: DocumentBank, library: Library, asked: list[str], batch: int, callers: int) -> None:
    """Print how many questions to all documents are ranked and answered per second, and how many agree."""
    random.Random(0).shuffle(asked)
    # Their words are remembered: a question that came before would be answered faster.
    asked = list(dict.fromkeys(asked))
    batches = iter([asked[first : first + batch] for first in range(0, len(asked) - batch + 1, batch)])
    began = time.perf_counter()
    bank.ask_all_many(next(batches), look=0)
    print(f"the first batch, with the signatures: {time.perf_counter() - began:.1f} s")
    print(f"{bank.nbytes / len(bank):,.0f} bytes per document on the device")
    chosen = next(batches)
    rates = {"ranked, the device's part": ranking_rate(bank, library, [next(batches) for _ in range(3)])}
    looks = (0, 1, 3) if library.reader.parts.config.look else (0,)
    left = list(batches)
    each = len(left) // len(looks)
    for at, look in enumerate(looks):
        together = left[at * each : (at + 1) * each]
        began = time.perf_counter()
        with ThreadPoolExecutor(callers) as pool:
            list(pool.map(lambda some: bank.ask_all_many(some, look=look), together))  # noqa: B023
        rates[f"answered, look {look}"] = each * batch / (time.perf_counter() - began)
    print_rates(rates)
    print(f"{each} batches per row, each measured once")
    numbers = triangle_numbers(DEFAULT_SIZE)
    print(
        f"a question: {2e-9 * numbers * len(bank):.2f} billion operations of products, and with {batch} others "
        f"{signature_bytes(DEFAULT_SIZE) * len(bank) / batch / 1e6:.2f} MB of signatures"
    )
    ours, theirs = (each.ask_all_many(chosen[:40], look=0) for each in (bank, library))
    print(agreement(ours, theirs))


def ranking_rate(bank: DocumentBank, library: Library, batches: list[list[str]]) -> float:
    """The questions per second whose documents are ranked, once their words are known."""
    rates = []
    for batch in batches:
        with library.opened() as opened:
            shard = BankShard(opened, bank)
            corpora = shard.corpora(batch)
            asked = [CorpusQuery(text, each.corpus) for text, each in zip(batch, corpora, strict=True)]
            began = time.perf_counter()
            shard.best(asked, shard.moments(asked), 9)
            rates.append(len(batch) / (time.perf_counter() - began))
    return max(rates)


def agreement(ours: list[list[Answer]], theirs: list[list[Answer]]) -> str:
    """How many first answers of the bank are the library's."""
    pairs = [(one[0], other[0]) for one, other in zip(ours, theirs, strict=True)]
    same = sum((one.text, one.document) == (other.text, other.document) for one, other in pairs)
    return f"{same} of {len(pairs)} first answers are the library's"


def print_rates(rates: dict[str, float]) -> None:
    print(aligned_table(["", "questions/s"], [[name, f"{rate:,.0f}"] for name, rate in rates.items()]))


if __name__ == "__main__":
    run_command(main)
