"""Published encoders that training starts from: of BERT's shape, and MPNet, a larger teacher."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import safetensors.torch
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from attar.nn.transformer import Transformer
from attar.options import TransformerShape
from attar.reader.windows import PieceTokenizer
from attar.training.batches import check_special_pieces

Weights = Mapping[str, Tensor]
# BERT's special pieces under MPNet's names.
_MPNET_SPECIAL = {"[CLS]": "<s>", "[SEP]": "</s>", "[PAD]": "<pad>", "[MASK]": "<mask>"}
# Rows of MPNet's position embeddings that belong to padding.
_PADDING_ROWS = 2
# MPNet's layer norms, and the distance beyond which all share a bucket.
_EPSILON, _FARTHEST = 1e-5, 128
# Published name → ours within a layer. Query, key and value are stacked in torch.
_SHARED = {"intermediate.dense": "linear1", "output.dense": "linear2", "output.LayerNorm": "norm2"}
_BERT = _SHARED | {"attention.output.dense": "self_attn.out_proj", "attention.output.LayerNorm": "norm1"}
_MPNET = _SHARED | {"attention.attn.o": "self_attn.out_proj", "attention.LayerNorm": "norm1"}


@dataclass(frozen=True)
class Base:
    """An encoder's shape and weights, and the bytes of its tokenizer."""

    shape: TransformerShape
    weights: dict[str, Tensor]
    tokenizer: bytes

    def with_fewer_positions(self, most: int) -> "Base":
        positions = self.weights["positions.weight"][:most].clone()
        shape = replace(self.shape, positions=len(positions))
        return Base(shape, self.weights | {"positions.weight": positions}, self.tokenizer)


def load_base(path: str | Path) -> Base:
    """The encoder in a folder with `model.safetensors`, `tokenizer.json` and `config.json`."""
    folder = Path(path)
    config = json.loads((folder / "config.json").read_bytes())
    weights = from_published(_float_weights(folder), config["num_hidden_layers"])
    tokenizer = (folder / "tokenizer.json").read_bytes()
    check_special_pieces(PieceTokenizer(tokenizer, str(folder / "tokenizer.json")), str(folder))
    return Base(_shape_of(weights, config), weights, tokenizer)


def load_mpnet(path: str | Path, tokenizer: bytes) -> Base:
    """MPNet in a folder, with the word vectors of the pieces of another tokenizer, in its order."""
    folder = Path(path)
    config = json.loads((folder / "config.json").read_bytes())
    published = json.loads((folder / "tokenizer.json").read_bytes())["model"]["vocab"]
    weights = from_published_mpnet(_float_weights(folder), config["num_hidden_layers"])
    pieces = json.loads(tokenizer)["model"]["vocab"]
    rows = [
        published.get(_MPNET_SPECIAL.get(piece, piece), published["[UNK]"])
        for piece in sorted(pieces, key=pieces.get)
    ]
    weights["words.weight"] = weights["words.weight"][rows]
    return Base(_shape_of(weights, config), weights, tokenizer)


def _shape_of(weights: Weights, config: dict[str, int]) -> TransformerShape:
    pieces, size = weights["words.weight"].shape
    layers, heads = config["num_hidden_layers"], config["num_attention_heads"]
    feedforward = len(weights["layers.layers.0.linear1.bias"])
    return TransformerShape(pieces, size, layers, heads, feedforward, len(weights["positions.weight"]))


def _float_weights(folder: Path) -> dict[str, Tensor]:
    """The published weights, without BERT's prefix; matrices may be in int8, with a scale per row."""
    loaded = safetensors.torch.load_file(folder / "model.safetensors")
    weights = {name.removeprefix("bert."): value.float() for name, value in loaded.items()}
    for name in [name for name in weights if name.endswith(".scale")]:
        weights[f"{name.removesuffix('.scale')}.weight"] *= weights.pop(name)[:, None]
    return weights


def from_published(weights: Weights, layers: int) -> dict[str, Tensor]:
    """The state of a `Transformer` from the weights that BERT-like models are published with."""
    ours = _embeddings(weights)
    ours["types.weight"] = weights["embeddings.token_type_embeddings.weight"]
    stacked = tuple(f"attention.self.{name}" for name in ("query", "key", "value"))
    return ours | _layers(weights, layers, stacked, _BERT)


def from_published_mpnet(weights: Weights, layers: int) -> dict[str, Tensor]:
    """The state of a `RelativeTransformer` from the weights that MPNet is published with."""
    ours = _embeddings(weights)
    ours["positions.weight"] = ours["positions.weight"][_PADDING_ROWS:]
    ours["types.weight"] = torch.zeros(2, ours["words.weight"].shape[1])  # it has none
    ours["relative.weight"] = weights["encoder.relative_attention_bias.weight"]
    stacked = tuple(f"attention.attn.{name}" for name in "qkv")
    return ours | _layers(weights, layers, stacked, _MPNET)


