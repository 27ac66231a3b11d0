"""A reader's folder: its `config.json`, read and parsed once, and which folder it is: a path, or one of the package.

A library has the reader that it is given, or the one that made its store, found by its fingerprint.
"""

import math
import os
import stat
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import msgspec
import numpy as np

from attar.errors import FormatError, ReaderMismatchError
from attar.memory.memory import Floats
from attar.options import PhraseOptions

if TYPE_CHECKING:
    from attar.reader.reader import Reader

    GivenReader: TypeAlias = Reader | str | os.PathLike[str] | None

FORMAT: Literal[1] = 1
# A window has 318 pieces and two special tokens.
POSITIONS = 320
# A memory has 16 bits for the id of a piece.
_VOCABULARY = 2**16
_Fingerprint = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
# What a calibration has weights for: values of a question and its best phrase (`attar.reader.answers.features_of`).
FEATURES = (
    "bias",
    "log_odds",  # of the phrase, with those that overlap it, against all others and "not in this text"
    "margin",  # log-odds of all phrases against "not in this text"
    "lead",  # log-ratio to the second phrase
    "prior",  # of the phrase, before any question
    "unmatched",  # weight of the question's words that the sentence and its neighbours lack
    "unmatched_share",
    "largest_unmatched",  # the largest weight of a word that the sentence itself lacks
    "other_kind",  # the question wants a date, a number or a name, and the phrase is none
    "any_kind",  # it wants none of these
    "words",  # of the phrase
    "pieces",  # of the question
)
# The same for the best span of a second look (`attar.reader.answers.look_features`).
LOOK_FEATURES = (
    "bias",
    "span",  # logarithm of its probability among the pieces that were read
    "present",  # log-odds that the sentences have the answer
    "alone",  # only one sentence was read
    "share",  # logarithm of the probability of its sentence's likeliest phrase
    "other_kind",  # the question wants a date, a number or a name, and the span is none
    "any_kind",  # it wants none of these
    "words",  # of the span
)


