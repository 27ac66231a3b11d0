"""A phrase reader on disk: `config.json`, `tokenizer.json` and `weights.safetensors` with matrices in int8."""

import json
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import safetensors.numpy
from numpy.typing import NDArray
from safetensors import SafetensorError

from attar.errors import FormatError, writing_to
from attar.files import atomic_file
from attar.memory.forms import Floats
from attar.options import PhraseOptions
from attar.reader.confidence import Calibration
from attar.reader.folders import fingerprint_of, read_file
from attar.reader.phrase_config import (
    SCALE,
    FixedSizeConfig,
    FormatNumber,
    NetworkConfig,
    PhraseConfig,
    Weights,
    check_sizes,
)
from attar.text.pieces import PieceTokenizer

if TYPE_CHECKING:
    from torch import Tensor

    from attar.nn.phrases import PhraseNetwork, QuickQuestions

_FORMAT, _ALL = 1, slice(None)


@dataclass
class SavedPhrases:
    """The contents of a phrase reader's folder."""

    network: "PhraseNetwork"
    quick: "QuickQuestions | None"
    tokenizer: PieceTokenizer
    fingerprint: str
    about: dict[str, Any]
    density: float  # phrases kept per word piece
    calibration: Calibration | None = None  # without it probabilities are a softmax of scores
    distinct: bool = False  # of phrases that are the same answer, only one is kept

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
        values: Floats = getattr(self, part).get_parameter(own).detach().float().cpu().numpy()[rows]
        return values


class LoadedPhrases(SavedPhrases):
    """A folder whose network is made when it is first needed: few of its weights are needed for a question."""

    def __init__(
        self, given: PhraseConfig, options: NetworkConfig, tokenizer: PieceTokenizer, weights: Weights
    ) -> None:
        self.tokenizer, self.fingerprint, self.about = tokenizer, given.fingerprint, given.about
        self.density, self.calibration = options.density, options.calibration
        self.distinct = options.distinct
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
        values, scales = self._weights[name][rows].astype(np.float32), self._weights.get(name + SCALE)
        return values if scales is None else values * scales.reshape(-1, 1)[rows]

    @cached_property
    def _modules(self) -> "tuple[PhraseNetwork, QuickQuestions | None]":
        import torch

        from attar.nn.phrases import PhraseNetwork, QuickQuestions
        from attar.nn.transformer import without_initialization

        # On no device: random initialization would take time and change the caller's random state.
        with without_initialization():
            network = PhraseNetwork(self.options, device="meta")
            quick = None
            if self.quick_layers is not None:
                quick = QuickQuestions(self.options, *self.quick_layers, device="meta")
        for part, module in (("network.", network), ("quick.", quick)):
            if module is not None:
                names = [name for name in self._weights if name.startswith(part) and not name.endswith(SCALE)]
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
    calibration: Calibration | None = None,
    distinct: bool = False,
) -> str:
    """Write a phrase reader's folder and return its fingerprint."""
    state = {f"network.{name}": value for name, value in network.state_dict().items()}
    options: dict[str, Any] = {"phrases": asdict(network.options), "density": density}
    if calibration is not None:
        options["calibration"] = msgspec.to_builtins(calibration)
    if distinct:
        options["distinct"] = True
    if quick is not None:
        state |= {f"quick.{name}": value for name, value in quick.state_dict().items()}
        options["quick"] = {"shared": quick.shared, "layers": len(quick.layers.layers)}
    weights = _to_int8(state)
    digest = fingerprint_of(options, tokenizer, weights)
    config = PhraseConfig(_FORMAT, "phrases", digest, options, about or {})
    write_folder(Path(path), msgspec.to_builtins(config), tokenizer, weights)
    return digest