def _embeddings(weights: Weights) -> dict[str, Tensor]:
    return {
        "words.weight": weights["embeddings.word_embeddings.weight"],
        "positions.weight": weights["embeddings.position_embeddings.weight"],
        "norm.weight": weights["embeddings.LayerNorm.weight"],
        "norm.bias": weights["embeddings.LayerNorm.bias"],
    }


def _layers(
    weights: Weights, layers: int, stacked: tuple[str, ...], names: Mapping[str, str]
) -> dict[str, Tensor]:
    ours = {}
    for at in range(layers):
        theirs, mine = f"encoder.layer.{at}.", f"layers.layers.{at}."
        for part in ("weight", "bias"):
            parts = [weights[f"{theirs}{name}.{part}"] for name in stacked]
            ours[f"{mine}self_attn.in_proj_{part}"] = torch.cat(parts)
            ours |= {f"{mine}{new}.{part}": weights[f"{theirs}{old}.{part}"] for old, new in names.items()}
    return ours


class RelativeTransformer(Transformer):
    """MPNet: attention has a learned bias for each head and each bucket of distances, which stays as published.

    >>> shape = TransformerShape(vocabulary=50, size=8, layers=1, heads=2, feedforward=16)
    >>> RelativeTransformer(shape)(torch.tensor([[3, 4, 5]])).shape
    torch.Size([1, 3, 8])
    """

    def __init__(self, shape: TransformerShape, buckets: int = 32, *, dropout: float = 0.1) -> None:
        super().__init__(shape, dropout=dropout)
        # Without a gradient attention can be computed without writing out its weights.
        self.relative = nn.Embedding(buckets, shape.heads).requires_grad_(False)
        for module in self.modules():
            if isinstance(module, nn.LayerNorm):
                module.eps = _EPSILON

    def continued(
        self, x: Float[Tensor, "B n d"], mask: Bool[Tensor, "B n"] | None, layers: slice
    ) -> Float[Tensor, "B n d"]:
        """The states after some of the layers, from those before them."""
        bias = self._bias(x.shape[1]).to(x.dtype)
        if torch.is_autocast_enabled(x.device.type):
            bias = bias.to(torch.get_autocast_dtype(x.device.type))
        if mask is not None:
            bias = bias.masked_fill(~mask[:, None, None], float("-inf"))
        dropout = self.dropout if self.training else 0.0
        for layer in self.layers.layers[layers]:
            assert isinstance(layer, nn.TransformerEncoderLayer)  # torch types the list as modules
            x = _layer_forward(layer, x, bias, dropout)
        return x

    def _bias(self, length: int) -> Float[Tensor, "1 h n n"]:
        places = torch.arange(length, device=self.relative.weight.device)
        buckets = distance_buckets(places[None] - places[:, None], self.relative.num_embeddings)
        bias: Tensor = self.relative(buckets).permute(2, 0, 1)[None]
        return bias


def _layer_forward(layer: nn.TransformerEncoderLayer, x: Tensor, bias: Tensor, dropout: float) -> Tensor:
    attention = layer.self_attn
    stacked = functional.linear(x, attention.in_proj_weight, attention.in_proj_bias)
    queries, keys, values = stacked.view(*x.shape[:2], 3, attention.num_heads, -1).permute(2, 0, 3, 1, 4)
    read = functional.scaled_dot_product_attention(
        queries, keys, values, attn_mask=bias.expand(len(x), -1, -1, -1), dropout_p=dropout
    )
    read = attention.out_proj(read.transpose(1, 2).flatten(2))
    x = layer.norm1(x + functional.dropout(read, dropout))
    inner = layer.linear2(functional.gelu(layer.linear1(x)))
    states: Tensor = layer.norm2(x + functional.dropout(inner, dropout))
    return states


def distance_buckets(distances: Int[Tensor, "*shape"], count: int) -> Int[Tensor, "*shape"]:
    """The bucket of each distance: half of them for tokens after; near distances have one each, far ones share.

    >>> distance_buckets(torch.tensor([0, -1, 1, -7, -9, 100, 4000]), 32).tolist()
    [0, 1, 17, 7, 8, 31, 31]
    """
    half = count // 2
    far = distances.abs()
    near = half // 2
    scaled = torch.log(far.clamp(min=1).float() / near) / math.log(_FARTHEST / near) * (half - near)
    shared = (near + scaled.long()).clamp(max=half - 1)
    return torch.where(far < near, far, shared) + half * (distances > 0)
