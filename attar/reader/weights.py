"""The weights of a reader as they lie on disk: their names, shapes and types, and their fingerprint."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from attar.errors import FormatError
from attar.options import LONGEST, PhraseOptions
from attar.reader.folders import NetworkConfig

if TYPE_CHECKING:
    from torch import Tensor

# Weights as on disk: matrices in int8 with one scale per row under the same name and `.scale`, vectors in float16.
Weights = dict[str, NDArray[Any]]
SCALE = ".scale"
# The largest weight of a row is 127 times its scale.
_LARGEST_SCALE = np.finfo(np.float32).max / 128
TEXT_LAYERS = "network.encoder.layers.layers"
QUICK_LAYERS = "quick.layers.layers"
# The shape of each weight; the letters are those of `_dimensions`.
_TEXTS = {
    "encoder.words.weight": "vd",
    "encoder.positions.weight": "pd",
    "encoder.types.weight": "2d",
    "encoder.norm.weight": "d",
    "encoder.norm.bias": "d",
    "first.weight": "kd",
    "first.bias": "k",
    "last.weight": "kd",
    "prior.weight": "2d",
    "prior.bias": "2",
    "length_prior": "l",
    "word.weight": "wd",
    "neighbours": "2",
}
_QUESTIONS = {
    "query.weight": "kd",
    "query.bias": "k",
    "null.weight": "1d",
    "null.bias": "1",
    "weight.weight": "1d",
    "weight.bias": "1",
}
_RIDGE = {
    "ridge.query.weight": "kk",
    "ridge.query.bias": "k",
    "ridge.value.weight": "rd",
    "ridge.sharpness": "1",
}
_LAYER = {
    "self_attn.in_proj_weight": "td",
    "self_attn.in_proj_bias": "t",
    "self_attn.out_proj.weight": "dd",
    "self_attn.out_proj.bias": "d",
    "linear1.weight": "fd",
    "linear1.bias": "f",
    "linear2.weight": "df",
    "linear2.bias": "d",
    "norm1.weight": "d",
    "norm1.bias": "d",
    "norm2.weight": "d",
    "norm2.bias": "d",
}


_LOOK = {
    "encoder.positions.weight": "pd",
    "encoder.types.weight": "2d",
    "encoder.norm.weight": "d",
    "encoder.norm.bias": "d",
    "ends.weight": "2d",
    "ends.bias": "2",
    "present.weight": "1d",
    "present.bias": "1",
}


def _dimensions(options: PhraseOptions) -> dict[str, int]:
    shape = options.encoder
    return {
        "v": shape.vocabulary,
        "p": shape.positions,
        "d": shape.size,
        "t": 3 * shape.size,  # queries, keys and values
        "f": shape.feedforward,
        "k": options.size,
        "w": options.word_size,
        "l": LONGEST,
        "r": options.values,
        "1": 1,
        "2": 2,
    }


def weight_shapes(config: NetworkConfig) -> dict[str, tuple[int, ...]]:
    """The shape of every weight of a reader; `PhraseNetwork` has the same, but needs torch."""
    parts = {"network": _TEXTS | _QUESTIONS | (_RIDGE if config.phrases.values else {})}
    parts |= {f"{TEXT_LAYERS}.{at}": _LAYER for at in range(config.phrases.encoder.layers)}
    if config.quick is not None:
        parts["quick"] = _QUESTIONS
        parts |= {f"{QUICK_LAYERS}.{at}": _LAYER for at in range(config.quick.layers)}
    return _shapes(parts, config.phrases)


def look_shapes(options: PhraseOptions, layers: int) -> dict[str, tuple[int, ...]]:
    """The shape of every weight of a second look; its word vectors are those of its reader."""
    parts = {"look": _LOOK}
    parts |= {f"look.encoder.layers.layers.{at}": _LAYER for at in range(layers)}
    return _shapes(parts, options)


def _shapes(parts: dict[str, dict[str, str]], options: PhraseOptions) -> dict[str, tuple[int, ...]]:
    sizes = _dimensions(options)
    return {
        f"{part}.{name}": tuple(sizes[letter] for letter in letters)
        for part, weights in parts.items()
        for name, letters in weights.items()
    }


def check_weights(
    file: Path, config: NetworkConfig, weights: Weights, *, look_layers: int | None = None
) -> None:
    """Refuse weights whose names, shapes or types are not those of the config, and numbers that are not finite.

    With `look_layers` they are those of its second look.
    """
    layers = config.phrases.encoder.layers + (0 if config.quick is None else config.quick.layers)
    if look_layers is not None:
        layers = look_layers
    if layers > len(weights):  # the config may claim any number
        raise FormatError(f"{file} has fewer layers than its config says", "copy the whole folder again")
    shapes = weight_shapes(config) if look_layers is None else look_shapes(config.phrases, look_layers)
    for name in sorted(weights):
        value, shape = weights[name], shapes.pop(name, None)
        if name.endswith(SCALE):
            matrix = weights.get(name.removesuffix(SCALE))
            is_sound = matrix is not None and value.shape in ((len(matrix),), (len(matrix), 1))
            is_sound &= value.dtype == np.float32 and bool((np.abs(value) < _LARGEST_SCALE).all())
        else:
            is_sound = value.shape == shape and value.dtype in (np.int8, np.float16, np.float32)
            is_sound &= value.dtype == np.int8 or bool(np.isfinite(value).all())
        if not is_sound:
            expected = "finite scales, one per row" if name.endswith(SCALE) else f"finite weights {shape}"
            came = f"{value.dtype} {list(value.shape)}"
            raise FormatError.expected(
                f"{file}, {name[:80]!r}", expected, came, "copy the whole folder again"
            )
    if shapes:
        raise FormatError(f"{file} has no weights {min(shapes)!r}", "copy the whole folder again")


def fingerprint_of(network: NetworkConfig, tokenizer: bytes, weights: Mapping[str, NDArray[Any]]) -> str:
    """A hash of options, words and weights, equal on all machines; a memory belongs to one fingerprint."""
    digest = hashlib.sha256(json.dumps(msgspec.to_builtins(network), sort_keys=True).encode())
    digest.update(hashlib.sha256(tokenizer).digest())
    for name in sorted(weights):
        value = np.ascontiguousarray(weights[name])
        digest.update(f"{name} torch.{value.dtype} {list(weights[name].shape)}".encode())
        digest.update(value.data)
    return digest.hexdigest()


def to_int8(state: "dict[str, Tensor]") -> Weights:
    """Matrices in int8 with one scale per row, vectors in float16."""
    import torch

    weights: Weights = {}
    for name, parameter in state.items():
        value = parameter.detach().float().cpu()
        if value.ndim == 2 and value.shape[0] > 8:
            scales = value.abs().amax(1).clamp(min=1e-12) / 127
            weights[name] = (value / scales[:, None]).round().to(torch.int8).numpy()
            weights[name + SCALE] = scales.numpy()
        else:
            weights[name] = value.half().numpy()
    return weights
