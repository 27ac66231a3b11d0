"""Fewer word pieces: a third of an encoder's weights are word vectors, many of pieces that English never needs."""

import json
import unicodedata

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

# Scripts by the first word of their letters' Unicode names; Greek letters and signs are common in English texts.
_SCRIPTS = (
    "LATIN",
    "GREEK",
    "MODIFIER",
    "MICRO",
    "FEMININE",
    "MASCULINE",
    "SUPERSCRIPT",
    "SUBSCRIPT",
    "SCRIPT",
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
    letters = (each for each in characters if unicodedata.category(each)[0] in "LM" and not each.isascii())
    return all(unicodedata.name(each, "").split(" ")[0] in _SCRIPTS for each in letters)


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
    added = {each["content"] for each in content.get("added_tokens", ())}
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
