"""Write a reader for real questions with fewer word pieces and positions; all other weights stay as they are.

python -m benchmarks.prune_reader READER squad-train-part.jsonl.xz … --out FOLDER

Pieces of other scripts and the rarest ones of the passages are left out. The statistics of search are fitted again
(`python -m benchmarks.fit_search`), as these have a frequency for each piece.
"""

import json
from pathlib import Path
from typing import Annotated

import numpy as np
import safetensors.torch
import torch
import typer

from attar.reader.folders import fingerprint_of
from attar.reader.phrase_config import POSITIONS
from attar.reader.phrase_files import write_folder
from attar.text.pieces import PieceTokenizer
from attar.training.questions.data import read_passages
from attar.training.questions.vocabulary import prune_vocabulary
from benchmarks.command import run_command

_WORDS, _POSITIONS = "network.encoder.words.weight", "network.encoder.positions.weight"


def prune(reader: Path, texts: list[str], most: int, out: Path) -> int:
    """Write the pruned reader and return the number of its word pieces."""
    config = json.loads((reader / "config.json").read_text(encoding="utf-8"))
    tokenizer = (reader / "tokenizer.json").read_bytes()
    weights = safetensors.torch.load((reader / "weights.safetensors").read_bytes())
    counts = np.zeros(len(weights[_WORDS]), np.int64)
    for text in PieceTokenizer(tokenizer).read(texts):
        np.add.at(counts, text.ids, 1)
    numbers = torch.arange(len(counts))
    tokenizer, rows = prune_vocabulary(tokenizer, numbers, counts, most)
    for name, kept in ((_WORDS, rows), (_POSITIONS, torch.arange(POSITIONS))):
        for part in (name, f"{name}.scale"):
            if part in weights:
                weights[part] = weights[part][kept].clone()
    shape = config["network"]["phrases"]["encoder"]
    shape["vocabulary"], shape["positions"] = len(rows), POSITIONS
    config["fingerprint"] = fingerprint_of(config["network"], tokenizer, weights)
    write_folder(out, config, tokenizer, weights)
    return len(rows)


def main(
    reader: Annotated[Path, typer.Argument(help="A reader's folder.")],
    data: Annotated[list[Path], typer.Argument(help="Files of questions whose passages are counted.")],
    out: Annotated[Path, typer.Option(help="Folder to write.")],
    vocabulary: Annotated[int, typer.Option(min=200, help="Most word pieces.")] = 26_500,
) -> None:
    """Write a reader with fewer word pieces and positions."""
    texts = [passage.text for path in data for passage in read_passages(path)]
    pieces = prune(reader, texts, vocabulary, out)
    print(f"{pieces:,} word pieces: {(out / 'weights.safetensors').stat().st_size:,} bytes")


if __name__ == "__main__":
    run_command(main)
