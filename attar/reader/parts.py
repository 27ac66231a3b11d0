"""What a reader is made of: config, tokenizer and weights, and their folder.

`config.json`, `tokenizer.json` and `weights.safetensors`; no pickle. A memory belongs to the fingerprint of all three.
A second look has a file of its own, `second_look.safetensors`, which is read with the first question that needs it.
Matrices are in int8 with one scale per row under the same name and `.scale`, vectors in float16.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import numpy as np
import safetensors.numpy
from numpy.typing import NDArray
from safetensors import SafetensorError

from attar.errors import FormatError, writing_to
from attar.files import atomic_file
from attar.memory.memory import Floats
from attar.options import LONGEST, PhraseOptions
from attar.reader.folders import (
    DEFAULT,
    FORMAT,
    Calibration,
    FixedSizeConfig,
    LookConfig,
    NetworkConfig,
    QuickConfig,
    ReaderConfig,
    ReaderFolder,
    foreign_file,
    read_file,
    shipped_folder,
)
from attar.reader.windows import PieceTokenizer

if TYPE_CHECKING:
    from torch import Tensor

    from attar.nn.phrases import PhraseNetwork, QuickQuestions
    from attar.nn.spans import SpanNetwork

    Network = TypeVar("Network", PhraseNetwork, QuickQuestions, SpanNetwork)

Weights = dict[str, NDArray[Any]]
SCALE = ".scale"
TEXT_LAYERS = "network.encoder.layers.layers"
QUICK_LAYERS = "quick.layers.layers"
LOOK_LAYERS = "look.encoder.layers.layers"
# A second look shares them with its reader.
_WORDS = "encoder.words.weight"
# A reader with the default's files has a config alone.
_LOOK = "second_look.safetensors"
READER_FILES = ("config.json", "tokenizer.json", "weights.safetensors", _LOOK)
_AGAIN = "copy the whole folder again"
_ALL = slice(None)


class ReaderParts:
    """A reader's config, tokenizer and weights. Its networks are made when they are first needed: they need torch."""

    def __init__(
        self,
        config: ReaderConfig,
        tokenizer: PieceTokenizer,
        weights: Weights,
        look: Weights | Path | None = None,
    ) -> None:
        """`look` are the weights of a second look, or their file."""
        self.config, self.tokenizer, self.weights, self._look = config, tokenizer, weights, look
        self._network: PhraseNetwork | None = None

    @classmethod
    def of(
        cls,
        network: "PhraseNetwork",
        quick: "QuickQuestions | None",
        tokenizer: bytes,
        about: dict[str, Any] | None = None,
        *,
        density: float = 0.4,
        calibration: Calibration | None = None,
        distinct: bool = False,
    ) -> "ReaderParts":
        """The parts of networks, whose weights are rounded as they are kept on disk."""
        state = {f"network.{name}": value for name, value in network.state_dict().items()}
        layers = None
        if quick is not None:
            state |= {f"quick.{name}": value for name, value in quick.state_dict().items()}
            layers = QuickConfig(quick.shared, len(quick.layers.layers))
        options = NetworkConfig(network.options, density, calibration, distinct, layers)
        weights = to_int8(state)
        fingerprint = fingerprint_of(options, tokenizer, weights)
        return cls(
            ReaderConfig(FORMAT, fingerprint, options, about or {}), PieceTokenizer(tokenizer), weights
        )

    @property
    def options(self) -> PhraseOptions:
        return self.config.network.phrases

    def with_networks(
        self, network: "PhraseNetwork", quick: "QuickQuestions | None", about: dict[str, Any]
    ) -> "ReaderParts":
        """The same with other networks; the second look stays, for which the word vectors must be the same."""
        config, tokenizer = self.config.network, self.tokenizer.data
        made = ReaderParts.of(
            network, quick, tokenizer, about, density=config.density, calibration=config.calibration,
            distinct=config.distinct,
        )  # fmt: skip
        kept = msgspec.structs.replace(made.config, look=self.config.look)
        return ReaderParts(kept, made.tokenizer, made.weights, self._look)

    def recalibrated(
        self, calibration: Calibration | None, look: Calibration | None, about: dict[str, Any] | None = None
    ) -> "ReaderParts":
        """The same with other calibrations, if given: another one of the reader is another fingerprint."""
        network, second = self.config.network, self.config.look
        if calibration is not None:
            network = msgspec.structs.replace(network, calibration=calibration)
        if look is not None and second is not None:
            second = msgspec.structs.replace(second, calibration=look)
        fingerprint = fingerprint_of(network, self.tokenizer.data, self.weights)
        config = ReaderConfig(FORMAT, fingerprint, network, self.config.about | (about or {}), second)
        return ReaderParts(config, self.tokenizer, self.weights, self._look)

    def with_second_look(self, network: "SpanNetwork", about: dict[str, Any] | None = None) -> "ReaderParts":
        """The same with another second look, whose word vectors are the reader's; its calibration stays."""
        state = network.state_dict()
        weights = to_int8({f"look.{name}": value for name, value in state.items() if "words" not in name})
        digest = hashlib.sha256(safetensors.numpy.save(weights)).hexdigest()
        known = None if self.config.look is None else self.config.look.calibration
        look = LookConfig(digest, network.encoder.shape.layers, known)
        config = msgspec.structs.replace(self.config, look=look, about=self.config.about | (about or {}))
        return ReaderParts(config, self.tokenizer, self.weights, weights)

    def look_weights(self) -> Weights | None:
        """The weights of the second look, if there is one."""
        if not isinstance(self._look, Path):
            return self._look
        if self.config.look is None:
            return None
        data = read_file(self._look)
        if hashlib.sha256(data).hexdigest() != self.config.look.digest:
            raise FormatError(f"{self._look} is not the file of this reader", _AGAIN)
        layers = self.config.look.layers
        return _checked_weights(self._look, data, layers, lambda: look_shapes(self.options, layers))

    def weight(self, name: str, rows: slice | NDArray[np.integer] = _ALL) -> Floats:
        """A weight in float32, or some rows of it."""
        return to_floats(self.weights, name, rows)

    def network(self) -> "PhraseNetwork":
        """The network that reads texts, in float32; always the same one."""
        from attar.nn.phrases import PhraseNetwork

        if self._network is None:
            self._network = _loaded(
                "network.", self.weights, lambda: PhraseNetwork(self.options, device="meta")
            )
        return self._network

    def quick(self) -> "QuickQuestions | None":
        """The quick question encoder for training, in float32; a reader encodes questions without torch."""
        from attar.nn.phrases import QuickQuestions

        layers = self.config.network.quick
        if layers is None:
            return None
        sizes = layers.shared, layers.layers
        return _loaded("quick.", self.weights, lambda: QuickQuestions(self.options, *sizes, device="meta"))

    def look(self) -> "SpanNetwork | None":
        """The network of the second look in float32, for training or a device, if there is one."""
        from attar.nn.spans import SpanNetwork
        from attar.nn.transformer import Transformer

        weights, config = self.look_weights(), self.config.look
        if weights is None or config is None:
            return None
        shape = replace(self.options.encoder, layers=config.layers)
        words = {f"look.{_WORDS}{kind}": self.weights.get(f"network.{_WORDS}{kind}") for kind in ("", SCALE)}
        shared = {name: value for name, value in words.items() if value is not None}
        return _loaded("look.", weights | shared, lambda: SpanNetwork(Transformer(shape, device="meta")))

    def save(self, path: str | Path) -> str:
        """Write a reader's folder and return its fingerprint."""
        folder, look = Path(path), self.look_weights()
        with writing_to(folder):
            folder.mkdir(parents=True, exist_ok=True)
            # The config is written last: a folder with a config is complete.
            (folder / "config.json").unlink(missing_ok=True)
            for name, data in (
                ("tokenizer.json", self.tokenizer.data),
                ("weights.safetensors", safetensors.numpy.save(self.weights)),
                *([] if look is None else [(_LOOK, safetensors.numpy.save(look))]),
            ):
                with atomic_file(folder / name) as partial:
                    partial.write_bytes(data)
        _write_config(folder, self.config)
        return self.config.fingerprint


