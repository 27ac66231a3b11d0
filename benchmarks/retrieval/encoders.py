"""The encoder whose states signatures are made of: a reader's own, or a published BERT-like one in a folder."""

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from attar.nn.phrases import PhraseNetwork
from attar.options import PhraseOptions
from attar.reader.folders import FORMAT, NetworkConfig, ReaderConfig
from attar.reader.parts import ReaderParts
from attar.reader.reader import Reader
from attar.reader.windows import PieceTokenizer
from benchmarks.new_reader.published import load_base

# The word pieces `[n]` of a text, and their states `[n, d]`.
Tokens = tuple[NDArray[np.int64], NDArray[np.float32]]


class ReaderEncoder:
    """The encoder of a phrase reader; a question is read as a text."""

    def __init__(self, reader: Reader, *, trained: bool = True) -> None:
        self.reader = reader
        # The reader that also answers questions, if it was trained for that.
        self.answering = reader if trained else None
        self.fingerprint = reader.fingerprint
        self.size = reader.options.encoder.size
        self.pieces = reader.options.encoder.vocabulary

    def encode(self, texts: Sequence[str]) -> Iterator[Tokens]:
        """The word pieces and states of each text, in order; long texts are read in windows."""
        for text in texts:
            ids, states = [np.zeros(0, np.int64)], [np.zeros((0, self.size), np.float32)]

            def add(_: int, window: NDArray[np.int64], hidden: NDArray[np.float32]) -> None:
                ids.append(window)  # noqa: B023  # called before the next text
                states.append(hidden)  # noqa: B023

            self.reader.token_states([text], add)
            yield np.concatenate(ids), np.concatenate(states)


def load_encoder(path: str | Path | None) -> ReaderEncoder:
    """The encoder of a reader, or a folder with `tokenizer.json`, `config.json` and `model.safetensors`."""
    if path is not None and (Path(path) / "model.safetensors").is_file():
        return ReaderEncoder(_published(Path(path)), trained=False)
    return ReaderEncoder(Reader.load(path))


def _published(folder: Path) -> Reader:
    """A published encoder as a reader that nobody has trained: only its states are used."""
    base = load_base(folder)
    network = PhraseNetwork(PhraseOptions(encoder=base.shape))
    network.encoder.load_state_dict(base.weights)
    digest = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    config = ReaderConfig(FORMAT, digest, NetworkConfig(network.options, 0.4), {})
    weights = {f"network.{name}": value.numpy() for name, value in network.state_dict().items()}
    reader = Reader(ReaderParts(config, PieceTokenizer(base.tokenizer), weights))
    reader.signature_layers = base.shape.layers
    return reader
