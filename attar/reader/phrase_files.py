"""A phrase reader on disk: `config.json`, `tokenizer.json` and `weights.safetensors` with matrices in int8."""

import math
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from attar.errors import FormatError
from attar.nn import PhraseNetwork, PhraseOptions, QuickQuestions
from attar.reader.confidence import FEATURES, Calibration
from attar.reader.files import fingerprint_of, without_initialization, write_folder
from attar.reader.folders import read_file
from attar.text import PieceTokenizer

_FORMAT, _SCALE = 2, ".scale"
# Windows have 318 pieces and two special tokens; a memory has 16 bits for the id of a piece.
POSITIONS, _VOCABULARY = 320, 2**16


class PhraseConfig(msgspec.Struct, forbid_unknown_fields=True):
    """The config of a phrase reader."""

    format: int
    kind: Literal["phrases"]
    fingerprint: str
    network: dict[str, Any]
    about: dict[str, Any]


class _Format(msgspec.Struct):
    """Read first: a newer format may have other fields."""

    format: int


class _Quick(msgspec.Struct, forbid_unknown_fields=True):
    """The sizes of a question encoder."""

    shared: int
    layers: int


class _Network(msgspec.Struct, forbid_unknown_fields=True):
    """The options of a phrase reader."""

    phrases: PhraseOptions
    density: Annotated[float, msgspec.Meta(gt=0, le=10)]
    calibration: Calibration | None = None
    quick: _Quick | None = None


@dataclass
class SavedPhrases:
    """The contents of a phrase reader's folder."""

    network: PhraseNetwork
    quick: QuickQuestions | None
    tokenizer: PieceTokenizer
    fingerprint: str
    about: dict[str, Any]
    density: float  # phrases kept per word piece
    calibration: Calibration | None = None  # without it probabilities are a softmax of scores


def save_phrase_reader(
    path: str | Path,
    network: PhraseNetwork,
    quick: QuickQuestions | None,
    tokenizer: bytes,
    about: dict[str, Any] | None = None,
    *,
    density: float = 0.4,
    calibration: Calibration | None = None,
) -> str:
    """Write a phrase reader's folder and return its fingerprint."""
    state = {f"network.{name}": value for name, value in network.state_dict().items()}
    options: dict[str, Any] = {"phrases": asdict(network.options), "density": density}
    if calibration is not None:
        options["calibration"] = msgspec.to_builtins(calibration)
    if quick is not None:
        state |= {f"quick.{name}": value for name, value in quick.state_dict().items()}
        options["quick"] = {"shared": quick.shared, "layers": len(quick.layers.layers)}
    weights = _to_int8(state)
    digest = fingerprint_of(options, tokenizer, weights)
    config = PhraseConfig(_FORMAT, "phrases", digest, options, about or {})
    write_folder(Path(path), msgspec.to_builtins(config), tokenizer, weights)
    return digest


def with_calibration(
    source: str | Path, folder: str | Path, calibration: Calibration, about: dict[str, Any]
) -> str:
    """Write a phrase reader's folder again with another calibration; its weights stay as they are."""
    source = Path(source)
    config = msgspec.json.decode(read_file(source / "config.json"), type=PhraseConfig)
    tokenizer = read_file(source / "tokenizer.json")
    weights = safetensors.torch.load(read_file(source / "weights.safetensors"))
    options = config.network | {"calibration": msgspec.to_builtins(calibration)}
    digest = fingerprint_of(options, tokenizer, weights)
    changed = PhraseConfig(_FORMAT, "phrases", digest, options, config.about | about)
    write_folder(Path(folder), msgspec.to_builtins(changed), tokenizer, weights)
    return digest


