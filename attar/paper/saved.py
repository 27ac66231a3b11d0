"""A trained network on disk: a folder with `config.json`, `vocabulary.json` and `weights.safetensors`; no pickle."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec
import safetensors.torch
import torch
from safetensors import SafetensorError

from attar.errors import FormatError
from attar.files import AtomicFiles
from attar.paper.network import Network
from attar.paper.options import NetworkOptions
from attar.paper.vocabulary import VOCABULARY_FILE, Vocabulary

_CONFIG = "config.json"
_WEIGHTS = "weights.safetensors"
NETWORK_FILES = (_CONFIG, VOCABULARY_FILE, _WEIGHTS)


class _Config(msgspec.Struct):
    """The fields of `config.json`."""

    network: NetworkOptions
    about: dict[str, Any]
    format: Literal[1] = 1


@dataclass(frozen=True)
class SavedNetwork:
    """The contents of a network's folder; `about` says how it was trained."""

    network: Network
    vocabulary: Vocabulary
    about: dict[str, Any]


def save_network(folder: Path, network: Network, vocabulary: Vocabulary, about: dict[str, Any]) -> None:
    """Write a network's folder, all files or none."""
    config = msgspec.to_builtins(_Config(NetworkOptions(**network.options.network()), about))
    weights = {name: value.cpu().contiguous() for name, value in network.state_dict().items()}
    with AtomicFiles(folder) as files:
        files.path(VOCABULARY_FILE).write_bytes(vocabulary.to_bytes())
        files.path(_WEIGHTS).write_bytes(safetensors.torch.save(weights))
        files.path(_CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def load_network(folder: Path) -> SavedNetwork:
    """Load a network's folder; the error for a missing, damaged or foreign file names the file."""
    try:
        # Not msgspec's decoder, which refuses NaN: a history may have it.
        config = msgspec.convert(json.loads((folder / _CONFIG).read_bytes()), _Config)
    except OSError as fault:
        remedy = "train one with attar paper train"
        raise FormatError(f"{folder} is not a network's folder: it has no {_CONFIG}", remedy) from fault
    except (ValueError, RecursionError) as fault:
        raise _damaged(folder / _CONFIG, fault) from fault
    vocabulary = Vocabulary.load(folder / VOCABULARY_FILE)
    try:
        with torch.device("meta"):
            network = Network(config.network, len(vocabulary), vocabulary.entities)
        weights = safetensors.torch.load_file(folder / _WEIGHTS)
        network.load_state_dict(weights, assign=True)
        if not all(
            value.dtype == torch.float32 and bool(value.isfinite().all()) for value in weights.values()
        ):
            raise ValueError("weights that are not finite float32 numbers")
    except (OSError, SafetensorError, RuntimeError, ValueError) as fault:
        raise _damaged(folder / _WEIGHTS, fault) from fault
    return SavedNetwork(network.eval(), vocabulary, config.about)


def _damaged(file: Path, fault: Exception) -> FormatError:
    reason = (str(fault).splitlines() or [type(fault).__name__])[0][:200]
    return FormatError(f"{file} is damaged or of another network ({reason})", "copy the whole folder again")
