"""A phrase reader on disk: `config.json`, `tokenizer.json` and `weights.safetensors` with matrices in int8."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec
import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from attar.errors import FormatError
from attar.nn import PhraseNetwork, PhraseOptions, QuickQuestions, TransformerShape
from attar.reader.files import fingerprint_of, read_file, write_folder
from attar.text import PieceTokenizer

_SCALE = ".scale"


class PhraseConfig(msgspec.Struct, forbid_unknown_fields=True):
    """The config of a phrase reader."""

    format: int
    kind: str
    fingerprint: str
    network: dict[str, Any]
    about: dict[str, Any]


@dataclass
class SavedPhrases:
    """The contents of a phrase reader's folder."""

    network: PhraseNetwork
    quick: QuickQuestions | None
    tokenizer: PieceTokenizer
    fingerprint: str
    about: dict[str, Any]
    density: float  # phrases kept per word piece
    calibration: tuple[float, float]  # scale and bias of the log-odds of an answer


def save_phrase_reader(
    path: str | Path,
    network: PhraseNetwork,
    quick: QuickQuestions | None,
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
    config = PhraseConfig(2, "phrases", digest, options, about or {})
    write_folder(Path(path), msgspec.to_builtins(config), tokenizer, weights)
    return digest


def load_phrase_reader(folder: Path, config: bytes) -> SavedPhrases:
    """Load a phrase reader's folder, in float32."""
    try:
        given = msgspec.json.decode(config, type=PhraseConfig)
        options = given.network
        shape = TransformerShape(**options["phrases"].pop("encoder"))
        phrase_options = PhraseOptions(**options["phrases"], encoder=shape)
        scale, bias = map(float, options["calibration"])
        density = float(options["density"])
        tokenizer = read_file(folder / "tokenizer.json")
        weights = safetensors.torch.load(read_file(folder / "weights.safetensors"))
        options["phrases"]["encoder"] = asdict(shape)
        if fingerprint_of(options, tokenizer, weights) != given.fingerprint:
            remedy = "copy the whole folder again"
            raise FormatError(str(folder), f"the reader {given.fingerprint[:12]}", "other files", remedy)
        state = _from_int8(weights)
        # On no device: random initialization would take time and change the caller's random state.
        network = PhraseNetwork(phrase_options, device="meta")
        network.load_state_dict(_part(state, "network."), assign=True)
        quick = None
        if "quick" in options:
            quick = QuickQuestions(phrase_options, **options["quick"], device="meta")
            quick.load_state_dict(_part(state, "quick."), assign=True)
            quick.eval()
    except (msgspec.DecodeError, KeyError, TypeError, ValueError, RuntimeError, SafetensorError) as fault:
        came = f"another ({str(fault).splitlines()[0]})"
        raise FormatError(
            str(folder), "a phrase reader's files", came, "copy the whole folder again"
        ) from fault
    pieces = PieceTokenizer(tokenizer, str(folder / "tokenizer.json"))
    return SavedPhrases(network.eval(), quick, pieces, given.fingerprint, given.about, density, (scale, bias))


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
            state[name] = value.float() if scales is None else value.float() * scales[:, None]
    return state
