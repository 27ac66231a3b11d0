"""A phrase reader with random weights that reads in milliseconds: for tests, fuzzers and servers under load."""

import string
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from attar.nn.phrases import PhraseNetwork, QuickQuestions
from attar.options import PhraseOptions, TransformerShape
from attar.reader.parts import ReaderParts
from attar.reader.reader import Reader
from attar.search.statistics import STATISTICS_FILE, Fitting, Statistics

_WORDS = (
    "the a in of to and he she it they was were had left met ran wrote moved worked gave letter house town "
    "what who when where which how many ann bob lee bath may"
)
# What its statistics for search are fitted to.
_TEXTS = (
    "Ann Lee wrote a letter to Bob. He left the house in Bath in May.",
    "They met in the town of Lyme, where many worked. She gave it to Jo March.",
    "It was 1802. Quiet folk ran, vexed by 3,456 zebras; who had moved them?",
)


def tiny_tokenizer(*more_words: str) -> bytes:
    """WordPiece with a few words and, for all others, single letters."""
    marks = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *string.punctuation]
    letters = [*string.ascii_lowercase, *string.digits]
    pieces = [*marks, *letters, *(f"##{letter}" for letter in letters), *_WORDS.split(), *more_words]
    vocabulary = {piece: at for at, piece in enumerate(dict.fromkeys(pieces))}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = [(mark, vocabulary[mark]) for mark in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing("[CLS] $0 [SEP]", special_tokens=special)
    return tokenizer.to_str().encode()


def tiny_parts(*, seed: int = 0, values: int = 0) -> ReaderParts:
    """The parts of a reader with the weights of a seed; with `values` it can make memories of fixed size."""
    tokenizer = tiny_tokenizer()
    pieces = len(Tokenizer.from_str(tokenizer.decode()).get_vocab())
    shape = TransformerShape(vocabulary=pieces, size=16, layers=1, heads=2, feedforward=32)
    options = PhraseOptions(size=8, word_size=4, values=values, encoder=shape)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network, quick = PhraseNetwork(options), QuickQuestions(options, shared=1, layers=1)
        with torch.no_grad():
            for weights in (*network.parameters(), *quick.parameters()):
                weights.add_(0.2 * torch.randn_like(weights))
    return ReaderParts.of(network, quick, tokenizer)


def save_tiny_reader(folder: Path, *, seed: int = 0) -> Path:
    """Write a reader with the weights of a seed to a folder, with statistics for search; each seed has its own."""
    tiny_parts(seed=seed).save(folder)
    (folder / STATISTICS_FILE).write_bytes(_statistics(Reader.load(folder)).data)
    return folder


def _statistics(reader: Reader) -> Statistics:
    encoder = reader.options.encoder
    fitting = Fitting(reader.fingerprint, size=encoder.size, pieces=encoder.vocabulary)

    def add(_: int, ids: NDArray[np.int64], states: NDArray[np.float32]) -> None:
        fitting.add_words(ids)
        fitting.add_states(ids, states)

    reader.token_states(_TEXTS, add)
    return fitting.statistics()


def load_tiny_reader(folder: Path, *, seed: int = 0) -> Reader:
    """Write a tiny reader to a folder and load it."""
    return Reader.load(save_tiny_reader(folder, seed=seed))