def write_folder(
    folder: Path, config: dict[str, Any], tokenizer: bytes, weights: dict[str, "Tensor"]
) -> None:
    """Write the files of a reader."""
    import safetensors.torch

    with writing_to(folder):
        folder.mkdir(parents=True, exist_ok=True)
        # The config is written last: a folder with a config is complete.
        (folder / "config.json").unlink(missing_ok=True)
        files = {
            "tokenizer.json": tokenizer,
            "weights.safetensors": safetensors.torch.save(weights),
            "config.json": (json.dumps(config, indent=2) + "\n").encode(),
        }
        for name, data in files.items():
            with atomic_file(folder / name) as partial:
                partial.write_bytes(data)


def with_calibration(
    source: str | Path, folder: str | Path, calibration: Calibration, about: dict[str, Any]
) -> str:
    """Write a phrase reader's folder again with another calibration; its weights stay as they are."""
    import safetensors.torch

    source = Path(source)
    written = read_file(source / "config.json")
    if msgspec.json.decode(written, type=FormatNumber).kind == "fixed size":  # only the config is its own
        variant = msgspec.json.decode(written, type=FixedSizeConfig)
        variant.calibration = calibration
        Path(folder).mkdir(parents=True, exist_ok=True)
        with atomic_file(Path(folder) / "config.json") as partial:
            partial.write_bytes(msgspec.json.format(msgspec.json.encode(variant)) + b"\n")
        return variant.fingerprint
    config = msgspec.json.decode(written, type=PhraseConfig)
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
        newer = msgspec.json.decode(config, type=FormatNumber).format
        if newer > _FORMAT:
            remedy = "install a newer attar"
            raise FormatError.expected(str(folder), f"format {_FORMAT} or older", str(newer), remedy)
        given = msgspec.json.decode(config, type=PhraseConfig)
        options = msgspec.convert(given.network, NetworkConfig)
        # Readers without memories of fixed size need not say so.
        if asdict(options.phrases) != {"values": 0, **given.network["phrases"]}:
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
    check_sizes(folder / "config.json", options, weights)
    if len(pieces) > options.phrases.encoder.vocabulary:
        expected = f"at most the network's {options.phrases.encoder.vocabulary} pieces"
        raise FormatError.expected(str(folder / "tokenizer.json"), expected, str(len(pieces)), again)
    if fingerprint_of(given.network, tokenizer, weights) != given.fingerprint:
        raise FormatError.expected(str(folder), f"the reader {given.fingerprint[:12]}", "other files", again)
    _check_weights(file, weights)
    return LoadedPhrases(given, options, pieces, weights)


def _check_weights(file: Path, weights: Weights) -> None:
    """Refuse matrices and scales that do not fit each other, and numbers that are not finite in float32."""
    again = "copy the whole folder again"
    for name, value in weights.items():
        if value.dtype.kind not in "fi":
            raise FormatError.expected(f"{file}, {name}", "numbers", value.dtype.name, again)
        if name.endswith(SCALE):
            matrix = weights.get(name.removesuffix(SCALE))
            if matrix is None or value.shape not in ((len(matrix),), (len(matrix), 1)):
                raise FormatError.expected(
                    f"{file}, {name}", "one scale per row", str(list(value.shape)), again
                )
            value = value * np.float32(np.abs(matrix.astype(np.int16)).max(initial=0))
        if not np.isfinite(value.astype(np.float32)).all():
            raise FormatError.expected(str(file), "finite weights", "infinite ones or NaN", again)


def _unlike(file: Path, expected: str, fault: Exception) -> FormatError:
    reason = " ".join(str(fault).split()) or type(fault).__name__
    return FormatError.expected(str(file), expected, f"another file ({reason[:200]})")


def _to_int8(state: dict[str, "Tensor"]) -> dict[str, "Tensor"]:
    """Matrices in int8 with one scale per row, vectors in float16."""
    import torch

    weights = {}
    for name, value in state.items():
        value = value.detach().float().cpu()
        if value.ndim == 2 and value.shape[0] > 8:
            scales = value.abs().amax(1).clamp(min=1e-12) / 127
            weights[name] = (value / scales[:, None]).round().to(torch.int8)
            weights[name + SCALE] = scales
        else:
            weights[name] = value.half()
    return weights
