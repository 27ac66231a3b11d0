"""The files of a reader's folder: reading, writing, and the fingerprint of their contents. No torch is loaded."""

import hashlib
import json
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from attar.errors import AttarError, FormatError, writing_to
from attar.files import atomic_file

if TYPE_CHECKING:
    from torch import Tensor

CONFIG, TOKENIZER, WEIGHTS = READER_FILES = ("config.json", "tokenizer.json", "weights.safetensors")


def write_folder(
    folder: Path, config: dict[str, Any], tokenizer: bytes, weights: dict[str, "Tensor"]
) -> None:
    """Write the files of a reader."""
    import safetensors.torch

    with writing_to(folder):
        folder.mkdir(parents=True, exist_ok=True)
        # The config is written last: a folder with a config is complete.
        (folder / CONFIG).unlink(missing_ok=True)
    _write(folder / TOKENIZER, tokenizer)
    _write(folder / WEIGHTS, safetensors.torch.save(weights))
    _write(folder / CONFIG, (json.dumps(config, indent=2) + "\n").encode())


def fingerprint_of(
    options: dict[str, Any], tokenizer: bytes, weights: "Mapping[str, Tensor | NDArray[Any]]"
) -> str:
    """A hash of options, words and weights, equal on all machines; a memory belongs to one fingerprint."""
    digest = hashlib.sha256(json.dumps(options, sort_keys=True).encode())
    digest.update(hashlib.sha256(tokenizer).digest())
    for name in sorted(weights):
        value = np.ascontiguousarray(weights[name])
        digest.update(f"{name} torch.{value.dtype} {list(weights[name].shape)}".encode())
        digest.update(value.tobytes())
    return digest.hexdigest()


def read_file(file: Path) -> bytes:
    """The bytes of a reader's file."""
    with opened_file(file) as opened:
        return opened.read()


@contextmanager
def opened_file(file: Path) -> Iterator[BinaryIO]:
    """A reader's file, open."""
    try:
        # A pipe or a device has no end.
        if not stat.S_ISREG(file.stat().st_mode):
            raise FormatError(str(file), "a reader's file", "no regular file", "check the path")
        with file.open("rb") as opened:
            yield opened
    except OSError as fault:
        came = fault.strerror or "an unreadable one"
        raise FormatError(str(file), "a reader's file", came, "check the path") from fault


def _write(file: Path, data: bytes) -> None:
    try:
        with atomic_file(file) as partial:
            partial.write_bytes(data)
    except OSError as fault:
        raise AttarError(str(file), "a file that can be written", fault.strerror or str(fault)) from fault
