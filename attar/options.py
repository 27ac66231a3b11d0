"""Options declared once: a dataclass field carries its default, help text and range.

The command line derives its flags from these fields (`attar.cli.options`). Nothing here loads torch.
"""

import math
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Literal

from attar.errors import OptionError


def option(
    default: Any = MISSING,
    help: str = "",
    *flags: str,
    min: float | None = None,
    max: float | None = None,
) -> Any:
    """A dataclass field with a help text; `flags` are more names on the command line, such as "-d"."""
    metadata = {"help": help, "flags": flags, "min": min, "max": max}
    return field(default=default, metadata=metadata)


def check_ranges(options: Any) -> None:
    """Refuse numbers that are not finite or lie outside their field's range.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Options:
    ...     epochs: int = option(3, "Epochs.", min=1)
    >>> check_ranges(Options(0))
    Traceback (most recent call last):
    attar.errors.OptionError: epochs: expected 1 or more, got 0
    """
    for each in fields(options):
        value, low, high = getattr(options, each.name), each.metadata.get("min"), each.metadata.get("max")
        if isinstance(value, float) and not math.isfinite(value):
            raise OptionError.expected(each.name, "a finite number", str(value))
        if value is None:  # what is left out has no range
            continue
        if low is not None and value < low:
            raise OptionError.expected(each.name, f"{low} or more", str(value))
        if high is not None and value > high:
            raise OptionError.expected(each.name, f"{high} or less", str(value))


@dataclass(frozen=True, kw_only=True)
class FileLimits:
    """How a file is read, and what that may cost."""

    max_file_memory_mb: int = option(1024, "Maximum memory for reading one file, in MB.", min=64, max=2**20)
    max_file_seconds: int = option(
        120, "Maximum CPU time for reading one file, in seconds.", min=1, max=2**20
    )
    password: str = option("", "Password of encrypted PDF files.")
    ocr: str = option(
        "auto", "Text in scans and photos, by tesseract: auto, always (also where a PDF has text), never."
    )
    max_decompressed: int = 0  # bytes of that memory, for decompressed data; 0: all of it
    seconds: float = 0.0  # by the clock; 0: twice the CPU time

    def __post_init__(self) -> None:
        check_ranges(self)
        object.__setattr__(self, "max_decompressed", self.max_decompressed or self.max_file_memory_mb * 2**20)
        object.__setattr__(self, "seconds", self.seconds or 2.0 * self.max_file_seconds)
        if self.ocr not in ("auto", "always", "never"):
            raise OptionError.expected("ocr", "auto, always or never", repr(self.ocr))


# The longest span, in word pieces.
LONGEST = 10
# Sentences that are read again with a question, by default and at most: the network was trained with up to five.
LOOK, MOST_LOOK = 3, 5


@dataclass(frozen=True)
class TransformerShape:
    """The sizes of a transformer; the defaults are those of all-MiniLM-L6-v2."""

    vocabulary: int = 30_522
    size: int = 384
    layers: int = 6
    heads: int = 12
    feedforward: int = 1_536
    positions: int = 512


@dataclass(frozen=True)
class PhraseOptions:
    """The sizes of a phrase network: k of phrase vectors, and the dimension of the vectors of word pieces."""

    size: int = 64
    word_size: int = 32
    match: Literal["static"] = "static"  # word overlap by vectors of pieces alone
    values: int = 0  # d of memories of fixed size (`attar.nn.phrases`); 0 for none
    encoder: TransformerShape = field(default_factory=TransformerShape)
