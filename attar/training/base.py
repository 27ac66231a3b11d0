"""The published encoder that training starts from: its weights, its shape and its tokenizer."""

import json
from dataclasses import dataclass, replace
from pathlib import Path

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor

from attar.errors import FormatError
from attar.options import TransformerShape
from attar.text.pieces import PieceTokenizer
from attar.training.batches import CLS, PAD, SEP
from attar.training.published import from_published, from_published_mpnet

_MPNET_REMEDY = "give the folder of all-mpnet-base-v2"
# BERT's special pieces under MPNet's names.
_MPNET_SPECIAL = {"[CLS]": "<s>", "[SEP]": "</s>", "[PAD]": "<pad>", "[MASK]": "<mask>"}
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
        weights = _float_weights(folder)
        tokenizer = (folder / "tokenizer.json").read_bytes()
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as fault:
        reason = getattr(fault, "strerror", None) or repr(fault)
        raise FormatError(f"{folder} is not the folder of an encoder: {reason}", _REMEDY) from fault
    check_special_pieces(PieceTokenizer(tokenizer, str(folder / "tokenizer.json")), str(folder))
    return Base(shape, from_published(weights, shape.layers), tokenizer)


def load_mpnet(path: str | Path, tokenizer: bytes) -> Base:
    """MPNet in a folder, with the word vectors of the pieces of another tokenizer, in its order."""
    folder = Path(path)
    try:
        config = json.loads((folder / "config.json").read_bytes())
        published = json.loads((folder / "tokenizer.json").read_bytes())["model"]["vocab"]
        layers, heads = config["num_hidden_layers"], config["num_attention_heads"]
        weights = from_published_mpnet(_float_weights(folder), layers)
        unknown = published["[UNK]"]
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as fault:
        reason = getattr(fault, "strerror", None) or repr(fault)
        raise FormatError(f"{folder} is not the folder of MPNet: {reason}", _MPNET_REMEDY) from fault
    pieces = json.loads(tokenizer)["model"]["vocab"]
    rows = [
        published.get(_MPNET_SPECIAL.get(piece, piece), unknown) for piece in sorted(pieces, key=pieces.get)
    ]
    weights["words.weight"] = weights["words.weight"][rows]
    size, positions = weights["words.weight"].shape[1], len(weights["positions.weight"])
    feedforward = len(weights["layers.layers.0.linear1.bias"])
    shape = TransformerShape(len(rows), size, layers, heads, feedforward, positions)
    return Base(shape, weights, tokenizer)


def _float_weights(folder: Path) -> dict[str, Tensor]:
    """The published weights, without BERT's prefix; matrices may be in int8, with a scale per row."""
    loaded = safetensors.torch.load_file(folder / "model.safetensors")
    weights = {name.removeprefix("bert."): value for name, value in loaded.items()}
    for name in [name for name in weights if name.endswith(".scale")]:
        matrix = f"{name.removesuffix('.scale')}.weight"
        weights[matrix] = weights[matrix].float() * weights.pop(name)[:, None]
    return weights


def check_special_pieces(tokenizer: PieceTokenizer, source: str) -> None:
    """Refuse a tokenizer whose special pieces do not have BERT's numbers, which batches are made with."""
    numbers = (tokenizer.pad, tokenizer.cls, tokenizer.sep)
    if numbers != (PAD, CLS, SEP):
        expected = f"[PAD], [CLS] and [SEP] as {PAD}, {CLS} and {SEP}, as in BERT"
        raise FormatError.expected(
            f"{source}: tokenizer.json", expected, ", ".join(map(str, numbers)), _REMEDY
        )
