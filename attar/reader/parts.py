"""What a reader is made of: config, tokenizer and weights, and their folder.

`config.json`, `tokenizer.json` and `weights.safetensors`; no pickle. A memory belongs to the fingerprint of all three.
A second look has a file of its own, `second_look.safetensors`, which is read with the first question that needs it.
"""

import hashlib
from collections.abc import Callable
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
from attar.options import PhraseOptions
from attar.reader.confidence import Calibration, LookCalibration
from attar.reader.folders import (
    DEFAULT,
    FORMAT,
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
from attar.reader.weights import SCALE, Weights, check_weights, fingerprint_of, to_int8
from attar.text.pieces import PieceTokenizer

if TYPE_CHECKING:
    from attar.nn.phrases import PhraseNetwork, QuickQuestions
    from attar.nn.spans import SpanNetwork

    Network = TypeVar("Network", PhraseNetwork, QuickQuestions)

# A reader with the default's files has a config alone.
_LOOK = "second_look.safetensors"
READER_FILES = ("config.json", "tokenizer.json", "weights.safetensors", _LOOK)
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

    def recalibrated(self, calibration: Calibration, about: dict[str, Any]) -> "ReaderParts":
        """The same with another calibration, and so with another fingerprint."""
        options = msgspec.structs.replace(self.config.network, calibration=calibration)
        fingerprint = fingerprint_of(options, self.tokenizer.data, self.weights)
        config = ReaderConfig(FORMAT, fingerprint, options, self.config.about | about, self.config.look)
        return ReaderParts(config, self.tokenizer, self.weights, self._look)

    def with_second_look(
        self, network: "SpanNetwork | None" = None, calibration: LookCalibration | None = None
    ) -> "ReaderParts":
        """The same with another second look, whose word vectors are the reader's; without a network, recalibrated."""
        weights, before = self.look_weights(), self.config.look
        layers = 0 if before is None else before.layers
        if network is not None:
            layers = network.encoder.shape.layers
            state = {
                f"look.{name}": value for name, value in network.state_dict().items() if "words" not in name
            }
            weights = to_int8(state)
        assert weights is not None  # only what there is can be calibrated
        digest = hashlib.sha256(safetensors.numpy.save(weights)).hexdigest()
        config = msgspec.structs.replace(self.config, look=LookConfig(digest, layers, calibration))
        return ReaderParts(config, self.tokenizer, self.weights, weights)

    def look_weights(self) -> Weights | None:
        """The weights of the second look, if there is one."""
        if self.config.look is None or not isinstance(self._look, Path):
            return self._look if not isinstance(self._look, Path) else None
        data = read_file(self._look)
        if hashlib.sha256(data).hexdigest() != self.config.look.digest:
            raise FormatError(f"{self._look} is not the file of this reader", "copy the whole folder again")
        weights = _loaded_weights(self._look, data)
        check_weights(self._look, self.config.network, weights, look_layers=self.config.look.layers)
        return weights

    def weight(self, name: str, rows: slice | NDArray[np.integer] = _ALL) -> Floats:
        """A weight in float32, or some rows of it."""
        values, scales = self.weights[name][rows].astype(np.float32), self.weights.get(name + SCALE)
        return values if scales is None else values * scales.reshape(-1, 1)[rows]

    def network(self) -> "PhraseNetwork":
        """The network that reads texts, in float32; always the same one."""
        from attar.nn.phrases import PhraseNetwork

        if self._network is None:
            self._network = self._loaded("network.", lambda: PhraseNetwork(self.options, device="meta"))
        return self._network

    def quick(self) -> "QuickQuestions | None":
        """The quick question encoder for training, in float32; a reader encodes questions without torch."""
        from attar.nn.phrases import QuickQuestions

        layers = self.config.network.quick
        if layers is None:
            return None
        sizes = layers.shared, layers.layers
        return self._loaded("quick.", lambda: QuickQuestions(self.options, *sizes, device="meta"))

    def _loaded(self, part: str, make: "Callable[[], Network]") -> "Network":
        """A module with its weights."""
        import torch

        from attar.nn.transformer import without_initialization

        # On no device: random initialization would take time and change the caller's random state.
        with without_initialization():
            module = make()
        names = [name for name in self.weights if name.startswith(part) and not name.endswith(SCALE)]
        state = {name.removeprefix(part): torch.from_numpy(self.weight(name)) for name in names}
        module.load_state_dict(state, assign=True)
        return module.eval()

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


def _loaded_weights(file: Path, data: bytes) -> Weights:
    try:
        return safetensors.numpy.load(data)
    except (KeyError, TypeError, ValueError, SafetensorError) as fault:
        raise foreign_file(file, fault) from fault


def load_parts(folder: ReaderFolder) -> ReaderParts:
    """Load a reader's files, and check that they belong together."""
    config, again = folder.config, "copy the whole folder again"
    if isinstance(config, FixedSizeConfig):
        return _load_fixed_size(folder, config)
    data = read_file(folder.path / "tokenizer.json")
    tokenizer = PieceTokenizer(data, str(folder.path / "tokenizer.json"))
    file = folder.path / "weights.safetensors"
    weights = _loaded_weights(file, read_file(file))
    check_weights(file, config.network, weights)
    pieces = config.network.phrases.encoder.vocabulary
    if len(tokenizer) > pieces:
        raise FormatError(
            f"{folder.path}: the tokenizer has more than the network's {pieces:,} pieces", again
        )
    if fingerprint_of(config.network, data, weights) != config.fingerprint:
        raise FormatError(f"{folder.path}: the files are not those of one reader", again)
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
    look: LookCalibration | None = None,
) -> None:
    """Write a reader's folder again with other calibrations; its weights stay as they are."""
    if isinstance(source.config, FixedSizeConfig):  # only the config is its own
        _write_config(Path(path), msgspec.structs.replace(source.config, calibration=calibration, look=look))
        return
    parts = load_parts(source).recalibrated(calibration, about)
    (parts if look is None else parts.with_second_look(None, look)).save(path)


def _write_config(folder: Path, config: ReaderConfig | FixedSizeConfig) -> None:
    with writing_to(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with atomic_file(folder / "config.json") as partial:
            partial.write_bytes(msgspec.json.format(msgspec.json.encode(config)) + b"\n")