def _loaded(part: str, weights: Weights, make: "Callable[[], Network]") -> "Network":
    """A module with its weights, whose names begin with `part`."""
    import torch

    from attar.nn.transformer import without_initialization

    # On no device: random initialization would take time and change the caller's random state.
    with without_initialization():
        module = make()
    names = [name for name in weights if name.startswith(part) and not name.endswith(SCALE)]
    state = {name.removeprefix(part): torch.from_numpy(to_floats(weights, name)) for name in names}
    module.load_state_dict(state, assign=True)
    return module.eval()


def load_parts(folder: ReaderFolder) -> ReaderParts:
    """Load a reader's files, and check that they belong together."""
    config = folder.config
    if isinstance(config, FixedSizeConfig):
        return _load_fixed_size(folder, config)
    data = read_file(folder.path / "tokenizer.json")
    tokenizer = PieceTokenizer(data, str(folder.path / "tokenizer.json"))
    file, network = folder.path / "weights.safetensors", config.network
    layers = network.phrases.encoder.layers + (0 if network.quick is None else network.quick.layers)
    weights = _checked_weights(file, read_file(file), layers, lambda: weight_shapes(network))
    pieces = network.phrases.encoder.vocabulary
    if len(tokenizer) > pieces:
        raise FormatError(
            f"{folder.path}: the tokenizer has more than the network's {pieces:,} pieces", _AGAIN
        )
    if fingerprint_of(network, data, weights) != config.fingerprint:
        raise FormatError(f"{folder.path}: the files are not those of one reader", _AGAIN)
    return ReaderParts(config, tokenizer, weights, folder.path / _LOOK)


