"""What a caller did that cannot work, said in one line: what was expected, what came, what to do."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class AttarError(Exception):
    """A mistake that the caller can mend; the CLI prints it as one line and exits with code 2.

    >>> raise ShapeError("queries", "[B, m, 4]", "[2, 3, 5]", "encode both alike")
    Traceback (most recent call last):
    attar.errors.ShapeError: queries: expected [B, m, 4], got [2, 3, 5]; encode both alike
    """

    def __init__(self, what: str, expected: str, came: str, remedy: str = "") -> None:
        super().__init__(f"{what}: expected {expected}, got {came}" + (f"; {remedy}" if remedy else ""))


class ShapeError(AttarError, ValueError):
    """Sizes that do not fit together."""


class DtypeError(AttarError, TypeError):
    """A type of number, or of argument, that the operation does not take."""


class DeviceError(AttarError, ValueError):
    """Tensors that lie on different devices, or on one that the operation cannot use."""


class OptionError(AttarError, ValueError):
    """A value that is none of the allowed ones."""


class FormatError(AttarError, ValueError):
    """A file or a question that is not written as it should be."""


class RecordError(FormatError):
    """What was kept and cannot be read again, a record or a store's whole file: damaged, or of another version."""


class MissingError(AttarError, ImportError):
    """An optional part that is not installed."""


@contextmanager
def writing_to(folder: Path, remedy: str = "") -> Iterator[None]:
    """Tell in one line that a folder cannot be written to, and why."""
    try:
        yield
    except OSError as fault:
        came = fault.strerror or str(fault)
        raise AttarError(str(folder), "a folder to write to", came, remedy) from fault
