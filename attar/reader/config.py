"""The `config.json` of a reader, and the shapes that its weights must have."""

import stat
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from attar.errors import FormatError
from attar.options import LONGEST, PhraseOptions
from attar.reader.confidence import Calibration, LookCalibration

FORMAT: Literal[1] = 1
# A window has 318 pieces and two special tokens.
POSITIONS = 320
# A memory has 16 bits for the id of a piece.
_VOCABULARY = 2**16
_Fingerprint = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]


class QuickConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The quick question encoder: how many layers it shares with the text encoder, and how many are its own."""

    shared: Annotated[int, msgspec.Meta(ge=0)]
    layers: Annotated[int, msgspec.Meta(ge=0)]


class NetworkConfig(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a reader's fingerprint covers besides its words and weights."""

    phrases: PhraseOptions
    density: Annotated[float, msgspec.Meta(gt=0, le=10)]  # phrases kept per word piece
    calibration: Calibration | None = None  # without it probabilities are a softmax of scores
    distinct: bool = False  # of phrases that are the same answer, only one is kept
    quick: QuickConfig | None = None

    def check(self) -> None:
        """Refuse sizes that a reader cannot work with."""
        shape = self.phrases.encoder
        sound = {
            "heads must divide the size": shape.heads > 0 and shape.size % shape.heads == 0,
            f"{POSITIONS} positions are needed": shape.positions >= POSITIONS,
            f"at most {_VOCABULARY:,} word pieces": shape.vocabulary <= _VOCABULARY,
            "word overlap must be static": self.phrases.match == "static",
            "there are fewer layers to share": self.quick is None or self.quick.shared <= shape.layers,
        }
        for rule, holds in sound.items():
            if not holds:
                raise ValueError(rule)


class LookConfig(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A second look: the hash of its file, and its calibration. No memory depends on it, and no fingerprint."""

    digest: _Fingerprint
    calibration: LookCalibration | None = None


class ReaderConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="phrases"):
    """The config of a reader; `about` is free-form information on how it was made."""

    format: Literal[1]
    fingerprint: _Fingerprint
    network: NetworkConfig
    about: dict[str, Any]
    look: LookConfig | None = None


class FixedSizeConfig(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="fixed size"
):
    """The config of a reader that has the default reader's files, and memories of fixed size."""

    format: Literal[1]
    fingerprint: _Fingerprint
    calibration: Calibration
    look: LookCalibration | None = None  # without it that of the default reader


class _FormatNumber(msgspec.Struct):
    format: int = 0


def read_config(file: Path) -> ReaderConfig | FixedSizeConfig:
    """Read and check a reader's `config.json`."""
    data = read_file(file)
    try:
        config = msgspec.json.decode(data, type=ReaderConfig | FixedSizeConfig)
        if isinstance(config, ReaderConfig):
            config.network.check()
    except (ValueError, RecursionError) as fault:  # msgspec's errors among them
        if _format_of(data) > FORMAT:
            raise FormatError(
                f"{file.parent} is a reader of a later version", "install a newer attar"
            ) from fault
        raise foreign_file(file, fault) from fault
    return config


def read_file(file: Path) -> bytes:
    """The bytes of a reader's file."""
    try:
        # A pipe or a device has no end.
        if not stat.S_ISREG(file.stat().st_mode):
            raise FormatError(f"{file} is not a regular file", "check the path")
        return file.read_bytes()
    except OSError as fault:
        raise FormatError(f"cannot read {file}: {fault.strerror or fault}", "check the path") from fault


def foreign_file(file: Path, fault: Exception) -> FormatError:
    """The error for a file that is not what its name says."""
    reason = " ".join(str(fault).split()) or type(fault).__name__
    return FormatError(f"{file} is damaged, or not a reader's: {reason[:200]}", "copy the whole folder again")


def _format_of(data: bytes) -> int:
    try:
        return msgspec.json.decode(data, type=_FormatNumber).format
    except (msgspec.DecodeError, RecursionError):
        return 0


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


def look_shapes(options: PhraseOptions) -> dict[str, tuple[int, ...]]:
    """The shape of every weight of a second look; its word vectors are those of its reader."""
    parts = {"look": _LOOK}
    parts |= {f"look.encoder.layers.layers.{at}": _LAYER for at in range(options.encoder.layers)}
    return _shapes(parts, options)


def _shapes(parts: dict[str, dict[str, str]], options: PhraseOptions) -> dict[str, tuple[int, ...]]:
    sizes = _dimensions(options)
    return {
        f"{part}.{name}": tuple(sizes[letter] for letter in letters)
        for part, weights in parts.items()
        for name, letters in weights.items()
    }


def check_weights(file: Path, config: NetworkConfig, weights: Weights, *, look: bool = False) -> None:
    """Refuse weights whose names, shapes or types are not those of the config, and numbers that are not finite.

    With `look` they are those of its second look.
    """
    layers = config.phrases.encoder.layers
    if config.quick is not None and not look:
        layers += config.quick.layers
    if layers > len(weights):  # the config may claim any number
        raise FormatError(f"{file} has fewer layers than its config says", "copy the whole folder again")
    shapes = look_shapes(config.phrases) if look else weight_shapes(config)
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