def _load_fixed_size(folder: ReaderFolder, config: FixedSizeConfig) -> ReaderParts:
    """The default reader's parts with another calibration, under a fingerprint of their own."""
    parts = load_parts(shipped_folder(DEFAULT))
    fingerprint = hashlib.sha256(f"{parts.config.fingerprint} fixed size".encode()).hexdigest()
    if config.fingerprint != fingerprint:
        raise FormatError(f"{folder.path}: it was made of another default reader", "install attar again")
    network = msgspec.structs.replace(parts.config.network, calibration=config.calibration)
    look = parts.config.look
    if look is not None and config.look is not None:
        look = LookConfig(look.digest, look.layers, config.look)
    changed = msgspec.structs.replace(parts.config, fingerprint=fingerprint, network=network, look=look)
    return ReaderParts(changed, parts.tokenizer, parts.weights, shipped_folder(DEFAULT).path / _LOOK)


def recalibrate(
    source: ReaderFolder,
    path: str | Path,
    calibration: Calibration,
    about: dict[str, Any],
    look: Calibration | None = None,
) -> None:
    """Write a reader's folder again with other calibrations; its weights stay as they are."""
    if isinstance(source.config, FixedSizeConfig):  # only the config is its own
        _write_config(Path(path), msgspec.structs.replace(source.config, calibration=calibration, look=look))
        return
    load_parts(source).recalibrated(calibration, look, about).save(path)


