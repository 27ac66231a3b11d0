"""The encoder whose states signatures are made of: a reader's own, or a published BERT-like one in a folder."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

from attar.errors import FormatError, OptionError
from attar.search.records import ReaderEncoder, TokenEncoder

# Loaded where they are used: torch takes seconds, and merging or listing documents needs none of it.
if TYPE_CHECKING:
    from attar.reader.phrases import PhraseReader


def load_encoder(path: str | Path | None) -> TokenEncoder:
    """The encoder of a reader, or a folder with `tokenizer.json`, `config.json` and `model.safetensors`."""
    if path is not None and (Path(path) / "model.safetensors").is_file():
        return ReaderEncoder(_published(Path(path)), trained=False)
    from attar.reader.phrases import PhraseReader
    from attar.reader.reader import Reader

    reader = Reader.load(path)
    if not isinstance(reader, PhraseReader):
        expected, remedy = "a reader of phrases, or a published encoder", "use the default reader"
        raise OptionError.expected("reader", expected, "a reader of names", remedy)
    return ReaderEncoder(reader)


def _published(folder: Path) -> "PhraseReader":
    """A published encoder as a reader that nobody has trained: only its states are used."""
    import hashlib

    import safetensors.torch
    from safetensors import SafetensorError

    from attar.nn.phrases import PhraseNetwork
    from attar.nn.transformer import from_published
    from attar.options import PhraseOptions, TransformerShape
    from attar.reader.phrase_files import SavedPhrases
    from attar.reader.phrases import PhraseReader
    from attar.text.pieces import PieceTokenizer

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
        tokenizer = PieceTokenizer.load(folder / "tokenizer.json")
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, SafetensorError) as fault:
        if isinstance(fault, FormatError):
            raise
        came = " ".join(str(fault).split())[:200]
        raise FormatError.expected(
            str(folder), "a published BERT-like encoder", f"another folder ({came})"
        ) from fault
    digest = hashlib.sha256(data).hexdigest()
    reader = PhraseReader(SavedPhrases(network.eval(), None, tokenizer, digest, {}, 0.4, None))
    reader.signature_layers = shape.layers
    return reader
