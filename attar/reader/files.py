"""A reader on disk: a folder with `config.json`, `tokenizer.json` and `weights.safetensors`; no pickle."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import msgspec
import safetensors.torch
import torch
from safetensors import SafetensorError

from attar.errors import AttarError, FormatError, OptionError, quoted, writing_to
from attar.files import atomic_file
from attar.nn.network import Network
from attar.nn.network_options import NetworkOptions
from attar.nn.transformer import without_initialization
from attar.reader.folders import fingerprint_of, open_file, read_file
from attar.text.vocabulary import Vocabulary

_FORMAT = 1
_CONFIG, _TOKENIZER, _WEIGHTS = "config.json", "tokenizer.json", "weights.safetensors"
READER_FILES = (_CONFIG, _TOKENIZER, _WEIGHTS)
Precision = Literal["float32", "float16"]


class _Config(msgspec.Struct):
    """The fields of `config.json`; `network` is checked by `NetworkOptions.from_json`."""

    fingerprint: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
    network: dict[str, Any]
    about: dict[str, Any]


class _Format(msgspec.Struct):
    """Read first: a newer format may have other fields."""

    format: Annotated[int, msgspec.Meta(ge=1)]


class _TensorInfo(msgspec.Struct):
    """What the header of `weights.safetensors` says of a tensor."""

    dtype: str
    shape: list[Annotated[int, msgspec.Meta(ge=0)]]


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
        raise OptionError.expected("precision", " or ".join(get_args(Precision)), repr(precision))
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
    config = _read_config(folder)
    tokenizer = read_file(folder / _TOKENIZER)
    vocabulary = Vocabulary.from_bytes(tokenizer, str(folder / _TOKENIZER))
    try:
        # Without memory, and without random initialization, which would change the caller's random state.
        with without_initialization(), torch.device("meta"):
            network = Network(NetworkOptions.from_json(config.network))
    except (OptionError, RuntimeError, OverflowError) as fault:
        raise _unlike(folder / _CONFIG, "a reader's config", fault) from fault
    options = network.options
    if (len(vocabulary), vocabulary.entities) != (options.words, options.entities):
        expected = f"{options.words} tokens, {options.entities} of them names"
        came = f"{len(vocabulary)} and {vocabulary.entities}"
        raise FormatError.expected(str(folder / _TOKENIZER), expected, came, "copy the whole folder again")
    try:
        _check_header(folder / _WEIGHTS, network.state_dict())
        weights = safetensors.torch.load(read_file(folder / _WEIGHTS))
        if fingerprint_of(config.network, tokenizer, weights) != config.fingerprint:
            remedy = "copy the whole folder again"
            raise FormatError.expected(
                str(folder), f"the reader {config.fingerprint[:12]}", "other files", remedy
            )
        floats = {name: value.float() for name, value in weights.items()}
        if not all(bool(value.isfinite().all()) for value in floats.values()):
            remedy = "train it again, with a lower --lr"
            raise FormatError.expected(
                str(folder / _WEIGHTS), "finite weights", "infinite ones or NaN", remedy
            )
        network.load_state_dict(floats, assign=True)
    except (SafetensorError, RuntimeError, TypeError) as fault:
        raise _unlike(folder / _WEIGHTS, "this reader's weights", fault) from fault
    return SavedReader(network.eval(), vocabulary, config.fingerprint, config.about)


def _read_config(folder: Path) -> _Config:
    written = read_file(folder / _CONFIG)
    try:
        config = json.loads(written)  # not msgspec's, which refuses NaN: a history may have it
        newer = msgspec.convert(config, _Format).format
        if newer > _FORMAT:
            remedy = "install a newer attar"
            raise FormatError.expected(str(folder), f"format {_FORMAT} or older", str(newer), remedy)
        return msgspec.convert(config, _Config)
    except FormatError:
        raise
    except (ValueError, RecursionError) as fault:
        raise _unlike(folder / _CONFIG, "a reader's config", fault) from fault


def _check_header(file: Path, network: dict[str, torch.Tensor]) -> None:
    """Refuse weights that are not this network's, by the names, types and shapes in the file's first bytes."""
    with open_file(file) as opened:
        length = int.from_bytes(opened.read(8), "little")
        if length > file.stat().st_size:
            raise FormatError.expected(str(file), "this reader's weights", "a part of them, or another file")
        header = opened.read(length)
    try:
        infos = msgspec.json.decode(header, type=dict[str, msgspec.Raw])
        infos.pop("__metadata__", None)
        found = {name: msgspec.json.decode(info, type=_TensorInfo) for name, info in infos.items()}
    except (ValueError, RecursionError) as fault:
        raise _unlike(file, "this reader's weights", fault) from fault
    for name in sorted(found.keys() | network.keys()):
        expected = f"{list(network[name].shape)} in F32 or F16" if name in network else "no such weight"
        info = found.get(name)
        came = "none" if info is None else f"{info.shape} in {info.dtype}"
        if info is None or name not in network or _other(info, network[name]):
            raise FormatError.expected(
                f"{file}, {quoted(name)}", expected, came[:200], "copy the whole folder again"
            )


def _other(info: _TensorInfo, expected: torch.Tensor) -> bool:
    return info.shape != list(expected.shape) or info.dtype not in ("F32", "F16")


def _unlike(file: Path, expected: str, fault: Exception) -> FormatError:
    reason = (str(fault).splitlines() or [type(fault).__name__])[0]
    return FormatError.expected(str(file), expected, f"another file ({reason[:200]})")


def _write(file: Path, data: bytes) -> None:
    try:
        with atomic_file(file) as partial:
            partial.write_bytes(data)
    except OSError as fault:
        raise AttarError.expected(
            str(file), "a file that can be written", fault.strerror or str(fault)
        ) from fault