def _write_config(folder: Path, config: ReaderConfig | FixedSizeConfig) -> None:
    with writing_to(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with atomic_file(folder / "config.json") as partial:
            partial.write_bytes(msgspec.json.format(msgspec.json.encode(config)) + b"\n")


Shapes = dict[str, tuple[int, ...]]
# The largest weight of a row is 127 times its scale.
_LARGEST_SCALE = np.finfo(np.float32).max / 128
# The shapes of a module's weight and bias, or of a parameter of its own, by the letters of `_shapes`.
_EMBEDDINGS = {"encoder.positions.": "pd", "encoder.types.": "2d", "encoder.norm.": "d d"}
_LAYER = {"self_attn.in_proj_": "td t", "self_attn.out_proj.": "dd d", "linear1.": "fd f", "linear2.": "df d"}
_LAYER |= {"norm1.": "d d", "norm2.": "d d"}
_TEXTS = _EMBEDDINGS | {"encoder.words.": "vd", "first.": "kd k", "last.": "kd", "prior.": "2d 2"}
_TEXTS |= {"word.": "wd", "length_prior": "l", "neighbours": "2"}
_QUESTIONS = {"query.": "kd k", "null.": "1d 1", "weight.": "1d 1"}
_RIDGE = {"ridge.query.": "kk k", "ridge.value.": "rd", "ridge.sharpness": "1"}
_SPANS = _EMBEDDINGS | {"ends.": "2d 2", "present.": "1d 1"}


def weight_shapes(config: NetworkConfig) -> Shapes:
    """The shape of every weight of a reader; `PhraseNetwork` has the same, but needs torch."""
    parts = {"network": _TEXTS | _QUESTIONS | (_RIDGE if config.phrases.values else {})}
    parts |= {f"{TEXT_LAYERS}.{at}": _LAYER for at in range(config.phrases.encoder.layers)}
    if config.quick is not None:
        parts["quick"] = _QUESTIONS
        parts |= {f"{QUICK_LAYERS}.{at}": _LAYER for at in range(config.quick.layers)}
    return _shapes(parts, config.phrases)


def look_shapes(options: PhraseOptions, layers: int) -> Shapes:
    """The shape of every weight of a second look; its word vectors are its reader's."""
    parts = {"look": _SPANS} | {f"{LOOK_LAYERS}.{at}": _LAYER for at in range(layers)}
    return _shapes(parts, options)


def _shapes(parts: dict[str, dict[str, str]], options: PhraseOptions) -> Shapes:
    encoder = options.encoder
    sizes = {"v": encoder.vocabulary, "p": encoder.positions, "d": encoder.size, "f": encoder.feedforward}
    sizes |= {"k": options.size, "w": options.word_size, "l": LONGEST, "r": options.values, "1": 1, "2": 2}
    sizes["t"] = 3 * encoder.size  # queries, keys and values
    shapes: Shapes = {}
    for part, table in parts.items():
        for name, letters in table.items():
            is_module = name.endswith((".", "_"))
            for kind, shape in zip(("weight", "bias") if is_module else ("",), letters.split(), strict=False):
                shapes[f"{part}.{name}{kind}"] = tuple(sizes[letter] for letter in shape)
    return shapes


def _checked_weights(file: Path, data: bytes, layers: int, shapes_of: Callable[[], Shapes]) -> Weights:
    """The weights in a file; other names, shapes and types than the config's are refused, and infinite numbers."""
    try:
        weights = safetensors.numpy.load(data)
    except (KeyError, TypeError, ValueError, SafetensorError) as fault:
        raise foreign_file(file, fault) from fault
    if layers > len(weights):  # the config may claim any number
        raise FormatError(f"{file} has fewer layers than its config says", _AGAIN)
    shapes = shapes_of()
    for name in sorted(weights):
        value, shape = weights[name], shapes.pop(name, None)
        expected = f"finite weights {shape}"
        if name.endswith(SCALE):
            expected = "finite scales, one per row"
            matrix = weights.get(name.removesuffix(SCALE))
            is_sound = matrix is not None and value.shape in ((len(matrix),), (len(matrix), 1))
            is_sound &= value.dtype == np.float32 and bool((np.abs(value) < _LARGEST_SCALE).all())
        else:
            is_sound = value.shape == shape and value.dtype in (np.int8, np.float16, np.float32)
            is_sound &= value.dtype == np.int8 or bool(np.isfinite(value).all())
        if not is_sound:
            came = f"{value.dtype} {list(value.shape)}"
            raise FormatError.expected(f"{file}, {name[:80]!r}", expected, came, _AGAIN)
    if shapes:
        raise FormatError(f"{file} has no weights {min(shapes)!r}", _AGAIN)
    return weights


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


def to_floats(
    weights: Mapping[str, NDArray[Any]], name: str, rows: slice | NDArray[np.integer] = _ALL
) -> Floats:
    """A weight in float32, or some rows of it."""
    values, scales = weights[name][rows].astype(np.float32), weights.get(name + SCALE)
    return values if scales is None else values * scales.reshape(-1, 1)[rows]
