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
from attar.training.questions.batches import CLS, PAD, SEP

_WORDS = "embeddings.word_embeddings"
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
    """The encoder in a folder with `model.safetensors`, `tokenizer.json` and `config.json`, or in a file of it."""
    path = Path(path)
    file = path / "model.safetensors" if path.is_dir() else path
    try:
        loaded = safetensors.torch.load(file.read_bytes())
        tokenizer = (file.parent / "tokenizer.json").read_bytes()
    except (OSError, SafetensorError) as fault:
        came = getattr(fault, "strerror", None) or str(fault)
        raise FormatError.expected(
            str(path), "the weights and tokenizer.json of an encoder", came, _REMEDY
        ) from fault
    # BERT itself is published with a prefix.
    weights = {name.removeprefix("bert."): value for name, value in loaded.items()}
    for name in [name for name in weights if name.endswith(".scale")]:  # of matrices in int8, one per row
        matrix = f"{name.removesuffix('.scale')}.weight"
        weights[matrix] = weights[matrix].float() * weights.pop(name)[:, None]
    shape = _shape(weights, file)
    check_special_pieces(PieceTokenizer(tokenizer, str(file.parent / "tokenizer.json")), str(file.parent))
    return Base(shape, from_published(weights, shape.layers), tokenizer)


def check_special_pieces(tokenizer: PieceTokenizer, source: str) -> None:
    """Refuse a tokenizer whose special pieces do not have BERT's numbers, which batches are made with."""
    numbers = (tokenizer.pad, tokenizer.cls, tokenizer.sep)
    if numbers != (PAD, CLS, SEP):
        expected = f"[PAD], [CLS] and [SEP] as {PAD}, {CLS} and {SEP}, as in BERT"
        raise FormatError.expected(
            f"{source}: tokenizer.json", expected, ", ".join(map(str, numbers)), _REMEDY
        )


def _shape(weights: dict[str, Tensor], file: Path) -> TransformerShape:
    """The sizes that the weights have; the number of heads is in the config only."""
    usual = TransformerShape()
    try:
        vocabulary, size = weights[f"{_WORDS}.weight"].shape
        positions = len(weights["embeddings.position_embeddings.weight"])
        feedforward = len(weights["encoder.layer.0.intermediate.dense.weight"])
    except (KeyError, ValueError) as fault:
        raise FormatError.expected(
            str(file), "the weights of an encoder of BERT's shape", str(fault), _REMEDY
        ) from fault
    layers = len({name.split(".")[2] for name in weights if name.startswith("encoder.layer.")})
    config, heads = file.parent / "config.json", usual.heads
    if config.is_file():
        try:
            heads = int(json.loads(config.read_text(encoding="utf-8"))["num_attention_heads"])
        except (ValueError, KeyError, TypeError) as fault:
            raise FormatError.expected(
                str(config), "num_attention_heads in it", str(fault), _REMEDY
            ) from fault
    elif size != usual.size:
        raise FormatError.expected(str(config), "the encoder's config", "none", _REMEDY)
    if size % heads:
        raise FormatError.expected(str(config), f"a number of heads that divides {size}", str(heads))
    return TransformerShape(vocabulary, size, layers, heads, feedforward, positions)
