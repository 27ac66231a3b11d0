"""Token states for signatures: of a reader's own encoder, or of a published BERT-like encoder in a folder."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from attar.errors import FormatError, OptionError
from attar.search.statistics import Floats

# Loaded where they are used: torch takes seconds, and merging or listing documents needs none of it.
if TYPE_CHECKING:
    from attar.reader import PhraseReader

Tokens = tuple[NDArray[np.int64], Floats]


class TokenEncoder(Protocol):
    """Texts to word pieces `[n]` and their states `[n, d]`."""

    fingerprint: str
    size: int
    pieces: int
    # The reader that also answers questions, if it was trained for that.
    answering: "PhraseReader | None"

    def encode(self, texts: Sequence[str]) -> Iterator[Tokens]:
        """The word pieces and states of each text, in order; long texts are read in windows."""


class ReaderEncoder:
    """The encoder of a phrase reader; a question is read as a text."""

    def __init__(self, reader: "PhraseReader", *, trained: bool = True) -> None:
        self.reader = reader
        self.answering: PhraseReader | None = reader if trained else None
        self.fingerprint = reader.fingerprint
        self.size = reader.network.options.encoder.size
        self.pieces = reader.network.options.encoder.vocabulary

    def encode(self, texts: Sequence[str]) -> Iterator[Tokens]:
        """The word pieces and states of each text, in order."""
        for text in texts:
            yield joined(self._windows(text), self.size)

    def _windows(self, text: str) -> list[Tokens]:
        found: list[Tokens] = []
        self.reader.token_states([text], lambda _, ids, states: found.append((ids, states)))
        return found


def load_encoder(path: str | Path | None) -> TokenEncoder:
    """The encoder of a reader, or a folder with `tokenizer.json`, `config.json` and `model.safetensors`."""
    if path is not None and (Path(path) / "model.safetensors").is_file():
        return ReaderEncoder(_published(Path(path)), trained=False)
    from attar.reader import PhraseReader, Reader

    reader = Reader.load(path)
    if not isinstance(reader, PhraseReader):
        expected, remedy = "a reader of phrases, or a published encoder", "use the default reader"
        raise OptionError("reader", expected, "a reader of names", remedy)
    return ReaderEncoder(reader)


def _published(folder: Path) -> "PhraseReader":
    """A published encoder as a reader that nobody has trained: only its states are used."""
    import hashlib

    import safetensors.torch
    from safetensors import SafetensorError

    from attar.nn import PhraseNetwork, PhraseOptions, TransformerShape, from_published
    from attar.reader import PhraseReader, SavedPhrases
    from attar.text import PieceTokenizer

    try:
        config = json.loads((folder / "config.json").read_bytes())
        shape = TransformerShape(
            config["vocab_size"],
            config["hidden_size"],
            config["num_hidden_layers"],
            config["num_attention_heads"],
            config["intermediate_size"],
            config["max_position_embeddings"],
        )
        data = (folder / "model.safetensors").read_bytes()
        weights = safetensors.torch.load(data)
        weights = {name.removeprefix("bert."): value for name, value in weights.items()}
        network = PhraseNetwork(PhraseOptions(encoder=shape))
        network.encoder.load_state_dict(from_published(weights, shape.layers))
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, SafetensorError) as fault:
        if isinstance(fault, FormatError):
            raise
        came = " ".join(str(fault).split())[:200]
        raise FormatError(str(folder), "a published BERT-like encoder", f"another folder ({came})") from fault
    tokenizer = PieceTokenizer.load(folder / "tokenizer.json")
    digest = hashlib.sha256(data).hexdigest()
    reader = PhraseReader(SavedPhrases(network.eval(), None, tokenizer, digest, {}, 0.4, None))
    reader.signature_layers = shape.layers
    return reader


def joined(windows: Sequence[Tokens], size: int) -> Tokens:
    """The windows of one text as one."""
    if not windows:
        return np.zeros(0, np.int64), np.zeros((0, size), np.float32)
    return np.concatenate([ids for ids, _ in windows]), np.concatenate([states for _, states in windows])
