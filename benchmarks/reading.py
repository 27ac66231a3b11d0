"""`python -m benchmarks.reading`: how fast texts are read into memories, and into a library, on a CPU or a GPU.

The bare encoder, measured in the same run, has the same windows padded in the same way, already on the device: what
remains are cutting texts into windows, choosing phrases, rounding them, and making memories of them. Operations per
second are those of the encoder's products, to be compared with the chip's limit. On a CPU all times are processor time,
which other programs change least.
"""

import json
import lzma
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer

from attar.library.library import Library
from attar.options import TransformerShape
from attar.paper.compare import aligned_table
from attar.paper.table1 import this_machine
from attar.reader.reader import Reader
from attar.reader.windows import WindowedText
from attar.training.data import read_passages
from benchmarks.command import ReaderFolder, run_command
from benchmarks.stories import story_texts

# Texts that the encoder is measured with: those of all might not fit on its device at once.
_ENCODED = 2_000


def main(
    file: Annotated[Path | None, typer.Argument(help="Texts: SQuAD's JSON, or JSON lines; also .xz.")] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    texts: Annotated[int, typer.Option(help="How many texts; those of a file are repeated.", min=1)] = 200,
    rounds: Annotated[int, typer.Option(help="How often each is measured; the best counts.", min=1)] = 3,
    reader: ReaderFolder = None,
) -> None:
    """Read texts, and compare with the bare encoder."""
    print(this_machine())
    given = story_texts(min(texts, 2_000)) if file is None else texts_of(file)
    chosen = [given[at % len(given)] for at in range(texts)]
    loaded = Reader.load(reader).to(device)
    loaded.read_many(chosen[: max(1, texts // 10)])  # what the first one waits for
    memories = loaded.read_many(chosen)
    pieces = sum(memory.tokens for memory in memories)
    what = f"{len(chosen):,} texts, {pieces:,} pieces, {sum(map(len, chosen)) / 1e6:.1f} MB, on {device}"
    print(what + "\n")
    clock = time.process_time if device == "cpu" else time.perf_counter
    reading = fastest(lambda: loaded.read_many(chosen), rounds, clock)
    bare, phrases, length = of_encoder(loaded, chosen[:_ENCODED], rounds, clock)
    each = operations(loaded.options.encoder, length)
    share = sum(memory.tokens for memory in memories) / sum(memory.tokens for memory in memories[:_ENCODED])
    bare, phrases = bare * share, phrases * share
    stored = fastest(lambda: add_all(loaded, chosen, device), rounds, clock)
    rows = [
        [
            name,
            f"{len(chosen) / seconds:,.0f}",
            f"{pieces / seconds:,.0f}",
            f"{pieces / seconds * each / 1e12:.3g}",
            f"{bare / seconds:.3f}",
        ]
        for name, seconds in (
            ("read into memories", reading),
            ("read into a library on disk", stored),
            ("windows into phrases alone", phrases),
            ("the bare encoder", bare),
        )
    ]
    names = ["", "texts/s", "pieces/s", "10¹² operations/s", "of the bare encoder's rate"]
    print(aligned_table(names, rows))
    print(f"\n{each / 1e6:.1f} million operations per piece")


def texts_of(file: Path) -> list[str]:
    """The texts of a file: the paragraphs of SQuAD's JSON, or `text` or `context` of JSON lines."""
    if ".jsonl" not in file.name:
        return [passage.text for passage in read_passages(file)]
    data = lzma.decompress(file.read_bytes()) if file.suffix == ".xz" else file.read_bytes()
    rows: list[dict[str, Any]] = [json.loads(line) for line in data.splitlines()]
    return [row.get("text") or row["context"] for row in rows]


def operations(shape: TransformerShape, length: float, layers: int | None = None) -> float:
    """Multiplications and additions per piece of texts of this length: products with weights, and attention."""
    weights = 4 * shape.size**2 + 2 * shape.size * shape.feedforward
    return 2 * (layers or shape.layers) * (weights + 2 * length * shape.size)


def fastest(run: Callable[[], object], rounds: int, clock: Callable[[], float] = time.perf_counter) -> float:
    """The seconds of the fastest run."""
    seconds = []
    for _ in range(rounds):
        began = clock()
        run()
        seconds.append(clock() - began)
    return min(seconds)


@torch.inference_mode()
def of_encoder(
    reader: Reader, texts: list[str], rounds: int, clock: Callable[[], float]
) -> tuple[float, float, float]:
    """The seconds of the layers alone (float32 on a CPU, bfloat16 on a GPU), and of windows into phrases.

    Also the mean length of windows.
    """
    encoder = reader._texts
    bare = reader.parts.network().encoder if encoder.device.type == "cpu" else encoder._encoder
    windows = [window for text in texts for window in WindowedText.of(text, reader.tokenizer).windows]
    batches = [[windows[at] for at in order] for order in encoder.batches(windows)]
    padded = [encoder._padded(batch) for batch in batches]

    def layers() -> None:
        for windows in padded:
            bare(windows.ids, windows.mask)
        if encoder.device.type == "cuda":
            torch.cuda.synchronize()

    def phrases() -> None:
        for encoded in [encoder.encode(windows) for windows in batches]:
            encoded.blocks()

    times = []
    for run in (layers, phrases):
        run()
        times.append(fastest(run, rounds, clock))
    return times[0], times[1], float(np.mean([len(window.ids) for window in windows]))


def add_all(reader: Reader, texts: list[str], device: str) -> None:
    """Add all texts to a new library."""
    with (
        tempfile.TemporaryDirectory(prefix="attar-reading-") as folder,
        Library(f"{folder}/library", reader, device=device) as library,
    ):
        library.add_many((f"{at}", text) for at, text in enumerate(texts))


if __name__ == "__main__":
    run_command(main)
