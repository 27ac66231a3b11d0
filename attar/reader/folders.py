"""Which folder holds a reader: a path, or one that ships with the package. Its config is read and parsed once."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from attar.errors import FormatError, ReaderMismatchError
from attar.reader.config import FixedSizeConfig, ReaderConfig, read_config

# The readers that ship with the package, by name: the default, and the same with memories of fixed size.
SHIPPED = Path(__file__).parent / "readers"
DEFAULT = "answers"
NAMES = (DEFAULT, "fixed")
READER_FILES = ("config.json", "tokenizer.json", "weights.safetensors")


@dataclass(frozen=True)
class ReaderFolder:
    """A reader's folder and its config; loading the reader compares the fingerprint with the weights."""

    path: Path
    config: ReaderConfig | FixedSizeConfig

    @classmethod
    def open(cls, path: str | Path | None) -> "ReaderFolder":
        """The folder at a path, or of a shipped reader by its name; None is the default."""
        name = DEFAULT if path is None else str(path)
        if name in NAMES and not Path(name).is_dir():
            return shipped_folder(name)
        if Path(name).name == name and not Path(name).exists():
            raise FormatError(f"there is no reader {name!r}", f"give a folder, or one of {', '.join(NAMES)}")
        return cls(Path(name), read_config(Path(name) / "config.json"))

    @property
    def fingerprint(self) -> str:
        return self.config.fingerprint


def shipped_folder(name: str) -> ReaderFolder:
    """The folder of a shipped reader."""
    return _opened(SHIPPED / name)


@cache
def _opened(path: Path) -> ReaderFolder:
    return ReaderFolder(path, read_config(path / "config.json"))


def shipped_reader(fingerprint: str) -> str | None:
    """The name of the shipped reader with this fingerprint, if there is one."""
    for name in NAMES:
        if shipped_folder(name).fingerprint == fingerprint:
            return name
    return None


def find_reader(
    what: str, given: ReaderFolder | None, expected: str | None, *, moved: bool = False
) -> ReaderFolder:
    """The folder of the reader with the fingerprint `expected`: the given one, or a shipped one.

    `what` names the library in the error if there is none. With `moved`, the library has left its first reader for
    another since it was opened, and the given folder is only one of two places to look.
    """
    if expected is None:
        return given or shipped_folder(DEFAULT)
    if given is not None and given.fingerprint == expected:
        return given
    shipped = shipped_reader(expected)
    if shipped is not None and (given is None or moved):
        return shipped_folder(shipped)
    if given is None:
        raise _mismatch(what, expected, "which is not in the package", "give its folder (--reader DIR)")
    came = f"not with {_known_as(given.fingerprint)}"
    remedy = "give its folder (--reader DIR)" if shipped is None else "leave out --reader"
    raise _mismatch(what, expected, came, remedy)


def _mismatch(what: str, expected: str, fault: str, remedy: str) -> ReaderMismatchError:
    sentence = f"{what} was made with the reader {_known_as(expected)}, {fault}"
    return ReaderMismatchError(sentence, f"{remedy}, or move the library to another reader with attar reread")


def _known_as(fingerprint: str) -> str:
    """The name of a shipped reader, or the beginning of the fingerprint."""
    return shipped_reader(fingerprint) or fingerprint[:12]
