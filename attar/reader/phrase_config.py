"""The config of a phrase reader, and the shapes that its weights must have."""

import math
import re
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from numpy.typing import NDArray

from attar.errors import FormatError
from attar.options import LONGEST, PhraseOptions
from attar.reader.confidence import FEATURES, Calibration

# Windows have 318 pieces and two special tokens; a memory has 16 bits for the id of a piece.
POSITIONS, _VOCABULARY = 320, 2**16
_LAYERS, _QUICK_LAYERS = "network.encoder.layers.layers.", "quick.layers.layers."
# Weights as on disk: matrices in int8 with the scale of each row, under the same name and `.scale`.
Weights = dict[str, NDArray[Any]]
SCALE = ".scale"


class PhraseConfig(msgspec.Struct, forbid_unknown_fields=True):
    """The config of a phrase reader."""

    format: int
    kind: Literal["phrases"]
    fingerprint: str
    network: dict[str, Any]
    about: dict[str, Any]


class FixedSizeConfig(msgspec.Struct, forbid_unknown_fields=True):
    """The config of the reader `fixed`, which has the files of the default one, and a calibration of its own."""

    format: int
    kind: Literal["fixed size"]
    fingerprint: str
    calibration: Calibration


class FormatNumber(msgspec.Struct):
    """Read first: a newer format, or another kind, may have other fields."""

    format: int
    kind: str = ""


class _Quick(msgspec.Struct, forbid_unknown_fields=True):
    """The sizes of a question encoder."""

    shared: int
    layers: int


class NetworkConfig(msgspec.Struct, forbid_unknown_fields=True):
    """The options of a phrase reader."""

    phrases: PhraseOptions
    density: Annotated[float, msgspec.Meta(gt=0, le=10)]
    calibration: Calibration | None = None
    distinct: bool = False
    quick: _Quick | None = None


def check_sizes(config: Path, options: NetworkConfig, weights: Weights) -> None:
    """Refuse sizes that are not those of the weights, or that a reader cannot work with."""
    phrases, shape = options.phrases, options.phrases.encoder
    layers = _count(weights, _LAYERS)
    quick = options.quick or _Quick(0, 0)
    again = "copy the whole folder again"
    sound = {
        f"{layers} layers": shape.layers == layers,
        f"{_count(weights, _QUICK_LAYERS)} question layers": quick.layers == _count(weights, _QUICK_LAYERS),
        "shared layers that exist": 0 <= quick.shared <= shape.layers,
        "heads that divide the size": shape.heads > 0 and shape.size % shape.heads == 0,
        f"{POSITIONS} positions or more": shape.positions >= POSITIONS,
        f"at most {_VOCABULARY} word pieces": shape.vocabulary <= _VOCABULARY,
        "word overlap of static vectors": phrases.match == "static",
        f"a calibration with {len(FEATURES)} finite weights each": _is_sound(options.calibration),
    }
    for expected, is_so in sound.items():
        if not is_so:
            raise FormatError.expected(str(config), expected, "others", again)
    sizes = _sizes(options)
    given = (name for name in weights if name not in sizes and name.removesuffix(SCALE) not in sizes)
    for name in (*sizes, *given):
        came = list(weights[name].shape) if name in weights else "none"
        if came != sizes.get(name):
            raise FormatError.expected(f"{config}, {name}", str(came), str(sizes.get(name, "none")), again)


def _is_sound(calibration: Calibration | None) -> bool:
    if calibration is None:
        return True
    parts = (calibration.right, calibration.absent)
    values = (*calibration.right, *calibration.absent, calibration.threshold)
    return all(len(part) == len(FEATURES) for part in parts) and all(map(math.isfinite, values))


def _sizes(options: NetworkConfig) -> dict[str, list[int]]:
    """The shape of every weight."""
    phrases, shape = options.phrases, options.phrases.encoder
    d, k, inner = shape.size, phrases.size, shape.feedforward

    def linear(name: str, into: int, out: int) -> dict[str, list[int]]:
        return {f"{name}.weight": [out, into], f"{name}.bias": [out]}

    def norm(name: str) -> dict[str, list[int]]:
        return {f"{name}.weight": [d], f"{name}.bias": [d]}

    def layer(name: str) -> dict[str, list[int]]:
        attention = f"{name}.self_attn"
        return (
            {f"{attention}.in_proj_weight": [3 * d, d], f"{attention}.in_proj_bias": [3 * d]}
            | linear(f"{attention}.out_proj", d, d)
            | linear(f"{name}.linear1", d, inner)
            | linear(f"{name}.linear2", inner, d)
            | norm(f"{name}.norm1")
            | norm(f"{name}.norm2")
        )

    def heads(part: str) -> dict[str, list[int]]:
        return linear(f"{part}.query", d, k) | linear(f"{part}.null", d, 1) | linear(f"{part}.weight", d, 1)

    sizes = {
        "network.encoder.words.weight": [shape.vocabulary, d],
        "network.encoder.positions.weight": [shape.positions, d],
        "network.encoder.types.weight": [2, d],
        "network.last.weight": [k, d],
        "network.length_prior": [LONGEST],
        "network.word.weight": [phrases.word_size, d],
        "network.neighbours": [2],
    }
    sizes |= norm("network.encoder.norm") | linear("network.first", d, k) | linear("network.prior", d, 2)
    sizes |= heads("network")
    if phrases.values:
        ridge = "network.ridge"
        sizes |= linear(f"{ridge}.query", k, k) | {
            f"{ridge}.value.weight": [phrases.values, d],
            f"{ridge}.sharpness": [1],
        }
    for at in range(shape.layers):
        sizes |= layer(f"{_LAYERS}{at}")
    if options.quick is not None:
        sizes |= heads("quick")
        for at in range(options.quick.layers):
            sizes |= layer(f"{_QUICK_LAYERS}{at}")
    return sizes


def _count(weights: Weights, prefix: str) -> int:
    """How many layers have weights."""
    numbers = (re.match(re.escape(prefix) + r"(\d+)\.", name) for name in weights)
    return len({found[1] for found in numbers if found})
