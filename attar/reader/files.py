"""A reader on disk: a folder with `config.json`, `tokenizer.json` and `weights.safetensors`; no pickle."""

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import safetensors.torch
import torch
from safetensors import SafetensorError

from attar.errors import AttarError, FormatError, OptionError, writing_to
from attar.files import atomic_file
from attar.nn import Network, NetworkOptions
from attar.text import Vocabulary

_FORMAT = 1
_CONFIG, _TOKENIZER, _WEIGHTS = "config.json", "tokenizer.json", "weights.safetensors"
Precision = Literal["float32", "float16"]


@dataclass(frozen=True)
class SavedReader:
    """The contents of a reader's folder; `about` is free-form information on how it was made."""

    network: Network
    vocabulary: Vocabulary
    fingerprint: str
    about: dict[str, Any] = field(default_factory=dict)


def save_reader(
    path: str | Path,
    network: Network,
    vocabulary: Vocabulary,
    about: dict[str, Any] | None = None,
    precision: Precision = "float32",
) -> str:
    """Write a reader's folder and return its fingerprint."""
    if precision not in get_args(Precision):
        raise OptionError("precision", " or ".join(get_args(Precision)), repr(precision))
    folder, dtype = Path(path), getattr(torch, precision)
    weights = {
        name: (value.to(dtype) if value.is_floating_point() else value).cpu().contiguous()
        for name, value in network.state_dict().items()
    }
    options, tokenizer = network.options.to_json(), vocabulary.to_bytes()
    digest = fingerprint_of(options, tokenizer, weights)
    config = {"format": _FORMAT, "fingerprint": digest, "network": options, "about": about or {}}
    write_folder(folder, config, tokenizer, weights)
    return digest


def write_folder(
    folder: Path, config: dict[str, Any], tokenizer: bytes, weights: dict[str, torch.Tensor]
) -> None:
    """Write the files of a reader."""
    with writing_to(folder):
        folder.mkdir(parents=True, exist_ok=True)
        # The config is written last: a folder with a config is complete.
        (folder / _CONFIG).unlink(missing_ok=True)
    _write(folder / _TOKENIZER, tokenizer)
    _write(folder / _WEIGHTS, safetensors.torch.save(weights))
    _write(folder / _CONFIG, (json.dumps(config, indent=2) + "\n").encode())


def load_reader(path: str | Path) -> SavedReader:
    """Load a reader's folder, in float32; the error for a missing, damaged or foreign file names the file."""
    folder = Path(path)
    written = read_file(folder / _CONFIG)
    try:
        config = json.loads(written)
        newer = config["format"] > _FORMAT
        options, digest, about = config["network"], str(config["fingerprint"]), dict(config["about"])
    except (ValueError, KeyError, TypeError) as fault:
        raise FormatError(str(folder / _CONFIG), "a reader's config", f"another file ({fault})") from fault
    if newer:
        remedy = "install a newer attar"
        raise FormatError(str(folder), f"format {_FORMAT} or older", str(config["format"]), remedy)
    tokenizer = read_file(folder / _TOKENIZER)
    vocabulary = Vocabulary.from_bytes(tokenizer, str(folder / _TOKENIZER))
    try:
        weights = safetensors.torch.load(read_file(folder / _WEIGHTS))
        # Without random initialization, which would take time and change the caller's random state.
        with torch.device("meta"):
            network = Network(NetworkOptions.from_json(options))
        if fingerprint_of(options, tokenizer, weights) != digest:
            remedy = "copy the whole folder again"
            raise FormatError(str(folder), f"the reader {digest[:12]}", "other files", remedy)
        floats = {name: value.float() for name, value in weights.items() if value.is_floating_point()}
        network.load_state_dict(weights | floats, assign=True)
    except (SafetensorError, RuntimeError, TypeError) as fault:
        came = f"others ({str(fault).splitlines()[0]})"
        raise FormatError(str(folder / _WEIGHTS), "this reader's weights", came) from fault
    return SavedReader(network.eval(), vocabulary, digest, about)


def fingerprint_of(options: dict[str, Any], tokenizer: bytes, weights: dict[str, torch.Tensor]) -> str:
    """A hash of options, words and weights, equal on all machines; a memory belongs to one fingerprint."""
    digest = hashlib.sha256(json.dumps(options, sort_keys=True).encode())
    digest.update(hashlib.sha256(tokenizer).digest())
    for name in sorted(weights):
        value = weights[name]
        digest.update(f"{name} {value.dtype} {list(value.shape)}".encode())
        digest.update(value.contiguous().numpy().tobytes())
    return digest.hexdigest()


def read_file(file: Path) -> bytes:
    """The bytes of a reader's file."""
    try:
        return file.read_bytes()
    except OSError as fault:
        came = fault.strerror or "an unreadable one"
        raise FormatError(str(file), "a reader's file", came, "check the path") from fault


def _write(file: Path, data: bytes) -> None:
    try:
        with atomic_file(file) as partial:
            partial.write_bytes(data)
    except OSError as fault:
        raise AttarError(str(file), "a file that can be written", fault.strerror or str(fault)) from fault