class Calibration(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The weights of features for "right" and for "absent"; above `threshold`, "absent" is the answer.

    A score says which phrase fits best, not that any fits: "Who left in 1991?" matches "Ann left in 1919" well. A
    softmax over three outcomes (right, absent, another phrase) weighs the score with what the question has and the text
    lacks. Its weights are fitted to questions that the reader was not trained on (`attar train-questions`).

    `quote` are the weights for the sentence of the answer to be right, whichever of its words are; empty if not fitted.

    >>> rest = (0.0,) * (len(FEATURES) - 1)
    >>> Calibration((0.0, *rest), (0.0, *rest), 0.5).probabilities(np.ones(len(FEATURES), np.float32))
    (0.3333333333333333, 0.3333333333333333)
    """

    right: tuple[float, ...]
    absent: tuple[float, ...]
    threshold: float
    quote: tuple[float, ...] = ()

    def probabilities(self, features: Floats) -> tuple[float, float]:
        """That the best answer is right, and that the text has none; the rest is for other answers."""
        logits = np.array([np.dot(self.right, features), np.dot(self.absent, features), 0.0])
        values = np.exp(logits - logits.max())
        right, absent, _ = (values / values.sum()).tolist()
        return right, absent

    def quote_probability(self, features: Floats, right: float) -> float | None:
        """That the sentence of the best answer is right; at least as likely as the answer itself, `right`."""
        if not self.quote:
            return None
        return max(float(1 / (1 + np.exp(-np.dot(self.quote, features)))), right)


class QuickConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The quick question encoder: how many layers it shares with the text encoder, and how many are its own."""

    shared: Annotated[int, msgspec.Meta(ge=0)]
    layers: Annotated[int, msgspec.Meta(ge=0)]


class NetworkConfig(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a reader's fingerprint covers besides its words and weights."""

    phrases: PhraseOptions
    density: Annotated[float, msgspec.Meta(gt=0, le=10)]  # phrases kept per word piece
    calibration: Calibration | None = None  # without it probabilities are a softmax of scores
    distinct: bool = False  # of phrases that are the same answer, only one is kept
    quick: QuickConfig | None = None


class LookConfig(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A second look: the hash of its file, its layers, its calibration. No memory depends on it, and no fingerprint."""

    digest: _Fingerprint
    layers: Annotated[int, msgspec.Meta(ge=1)]
    calibration: Calibration | None = None


class ReaderConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="phrases"):
    """The config of a reader; `about` is free-form information on how it was made."""

    format: Literal[1]
    fingerprint: _Fingerprint
    network: NetworkConfig
    about: dict[str, Any]
    look: LookConfig | None = None


class FixedSizeConfig(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="fixed size"
):
    """The config of a reader that has the default reader's files, and memories of fixed size."""

    format: Literal[1]
    fingerprint: _Fingerprint
    calibration: Calibration
    look: Calibration | None = None  # None: as the default reader's


class _FormatNumber(msgspec.Struct):
    format: int = 0


def read_config(file: Path) -> ReaderConfig | FixedSizeConfig:
    """Read and check a reader's `config.json`."""
    data = read_file(file)
    try:
        config = msgspec.json.decode(data, type=ReaderConfig | FixedSizeConfig)
        _check(config)
    except (ValueError, RecursionError) as fault:  # msgspec's errors among them
        if _format_of(data) > FORMAT:
            raise FormatError(
                f"{file.parent} is a reader of a later version", "install a newer attar"
            ) from fault
        raise foreign_file(file, fault) from fault
    return config


def _check(config: ReaderConfig | FixedSizeConfig) -> None:
    """Refuse sizes and calibrations that a reader cannot work with."""
    if isinstance(config, ReaderConfig):
        network, shape = config.network, config.network.phrases.encoder
        calibration, look = network.calibration, None if config.look is None else config.look.calibration
        sound = {
            "heads must divide the size": shape.heads > 0 and shape.size % shape.heads == 0,
            f"{POSITIONS} positions are needed": shape.positions >= POSITIONS,
            f"at most {_VOCABULARY:,} word pieces": shape.vocabulary <= _VOCABULARY,
            "there are fewer layers to share": network.quick is None or network.quick.shared <= shape.layers,
        }
        for rule, holds in sound.items():
            if not holds:
                raise ValueError(rule)
    else:
        calibration, look = config.calibration, config.look
    for fitted, features in ((calibration, FEATURES), (look, LOOK_FEATURES)):
        if fitted is not None:
            _check_calibration(fitted, len(features))


def _check_calibration(fitted: Calibration, count: int) -> None:
    weights = fitted.right, fitted.absent, fitted.quote
    if not len(fitted.right) == len(fitted.absent) == (len(fitted.quote) or count) == count:
        raise ValueError(f"a calibration has {count} weights for each outcome")
    if not all(map(math.isfinite, (*chain(*weights), fitted.threshold))):
        raise ValueError("a calibration has finite weights")


def read_file(file: Path) -> bytes:
    """The bytes of a reader's file."""
    try:
        # A pipe or a device has no end.
        if not stat.S_ISREG(file.stat().st_mode):
            raise FormatError(f"{file} is not a regular file", "check the path")
        return file.read_bytes()
    except OSError as fault:
        raise FormatError(f"cannot read {file}: {fault.strerror or fault}", "check the path") from fault


def foreign_file(file: Path, fault: Exception) -> FormatError:
    """The error for a file that is not what its name says."""
    reason = " ".join(str(fault).split()) or type(fault).__name__
    return FormatError(f"{file} is damaged, or not a reader's: {reason[:200]}", "copy the whole folder again")


def _format_of(data: bytes) -> int:
    try:
        return msgspec.json.decode(data, type=_FormatNumber).format
    except (msgspec.DecodeError, RecursionError):
        return 0


# The readers that ship with the package, by name: the default, and the same with memories of fixed size.
SHIPPED = Path(__file__).parent / "readers"
DEFAULT = "answers"
NAMES = (DEFAULT, "fixed")


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


class LibraryReader:
    """A reader, the path of one, or None for the one that made the store, or the default; on a device, if given."""

    def __init__(self, given: "GivenReader", device: str | None = None) -> None:
        if device is not None:
            from attar.reader.encoding import find_device  # needs torch

            find_device(device)
        self._device = device
        self._path = given if isinstance(given, str | os.PathLike) else None
        self._reader: Reader | None = None if isinstance(given, str | os.PathLike) else given

    @property
    def fingerprint(self) -> str | None:
        """The fingerprint of a reader that is loaded."""
        return None if self._reader is None else self._reader.fingerprint

    @cached_property
    def _folder(self) -> ReaderFolder | None:
        """The folder of a reader that was given by its path; its config is read once."""
        return None if self._path is None else ReaderFolder.open(Path(self._path))

    def chosen(self) -> "Reader | ReaderFolder":
        """The given reader, loaded or not; the default if none was given."""
        return self._reader or self._folder or ReaderFolder.open(None)

    def get(self, library: Path, expected: str | None) -> "Reader":
        """The reader with this fingerprint; another process may have moved the library to it."""
        if self._reader is None or expected not in (None, self._reader.fingerprint):
            moved = self._reader is not None
            folder = find_reader(f"library {library}", self._folder, expected, moved=moved)
            from attar.reader.reader import Reader  # last: a reader that is refused is not waited for

            self._reader = Reader.of(folder)
        if self._device is not None:
            self._reader.to(self._device)
            self._device = None
        return self._reader
