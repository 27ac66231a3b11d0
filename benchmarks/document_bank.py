"""`python -m benchmarks.document_bank`: questions to the documents of a library that lie on a device, per second.

Each question is about a document of its own. The device's part (encoding, products, overlap) is measured by itself as
well: the rest makes answers of it, in Python.
"""

import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated

import torch
import typer

from attar.library.bank import DocumentBank
from attar.library.library import Library
from attar.paper.timing import aligned_table, this_machine
from attar.reader.reader import Reader
from attar.workers import count_workers
from benchmarks.command import ReaderFolder, run_command
from benchmarks.reading import fastest, texts_of
from benchmarks.stories import tell_stories


def main(
    file: Annotated[Path | None, typer.Argument(help="Texts: SQuAD's JSON, or JSON lines; also .xz.")] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    documents: Annotated[int, typer.Option(help="How many documents; texts are repeated.", min=1)] = 40,
    batch: Annotated[int, typer.Option(help="Questions that are asked together.", min=1)] = 256,
    rounds: Annotated[int, typer.Option(help="How often each is measured; the best counts.", min=1)] = 3,
    callers: Annotated[int, typer.Option(help="Batches that are asked at the same time.", min=1)] = 2,
    workers: Annotated[int, typer.Option(help="Processes that make answers; -1: one per core.")] = -1,
    reader: ReaderFolder = None,
) -> None:
    """Fill a bank, and ask it."""
    print(this_machine())
    stories = list(tell_stories(1, 200))
    texts = [story.text for story in stories] if file is None else texts_of(file)
    asked = [f"Who met {story.text.split()[0]} that evening by the river?" for story in stories]
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
            names = [f"{at * 7919 % documents}" for at in range(batch)]
            questions = [asked[at % len(asked)] for at in range(batch)]
            rows = [
                [
                    "encoded and looked up, the device's part",
                    rate(batch, on_device(bank, names, questions, rounds)),
                ]
            ]
            for look in (0, 1, 3) if loaded.parts.config.look else (0,):
                seconds = answered(bank, names, questions, look, callers, rounds)
                rows.append([f"answered, look {look}", rate(batch * callers, seconds)])
            print(aligned_table(["", "questions/s"], rows))
            print(agreement(bank, library, names[:200], questions[:200]))


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
    """The seconds in which `callers` ask a batch each."""

    def run() -> None:
        with ThreadPoolExecutor(callers) as pool:
            asked = [pool.submit(bank.ask_each, names, questions, look=look) for _ in range(callers)]
            for each in asked:
                each.result()

    run()
    return fastest(run, rounds)


def agreement(bank: DocumentBank, library: Library, names: list[str], questions: list[str]) -> str:
    """How many first answers are the library's, without a second look, and how far probabilities differ."""
    ours, theirs = (each.ask_many(names, questions, look=0) for each in (bank, library))
    same = sum(one[0].text == other[0].text for one, other in zip(ours, theirs, strict=True))
    far = max(abs(one[0].probability - other[0].probability) for one, other in zip(ours, theirs, strict=True))
    return f"\n{same} of {len(ours)} first answers are the library's; their probabilities differ by at most {far:.4f}"


def rate(questions: int, seconds: float) -> str:
    return f"{questions / seconds:,.0f}"


if __name__ == "__main__":
    run_command(main)
