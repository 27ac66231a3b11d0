"""Pieces that English does not need are left out; what is left cuts Latin texts as before."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import attar.reader
from attar.text.pieces import PieceTokenizer
from attar.training.questions.vocabulary import prune_vocabulary

TEXTS = (
    "The naïve café owner, Zoë Müller-O'Brien, paid £3.50 (≈ €4) on 12/05/1999 – “cheap”, she said…",
    "Protein α-synuclein binds at 37 °C; x² + y² ≤ r², ½ of 10⁶ cells™. E-mail: a.b_c@d-e.org #7 100%!",
    "Łódź, Đà Nẵng, Þingvellir and İstanbul: antidisestablishmentarianism, floccinaucinihilipilification.",
)


@pytest.fixture(scope="module")
def published() -> PieceTokenizer:
    """The tokenizer of the default reader, and pieces of another script, as published ones have."""
    folder = Path(attar.reader.__file__).parent / "readers" / "answers"
    content = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    vocabulary = content["model"]["vocab"]
    for number in range(2_400):
        letters = "".join(chr(ord("а") + int(digit)) for digit in str(number))
        vocabulary.setdefault(f"м{letters}", len(vocabulary))
    return PieceTokenizer(json.dumps(content).encode())


def names(tokenizer: PieceTokenizer, texts: tuple[str, ...]) -> list[list[str]]:
    by_id = {at: piece for piece, at in json.loads(tokenizer.data)["model"]["vocab"].items()}
    return [[by_id[int(at)] for at in text.ids] for text in tokenizer.read(texts)]


def test_latin_texts_are_cut_into_the_same_pieces(published: PieceTokenizer) -> None:
    numbers = torch.arange(len(published))[:, None].float()
    none = np.zeros(len(published), np.int64)
    data, rows = prune_vocabulary(published.data, numbers, none, len(published))
    pruned = PieceTokenizer(data)
    assert len(pruned) == len(rows) <= len(published) - 2_300
    assert (pruned.pad, pruned.cls, pruned.sep) == (published.pad, published.cls, published.sep)
    assert names(pruned, TEXTS) == names(published, TEXTS)
    for before, after in zip(published.read(TEXTS), pruned.read(TEXTS), strict=True):
        assert rows[after.ids, 0].tolist() == before.ids.tolist()  # each piece has its own vector
        assert (after.starts == before.starts).all()
    (question,) = pruned.read_questions(["Who?"])
    assert (question[0], question[-1]) == (pruned.cls, pruned.sep)
    assert names(pruned, ("Москва и Київ",))[0] == ["[UNK]"] * 3


def test_the_rarest_pieces_go_first_and_no_letter_goes(published: PieceTokenizer) -> None:
    vectors = torch.zeros(len(published), 1)
    counts = np.zeros(len(published), np.int64)
    for text in published.read(TEXTS):
        np.add.at(counts, text.ids, 1)
    data, rows = prune_vocabulary(published.data, vectors, counts, 5_000)
    pruned = PieceTokenizer(data)
    assert len(pruned) == len(rows) == 5_000
    assert names(pruned, TEXTS) == names(published, TEXTS)
    assert "[UNK]" not in names(pruned, ("Zyxwv",))[0]


def test_a_small_vocabulary_keeps_the_numbers_of_its_special_pieces(tokenizer: PieceTokenizer) -> None:
    words = torch.zeros(len(tokenizer), 1)
    data, rows = prune_vocabulary(tokenizer.data, words, np.zeros(len(tokenizer), np.int64), 10_000)
    pruned = PieceTokenizer(data)
    assert (pruned.pad, pruned.cls, pruned.sep) == (0, 101, 102)
    assert len(pruned) == len(rows)
    assert names(pruned, ("Ann bought a red boat.",)) == names(tokenizer, ("Ann bought a red boat.",))
