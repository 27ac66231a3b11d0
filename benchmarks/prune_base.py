"""Write a published encoder with fewer word pieces, to start `benchmarks.new_reader --base` from.

    python -m benchmarks.prune_base all-MiniLM-L6-v2 squad-train-part.jsonl.xz … --out pruned

A third of an encoder's weights are word vectors, many of pieces that English never needs. Pieces of other scripts and
the rarest ones of the passages are left out; all other weights stay as they are.
"""

import json
import unicodedata
from pathlib import Path
from typing import Annotated

import numpy as np
import safetensors.torch
import typer
from numpy.typing import NDArray
from torch import Tensor

from attar.reader.windows import PieceTokenizer
from attar.training.data import read_passages
from benchmarks.command import run_command

# Scripts by the first word of their letters' Unicode names; Greek letters and signs are common in English texts.
_SCRIPTS = frozenset(
    ("LATIN", "GREEK", "MODIFIER", "MICRO", "FEMININE", "MASCULINE", "SUPERSCRIPT", "SUBSCRIPT", "SCRIPT")
)
_SPECIAL = frozenset(("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"))
_INNER = "##"


def is_needed(piece: str) -> bool:
    """Whether a text in a Latin script can have a piece.

    >>> [is_needed(piece) for piece in ("##ing", "é", "β", "[unused7]", "и", "##,", ",")]
    [True, True, True, False, False, False, True]
    """
    inner = piece.startswith(_INNER)
    characters = piece.removeprefix(_INNER) if inner and piece != _INNER else piece
    if piece.startswith("[unused") or (inner and any(map(_is_mark, characters))):
        return False  # words end at punctuation, so no piece continues with it
    letters = (
        letter for letter in characters if unicodedata.category(letter)[0] in "LM" and not letter.isascii()
    )
    return all(unicodedata.name(letter, "").split(" ")[0] in _SCRIPTS for letter in letters)


def _is_mark(character: str) -> bool:
    """Whether BERT splits words at a character."""
    return unicodedata.category(character).startswith("P") or (
        character.isascii() and not character.isalnum()
    )


def prune_vocabulary(
    tokenizer: bytes, words: Tensor, counts: NDArray[np.int64], most: int
) -> tuple[bytes, Tensor]:
    """The tokenizer and its word vectors `[V, d]` without pieces of other scripts; at most `most` are left.

    `counts` is how often each piece occurs in the texts to train on: the rarest are left out, but no single
    character. Special pieces keep their numbers. Texts that have none of what was left out are cut as before.
    """
    content = json.loads(tokenizer)
    vocabulary: dict[str, int] = content["model"]["vocab"]
    added = {token["content"] for token in content.get("added_tokens", ())}
    fixed = {piece: at for piece, at in vocabulary.items() if piece in _SPECIAL | added}
    kept = {piece: at for piece, at in vocabulary.items() if piece not in fixed and is_needed(piece)}
    longer = [piece for piece in kept if len(piece.removeprefix(_INNER)) > 1]
    surplus = max(0, len(fixed) + len(kept) - most)
    for piece in sorted(longer, key=lambda piece: (counts[kept[piece]], -kept[piece]))[:surplus]:
        del kept[piece]
    pieces, taken = {at: piece for piece, at in fixed.items()}, 0
    for piece in sorted(kept, key=kept.__getitem__):
        while taken in pieces:
            taken += 1
        pieces[taken] = piece
    size = max(pieces) + 1  # a small vocabulary ends before its special pieces: nothing is between
    names = [pieces.get(at, f"[unused{at}]") for at in range(size)]
    content["model"]["vocab"] = {name: at for at, name in enumerate(names)}
    rows = [vocabulary.get(name, 0) for name in names]
    return json.dumps(content, ensure_ascii=False).encode(), words[rows].clone()


def prune(base: Path, texts: list[str], most: int, out: Path) -> int:
    """Write the pruned encoder and return the number of its word pieces."""
    tokenizer = (base / "tokenizer.json").read_bytes()
    weights = safetensors.torch.load_file(base / "model.safetensors")
    (name,) = (name for name in weights if name.endswith("embeddings.word_embeddings.weight"))
    counts = np.zeros(len(weights[name]), np.int64)
    for ids, _ in PieceTokenizer(tokenizer).read_sentences(texts):
        np.add.at(counts, ids, 1)
    pruned, weights[name] = prune_vocabulary(tokenizer, weights[name], counts, most)
    config = json.loads((base / "config.json").read_text(encoding="utf-8"))
    out.mkdir(parents=True, exist_ok=True)
    (out / "tokenizer.json").write_bytes(pruned)
    (out / "config.json").write_text(json.dumps(config | {"vocab_size": len(weights[name])}))
    safetensors.torch.save_file(weights, out / "model.safetensors")
    return len(weights[name])


def main(
    base: Annotated[Path, typer.Argument(help="The folder of a published encoder.")],
    data: Annotated[list[Path], typer.Argument(help="Files of questions whose passages are counted.")],
    out: Annotated[Path, typer.Option(help="Folder to write.")],
    vocabulary: Annotated[int, typer.Option(min=200, help="Most word pieces.")] = 26_500,
) -> None:
    """Write an encoder with fewer word pieces."""
    texts = [passage.text for path in data for passage in read_passages(path)]
    print(f"{prune(base, texts, vocabulary, out):,} word pieces")


if __name__ == "__main__":
    run_command(main)
