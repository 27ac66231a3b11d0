"""Fit the statistics of search that ship with the default reader, `attar/reader/readers/answers/search.bin`.

python -m benchmarks.fit_search wiki.jsonl.xz --out attar/reader/readers/answers/search.bin

The map of states is the one that the reader has (`LOG.md` says how it was learned). Frequencies of word pieces are
those of all paragraphs, the covariance that of every 40th document. Lines whose number modulo 20 is 0 or 1 are held
out, as everywhere in this project.
"""

import json
import lzma
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from attar.search.statistics import StateMap, Statistics, default_statistics
from benchmarks.command import run_command
from benchmarks.retrieval.encoders import ReaderEncoder, load_encoder


def read_training_lines(path: Path) -> Iterator[str]:
    """Yield the texts of lines that are not held out."""
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines):
            if number % 20 >= 2:
                yield json.loads(line)["text"]


def fit(encoder: ReaderEncoder, texts: Iterator[str], every: int, learned: StateMap | None) -> Statistics:
    """The statistics of texts: all for the frequencies, every n-th for the covariance."""
    statistics = Statistics.empty(encoder.fingerprint, size=encoder.size, pieces=encoder.pieces, map=learned)
    for number, text in enumerate(texts):
        paragraphs = [part for part in text.split("\n") if part.strip()]
        if number % every == 0:
            for ids, states in encoder.encode(paragraphs):
                statistics = statistics.with_document(ids, states)
        else:
            for ids, _ in encoder.reader.tokenizer.read_sentences(paragraphs):
                statistics = statistics.with_words(ids)
    return statistics


def main(
    texts: Annotated[Path, typer.Argument(help="JSON lines with `text`, compressed by xz.")],
    out: Annotated[Path, typer.Option(help="File to write.")],
    reader: Annotated[Path | None, typer.Option(help="A reader's folder.")] = None,
    every: Annotated[int, typer.Option(min=1, help="Documents per one whose states count.")] = 40,
) -> None:
    """Fit statistics to texts and write them to a file."""
    encoder = load_encoder(reader)
    before = default_statistics(encoder.fingerprint, reader)
    learned = None if before is None else before.map
    statistics = fit(encoder, read_training_lines(texts), every, learned)
    out.write_bytes(statistics.data)
    print(f"{statistics.documents:,} paragraphs, {statistics.tokens:,} tokens: {out.stat().st_size:,} bytes")


if __name__ == "__main__":
    run_command(main)
