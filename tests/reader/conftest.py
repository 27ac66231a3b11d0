"""Readers with random weights: these tests check how a reader computes, not its accuracy."""

import pytest
import torch

from attar.nn.phrases import PhraseNetwork, PhraseOptions, QuickQuestions
from attar.nn.transformer import TransformerShape
from attar.reader.phrase_files import SavedPhrases
from attar.reader.phrases import PhraseReader
from attar.text.pieces import PieceTokenizer
from benchmarks.tiny_reader import tiny_tokenizer


@pytest.fixture(scope="session")
def piece_tokenizer() -> bytes:
    return tiny_tokenizer()


@pytest.fixture(scope="session")
def saved_phrases(piece_tokenizer: bytes) -> SavedPhrases:
    """The parts of a small phrase reader, as its folder has them."""
    torch.manual_seed(3)
    tokenizer = PieceTokenizer(piece_tokenizer)
    shape = TransformerShape(vocabulary=len(tokenizer), size=16, layers=1, heads=2, feedforward=32)
    options = PhraseOptions(size=8, word_size=4, encoder=shape)
    network, quick = PhraseNetwork(options), QuickQuestions(options, shared=1, layers=1)
    with torch.no_grad():
        for each in (*network.parameters(), *quick.parameters()):
            each.add_(0.2 * torch.randn_like(each))
    return SavedPhrases(network.eval(), quick.eval(), tokenizer, "f" * 64, {}, 0.4)


@pytest.fixture(scope="session")
def phrase_reader(saved_phrases: SavedPhrases) -> PhraseReader:
    return PhraseReader(saved_phrases)
