"""The published encoder that training starts from: its weights, its shape and its tokenizer."""

import json
from dataclasses import dataclass, replace
from pathlib import Path

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor

from attar.errors import FormatError
from attar.nn.transformer import from_published
from attar.options import TransformerShape
from attar.text.pieces import PieceTokenizer
from attar.training.batches import CLS, PAD, SEP

_REMEDY = "give the folder of all-MiniLM-L6-v2, or of another encoder of BERT's shape"


@dataclass(frozen=True)
class Base:
    """An encoder's shape and weights, and the bytes of its tokenizer."""

    shape: TransformerShape
    weights: dict[str, Tensor]
    tokenizer: bytes

    def with_fewer_positions(self, most: int) -> "Base":
        """The encoder for texts of at most this many pieces."""
        positions = self.weights["positions.weight"][:most].clone()
        shape = replace(self.shape, positions=len(positions))
        return Base(shape, self.weights | {"positions.weight": positions}, self.tokenizer)


def load_base(path: str | Path) -> Base:
    """The encoder in a folder with `model.safetensors`, `tokenizer.json` and `config.json`."""
    folder = Path(path)
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
        loaded = safetensors.torch.load_file(folder / "model.safetensors")
        tokenizer = (folder / "tokenizer.json").read_bytes()
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as fault:
        reason = getattr(fault, "strerror", None) or repr(fault)
        raise FormatError(f"{folder} is not the folder of an encoder: {reason}", _REMEDY) from fault
    # BERT itself is published with a prefix.
    weights = {name.removeprefix("bert."): value for name, value in loaded.items()}
    for name in [name for name in weights if name.endswith(".scale")]:  # of matrices in int8, one per row
        matrix = f"{name.removesuffix('.scale')}.weight"
        weights[matrix] = weights[matrix].float() * weights.pop(name)[:, None]
    check_special_pieces(PieceTokenizer(tokenizer, str(folder / "tokenizer.json")), str(folder))
    return Base(shape, from_published(weights, shape.layers), tokenizer)


def check_special_pieces(tokenizer: PieceTokenizer, source: str) -> None:
    """Refuse a tokenizer whose special pieces do not have BERT's numbers, which batches are made with."""
    numbers = (tokenizer.pad, tokenizer.cls, tokenizer.sep)
    if numbers != (PAD, CLS, SEP):
        expected = f"[PAD], [CLS] and [SEP] as {PAD}, {CLS} and {SEP}, as in BERT"
        raise FormatError.expected(
            f"{source}: tokenizer.json", expected, ", ".join(map(str, numbers)), _REMEDY
        )
