"""A phrase reader on disk: `config.json`, `tokenizer.json` and `weights.safetensors` with matrices in int8."""

import math
import re
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
import numpy as np
import safetensors.numpy
from numpy.typing import NDArray
from safetensors import SafetensorError

from attar.errors import FormatError
from attar.memory import Floats
from attar.nn import LONGEST, PhraseOptions
from attar.reader.folders import fingerprint_of, read_file, write_folder
from attar.text import PieceTokenizer

if TYPE_CHECKING:
    from torch import Tensor

    from attar.nn import PhraseNetwork, QuickQuestions

_FORMAT, _SCALE = 2, ".scale"
# Windows have 318 pieces and two special tokens; a memory has 16 bits for the id of a piece.
_POSITIONS, _VOCABULARY = 320, 2**16
_ALL = slice(None)
_LAYERS, _QUICK_LAYERS = "network.encoder.layers.layers.", "quick.layers.layers."
# As on disk: matrices in int8 with the scale of each row, under the same name and `.scale`.
_Weights = dict[str, NDArray[Any]]


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
    calibration: tuple[float, float]
    quick: _Quick | None = None


@dataclass
class SavedPhrases:
    """The contents of a phrase reader's folder."""

    network: "PhraseNetwork"
    quick: "QuickQuestions | None"
    tokenizer: PieceTokenizer
    fingerprint: str
    about: dict[str, Any]
    density: float  # phrases kept per word piece
    calibration: tuple[float, float]  # scale and bias of the log-odds of an answer

    @property
    def options(self) -> PhraseOptions:
        """The sizes of the network."""
        return self.network.options

    @property
    def quick_layers(self) -> tuple[int, int] | None:
        """The layers of the quick question encoder, shared with the document encoder and its own."""
        return None if self.quick is None else (self.quick.shared, len(self.quick.layers.layers))

    def weight(self, name: str, rows: slice | NDArray[np.integer] = _ALL) -> Floats:
        """A weight in float32, or some rows of it."""
        part, _, own = name.partition(".")
        state: dict[str, Tensor] = getattr(self, part).state_dict()
        values: Floats = state[own].detach().float().numpy()[rows]
        return values


class LoadedPhrases(SavedPhrases):
    """A folder whose network is made when it is first needed: few of its weights are needed for a question."""

    def __init__(
        self, given: PhraseConfig, options: _Network, tokenizer: PieceTokenizer, weights: _Weights
    ) -> None:
        self.tokenizer, self.fingerprint, self.about = tokenizer, given.fingerprint, given.about
        self.density, self.calibration = options.density, options.calibration
        self._options, self._weights = options, weights

    @property
    def options(self) -> PhraseOptions:
        """The sizes of the network."""
        return self._options.phrases

    @property
    def quick_layers(self) -> tuple[int, int] | None:
        """The layers of the quick question encoder, shared with the document encoder and its own."""
        own = self._options.quick
        return None if own is None else (own.shared, own.layers)

    def weight(self, name: str, rows: slice | NDArray[np.integer] = _ALL) -> Floats:
        """A weight in float32, or some rows of it."""
        values, scales = self._weights[name][rows].astype(np.float32), self._weights.get(name + _SCALE)
        return values if scales is None else values * scales.reshape(-1, 1)[rows]

    @cached_property
    def _modules(self) -> "tuple[PhraseNetwork, QuickQuestions | None]":
        import torch

        from attar.nn import PhraseNetwork, QuickQuestions
        from attar.reader.files import without_initialization

        # On no device: random initialization would take time and change the caller's random state.
        with without_initialization():
            network = PhraseNetwork(self.options, device="meta")
            quick = None
            if self.quick_layers is not None:
                quick = QuickQuestions(self.options, *self.quick_layers, device="meta")
        for part, module in (("network.", network), ("quick.", quick)):
            if module is not None:
                names = [
                    name for name in self._weights if name.startswith(part) and not name.endswith(_SCALE)
                ]
                state = {name.removeprefix(part): torch.from_numpy(self.weight(name)) for name in names}
                module.load_state_dict(state, assign=True)
                module.eval()
        return network, quick

    @property
    def network(self) -> "PhraseNetwork":  # type: ignore[override]
        """The network, with torch."""
        return self._modules[0]

    @property
    def quick(self) -> "QuickQuestions | None":  # type: ignore[override]
        """The quick question encoder, with torch."""
        return self._modules[1]


