"""Which folder holds a reader, and whose fingerprint it has: without loading it, and without torch."""

import hashlib
import json
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from attar.errors import FormatError, ReaderMismatchError

if TYPE_CHECKING:
    from torch import Tensor

# The readers that ship with the package, by name (docs/reader.md): the default, and the same with memories of fixed
# size.
SHIPPED = Path(__file__).parent / "readers"
DEFAULT = "answers"
NAMES = (DEFAULT, "fixed")
READER_FILES = ("config.json", "tokenizer.json", "weights.safetensors")


def shipped_reader(fingerprint: str) -> str | None:
    """The name of the shipped reader with this fingerprint, if there is one."""
    for name in NAMES:
        folder = SHIPPED / name
        if (folder / "config.json").is_file() and read_fingerprint(folder) == fingerprint:
            return name
    return None


def reader_folder(path: str | Path | None) -> Path:
    """The folder of a reader: a path, or the name of a shipped one; None is the default."""
    name = DEFAULT if path is None else str(path)
    shipped = SHIPPED / name
    if name in NAMES and shipped.is_dir() and not Path(name).is_dir():
        return shipped
    if name not in NAMES and Path(name).name == name and not Path(name).exists():
        raise FormatError.expected(
            "reader", f"a folder, or one of {', '.join(NAMES)}", repr(name), "check the name"
        )
    return Path(name)


def fixed_size_fingerprint(base: str) -> str:
    """The fingerprint of a reader with the files of another and memories of fixed size."""
    return hashlib.sha256(f"{base} fixed size".encode()).hexdigest()


def read_fingerprint(path: str | Path | None) -> str:
    """The fingerprint that a reader's config states; loading the reader compares it with the weights."""
    config = reader_folder(path) / "config.json"
    written = read_file(config)
    try:
        return str(json.loads(written)["fingerprint"])
    except (ValueError, TypeError, KeyError, RecursionError) as fault:
        raise FormatError.expected(str(config), "a reader's config", f"another file ({fault})") from fault


def find_reader(
    what: str, path: str | Path | None, expected: str | None, *, moved: bool = False
) -> str | Path | None:
    """The path or name of the reader with the fingerprint `expected`: the given one, or a shipped one.

    `what` names the library in the error if there is none. With `moved`, the library has left its first reader for
    another since it was opened, and the given path is only one of two places to look.
    """
    if expected is None or (path is not None and read_fingerprint(path) == expected):
        return path
    shipped = shipped_reader(expected) if path is None or moved else None
    if shipped is None:
        own = shipped_reader(expected)
        came = (
            "none such in the package" if path is None else f"the reader {_known_as(read_fingerprint(path))}"
        )
        remedy = "give its folder (--reader DIR)" if own is None else "leave out --reader"
        remedy += ", or move the library to another reader with attar reread"
        raise ReaderMismatchError.expected(what, f"its reader {_known_as(expected)}", came, remedy)
    return shipped


def _known_as(fingerprint: str) -> str:
    """The name of a shipped reader, or the beginning of the fingerprint."""
    return shipped_reader(fingerprint) or fingerprint[:12]


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
    with open_file(file) as opened:
        return opened.read()


@contextmanager
def open_file(file: Path) -> Iterator[BinaryIO]:
    """Open a reader's file."""
    try:
        # A pipe or a device has no end.
        if not stat.S_ISREG(file.stat().st_mode):
            raise FormatError.expected(str(file), "a reader's file", "no regular file", "check the path")
        with file.open("rb") as opened:
            yield opened
    except OSError as fault:
        came = fault.strerror or "an unreadable one"
        raise FormatError.expected(str(file), "a reader's file", came, "check the path") from fault
