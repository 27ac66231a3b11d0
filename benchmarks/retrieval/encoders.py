"""The encoder whose states signatures are made of: a reader's own, or a published BERT-like one in a folder."""

import hashlib
from pathlib import Path

from attar.nn.phrases import PhraseNetwork
from attar.options import PhraseOptions
from attar.reader.config import FORMAT, NetworkConfig, ReaderConfig
from attar.reader.parts import ReaderParts
from attar.reader.reader import Reader
from attar.search.records import ReaderEncoder
from attar.text.pieces import PieceTokenizer
from attar.training.base import load_base


def load_encoder(path: str | Path | None) -> ReaderEncoder:
    """The encoder of a reader, or a folder with `tokenizer.json`, `config.json` and `model.safetensors`."""
    if path is not None and (Path(path) / "model.safetensors").is_file():
        return ReaderEncoder(_published(Path(path)), trained=False)
    reader = Reader.load(path)
    return ReaderEncoder(reader)


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
