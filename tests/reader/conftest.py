"""Readers with random weights and generated stories: these tests check how a reader computes, not its accuracy."""

import string
from collections.abc import Callable

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from attar.memory.memory import Memory
from attar.nn.network import Network
from attar.nn.network_options import NetworkOptions
from attar.nn.phrases import PhraseNetwork, PhraseOptions, QuickQuestions
from attar.nn.transformer import TransformerShape
from attar.reader.names import NamesReader
from attar.reader.phrase_files import SavedPhrases
from attar.reader.phrases import PhraseReader
from attar.reader.reader import Reader
from attar.text.pieces import PieceTokenizer
from attar.text.vocabulary import Vocabulary
from benchmarks.stories import Story, tell_stories

ENTITIES = 40

MakeReader = Callable[..., Reader]


@pytest.fixture(scope="session")
def stories() -> list[Story]:
    return list(tell_stories(3, 9))


@pytest.fixture(scope="session")
def vocabulary(stories: list[Story]) -> Vocabulary:
    return Vocabulary.build((story.text for story in stories), size=150, entities=ENTITIES)


@pytest.fixture(scope="session")
def make_reader(vocabulary: Vocabulary) -> MakeReader:
    """Makes a reader whose weights are all random, so that none is 0 or 1."""

    def make(
        mechanism: str = "named", encoder: str = "lookahead", size: int = 6, **options: object
    ) -> Reader:
        torch.manual_seed(5)
        network = Network(
            NetworkOptions(
                words=len(vocabulary),
                entities=ENTITIES,
                mechanism=mechanism,
                encoder=encoder,
                embedding_size=5,
                hidden_size=size,
                **options,
            )
        )
        with torch.no_grad():
            for each in network.parameters():
                each.add_(0.3 * torch.randn_like(each))
            for name, each in network.named_buffers():
                if each.is_floating_point():
                    each.copy_(torch.rand_like(each) + 0.5 * name.endswith("variance"))
        return NamesReader(network, vocabulary)

    return make


@pytest.fixture
def make_cooccurrence_reader(make_reader: MakeReader, monkeypatch: pytest.MonkeyPatch) -> MakeReader:
    """Makes a reader with co-occurrence scores; few words are common, as the vocabulary is small."""
    monkeypatch.setattr("attar.nn.cooccurrence.COMMON", 5)
    return lambda encoder="lookahead": make_reader("named", encoder, cooccurrence=True)


@pytest.fixture(scope="session")
def reader(make_reader: MakeReader) -> Reader:
    return make_reader()


@pytest.fixture(scope="session")
def assert_same() -> Callable[..., None]:
    """Checks that two memories are equal up to float32 rounding, or a given tolerance."""

    def check(one: Memory, other: Memory, close: float = 1e-4) -> None:
        for field in ("form", "mechanism", "tokens", "size", "reader", "names"):
            assert getattr(one, field) == getattr(other, field)
        for found, expected in ((one.numbers, other.numbers), (one.state, other.state)):
            largest = float(np.abs(expected).max(initial=1.0))
            np.testing.assert_allclose(found, expected, rtol=close, atol=close / 10 * largest)
        assert one.cooccurrence == other.cooccurrence

    return check


WORDS = (
    "the a in of to and he she it they was were left met ran wrote letter house ann bob lee bath may what who"
)


def make_tokenizer(*more: str) -> bytes:
    """WordPiece with some words and, for the others, single letters."""
    marks = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *string.punctuation]
    letters = [*string.ascii_lowercase, *string.digits]
    pieces = [*marks, *letters, *(f"##{letter}" for letter in letters), *WORDS.split(), *more]
    vocabulary = {piece: at for at, piece in enumerate(dict.fromkeys(pieces))}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = [(name, vocabulary[name]) for name in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing("[CLS] $0 [SEP]", special_tokens=special)
    return tokenizer.to_str().encode()


@pytest.fixture(scope="session")
def piece_tokenizer() -> bytes:
    return make_tokenizer()


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