def load_phrase_reader(folder: Path, config: bytes) -> SavedPhrases:
    """Load a phrase reader's folder, in float32; its sizes are checked before anything is made of them."""
    again = "copy the whole folder again"
    try:
        newer = msgspec.json.decode(config, type=_Format).format
        if newer > _FORMAT:
            remedy = "install a newer attar"
            raise FormatError(str(folder), f"format {_FORMAT} or older", str(newer), remedy)
        given = msgspec.json.decode(config, type=PhraseConfig)
        options = msgspec.convert(given.network, _Network)
        # Readers without memories of fixed size need not say so.
        if asdict(options.phrases) != {"values": 0, **given.network["phrases"]}:
            raise msgspec.ValidationError(f"other options than {', '.join(asdict(options.phrases))}")
    except msgspec.DecodeError as fault:
        raise _unlike(folder / "config.json", "a phrase reader's config", fault) from fault
    tokenizer = read_file(folder / "tokenizer.json")
    pieces = PieceTokenizer(tokenizer, str(folder / "tokenizer.json"))
    file = folder / "weights.safetensors"
    try:
        weights = safetensors.torch.load(read_file(file))
        _check_sizes(folder / "config.json", options, weights)
        if len(pieces) > options.phrases.encoder.vocabulary:
            expected = f"at most the network's {options.phrases.encoder.vocabulary} pieces"
            raise FormatError(str(folder / "tokenizer.json"), expected, str(len(pieces)), again)
        if fingerprint_of(given.network, tokenizer, weights) != given.fingerprint:
            raise FormatError(str(folder), f"the reader {given.fingerprint[:12]}", "other files", again)
        state = _from_int8(weights)
        if not all(bool(value.isfinite().all()) for value in state.values()):
            raise FormatError(str(file), "finite weights", "infinite ones or NaN", again)
        # On no device: random initialization would take time and change the caller's random state.
        with without_initialization():
            network = PhraseNetwork(options.phrases, device="meta")
        network.load_state_dict(_part(state, "network."), assign=True)
        quick = None
        if options.quick is not None:
            own = options.quick
            with without_initialization():
                quick = QuickQuestions(options.phrases, own.shared, own.layers, device="meta")
            quick.load_state_dict(_part(state, "quick."), assign=True)
            quick.eval()
    except (KeyError, TypeError, RuntimeError, SafetensorError) as fault:
        raise _unlike(file, "this reader's weights", fault) from fault
    about, calibration = given.about, options.calibration
    return SavedPhrases(network.eval(), quick, pieces, given.fingerprint, about, options.density, calibration)


def _check_sizes(config: Path, options: _Network, weights: dict[str, Tensor]) -> None:
    """Refuse sizes that are not those of the weights, or that a reader cannot work with."""
    phrases, shape = options.phrases, options.phrases.encoder
    encoder = "network.encoder.layers.layers."
    sizes: dict[str, Any] = {
        "network.encoder.words.weight": [shape.vocabulary, shape.size],
        "network.encoder.positions.weight": [shape.positions, shape.size],
        f"{encoder}0.linear1.weight": [shape.feedforward, shape.size],
        "network.first.weight": [phrases.size, shape.size],
        "network.word.weight": [phrases.word_size, shape.size],
    }
    for name, expected in sizes.items():
        came = list(weights[name].shape) if name in weights else "none"
        if came != expected:
            raise FormatError(f"{config}, {name}", str(came), str(expected), "copy the whole folder again")
    quick = options.quick or _Quick(0, 0)
    sound = {
        f"{_count(weights, encoder)} layers": shape.layers == _count(weights, encoder),
        f"{_count(weights, 'quick.layers.layers.')} question layers": quick.layers
        == _count(weights, "quick.layers.layers."),
        "shared layers that exist": 0 <= quick.shared <= shape.layers,
        "heads that divide the size": shape.heads > 0 and shape.size % shape.heads == 0,
        f"{POSITIONS} positions or more": shape.positions >= POSITIONS,
        f"at most {_VOCABULARY} word pieces": shape.vocabulary <= _VOCABULARY,
        "word overlap of static vectors": phrases.match == "static",
        f"a calibration with {len(FEATURES)} finite weights each": _is_sound(options.calibration),
    }
    for expected, is_so in sound.items():
        if not is_so:
            raise FormatError(str(config), expected, "others", "copy the whole folder again")


def _is_sound(calibration: Calibration | None) -> bool:
    if calibration is None:
        return True
    parts = (calibration.right, calibration.absent)
    values = (*calibration.right, *calibration.absent, calibration.threshold)
    return all(len(part) == len(FEATURES) for part in parts) and all(map(math.isfinite, values))


def _count(weights: dict[str, Tensor], prefix: str) -> int:
    """How many layers have weights."""
    numbers = (re.match(re.escape(prefix) + r"(\d+)\.", name) for name in weights)
    return len({found[1] for found in numbers if found})


def _unlike(file: Path, expected: str, fault: Exception) -> FormatError:
    reason = " ".join(str(fault).split()) or type(fault).__name__
    return FormatError(str(file), expected, f"another file ({reason[:200]})")


def _part(state: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}


def _to_int8(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Matrices in int8 with one scale per row, vectors in float16."""
    weights = {}
    for name, value in state.items():
        value = value.detach().float().cpu()
        if value.ndim == 2 and value.shape[0] > 8:
            scales = value.abs().amax(1).clamp(min=1e-12) / 127
            weights[name] = (value / scales[:, None]).round().to(torch.int8)
            weights[name + _SCALE] = scales
        else:
            weights[name] = value.half()
    return weights


def _from_int8(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    state = {}
    for name, value in weights.items():
        if not name.endswith(_SCALE):
            scales = weights.get(name + _SCALE)
            state[name] = value.float() if scales is None else value.float() * scales.reshape(-1, 1)
    return state