def save_phrase_reader(
    path: str | Path,
    network: "PhraseNetwork",
    quick: "QuickQuestions | None",
    tokenizer: bytes,
    about: dict[str, Any] | None = None,
    *,
    density: float = 0.4,
    calibration: tuple[float, float] = (1.0, 0.0),
) -> str:
    """Write a phrase reader's folder and return its fingerprint."""
    state = {f"network.{name}": value for name, value in network.state_dict().items()}
    options: dict[str, Any] = {"phrases": asdict(network.options), "density": density}
    options["calibration"] = list(calibration)
    if quick is not None:
        state |= {f"quick.{name}": value for name, value in quick.state_dict().items()}
        options["quick"] = {"shared": quick.shared, "layers": len(quick.layers.layers)}
    weights = _to_int8(state)
    digest = fingerprint_of(options, tokenizer, weights)
    config = PhraseConfig(_FORMAT, "phrases", digest, options, about or {})
    write_folder(Path(path), msgspec.to_builtins(config), tokenizer, weights)
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
        if asdict(options.phrases) != given.network["phrases"]:
            raise msgspec.ValidationError(f"other options than {', '.join(asdict(options.phrases))}")
    except msgspec.DecodeError as fault:
        raise _unlike(folder / "config.json", "a phrase reader's config", fault) from fault
    tokenizer = read_file(folder / "tokenizer.json")
    pieces = PieceTokenizer(tokenizer, str(folder / "tokenizer.json"))
    file = folder / "weights.safetensors"
    try:
        weights = safetensors.numpy.load(read_file(file))
    except (KeyError, TypeError, ValueError, SafetensorError) as fault:
        raise _unlike(file, "this reader's weights", fault) from fault
    _check_sizes(folder / "config.json", options, weights)
    if len(pieces) > options.phrases.encoder.vocabulary:
        expected = f"at most the network's {options.phrases.encoder.vocabulary} pieces"
        raise FormatError(str(folder / "tokenizer.json"), expected, str(len(pieces)), again)
    if fingerprint_of(given.network, tokenizer, weights) != given.fingerprint:
        raise FormatError(str(folder), f"the reader {given.fingerprint[:12]}", "other files", again)
    _check_weights(file, weights)
    return LoadedPhrases(given, options, pieces, weights)


def _check_weights(file: Path, weights: _Weights) -> None:
    """Refuse matrices and scales that do not fit each other, and numbers that are not finite in float32."""
    again = "copy the whole folder again"
    for name, value in weights.items():
        if value.dtype.kind not in "fi":
            raise FormatError(f"{file}, {name}", "numbers", value.dtype.name, again)
        if name.endswith(_SCALE):
            matrix = weights.get(name.removesuffix(_SCALE))
            if matrix is None or value.shape not in ((len(matrix),), (len(matrix), 1)):
                raise FormatError(f"{file}, {name}", "one scale per row", str(list(value.shape)), again)
            value = value * np.float32(np.abs(matrix.astype(np.int16)).max(initial=0))
        if not np.isfinite(value.astype(np.float32)).all():
            raise FormatError(str(file), "finite weights", "infinite ones or NaN", again)


def _check_sizes(config: Path, options: _Network, weights: _Weights) -> None:
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
        f"{_POSITIONS} positions or more": shape.positions >= _POSITIONS,
        f"at most {_VOCABULARY} word pieces": shape.vocabulary <= _VOCABULARY,
        "word overlap of static vectors": phrases.match == "static",
        "a finite calibration": all(map(math.isfinite, options.calibration)),
    }
    for expected, is_so in sound.items():
        if not is_so:
            raise FormatError(str(config), expected, "others", again)
    sizes = _sizes(options)
    given = (name for name in weights if name not in sizes and name.removesuffix(_SCALE) not in sizes)
    for name in (*sizes, *given):
        came = list(weights[name].shape) if name in weights else "none"
        if came != sizes.get(name):
            raise FormatError(f"{config}, {name}", str(came), str(sizes.get(name, "none")), again)


def _sizes(options: _Network) -> dict[str, list[int]]:
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
    for at in range(shape.layers):
        sizes |= layer(f"{_LAYERS}{at}")
    if options.quick is not None:
        sizes |= heads("quick")
        for at in range(options.quick.layers):
            sizes |= layer(f"{_QUICK_LAYERS}{at}")
    return sizes


def _count(weights: _Weights, prefix: str) -> int:
    """How many layers have weights."""
    numbers = (re.match(re.escape(prefix) + r"(\d+)\.", name) for name in weights)
    return len({found[1] for found in numbers if found})


def _unlike(file: Path, expected: str, fault: Exception) -> FormatError:
    reason = " ".join(str(fault).split()) or type(fault).__name__
    return FormatError(str(file), expected, f"another file ({reason[:200]})")


def _to_int8(state: dict[str, "Tensor"]) -> dict[str, "Tensor"]:
    """Matrices in int8 with one scale per row, vectors in float16."""
    import torch

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
