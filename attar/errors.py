"""Mistakes of callers, each in one line: what was expected, what came, what to do."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path


class AttarError(Exception):
    """A mistake that the caller can fix; the CLI prints it as one line and exits with code 2.

    >>> raise ShapeError("queries", "[B, m, 4]", "[2, 3, 5]", "encode both alike")
    Traceback (most recent call last):
    attar.errors.ShapeError: queries: expected [B, m, 4], got [2, 3, 5]; encode both alike
    """

    def __init__(self, what: str, expected: str, came: str, remedy: str = "") -> None:
        super().__init__(f"{what}: expected {expected}, got {came}" + (f"; {remedy}" if remedy else ""))

    def __reduce__(self) -> tuple[object, ...]:
        # The arguments that it was made with are not kept; an error of another process is its line.
        return _restored, (type(self), self.args)


def _restored(kind: type[AttarError], args: tuple[object, ...]) -> AttarError:
    error = kind.__new__(kind)
    error.args = args
    return error


class ShapeError(AttarError, ValueError):
    """Sizes that do not fit together."""


class DtypeError(AttarError, TypeError):
    """A type of number, or of argument, that the operation does not take."""


class DeviceError(AttarError, ValueError):
    """Tensors that lie on different devices, or on one that the operation cannot use."""


class OptionError(AttarError, ValueError):
    """A value that is none of the allowed ones."""


class NameTakenError(OptionError):
    """A name that another text has; it can be replaced if the caller says so."""


class FormatError(AttarError, ValueError):
    """A file or a question that is not written as it should be."""


class RecordError(FormatError):
    """What was kept and cannot be read again, a record or a store's whole file: damaged, or of another version."""


class AccessDeniedError(AttarError, PermissionError):
    """A request to a server with a missing or wrong token, or a change to a library that is served read-only."""


class UnavailableError(AttarError, OSError):
    """A server that cannot be reached, or cannot answer now."""


class MissingError(AttarError, ImportError):
    """An optional part that is not installed."""


class UnknownDocumentError(AttarError, LookupError):
    """A name that no document of the store has; the message suggests similar names where they are known.

    >>> raise UnknownDocumentError("emm", ["emma"])
    Traceback (most recent call last):
    attar.errors.UnknownDocumentError: document 'emm': expected one in the store, got no such name; did you mean 'emma'?
    """

    similar: Sequence[str] = ()  # of an error that another process raised, nothing but the line is known

    def __init__(self, name: str, near: Iterable[str] = ()) -> None:
        self.similar = list(near)
        similar = " or ".join(map(quoted, self.similar))
        remedy = f"did you mean {similar}?" if similar else "list the documents to see their names"
        super().__init__(f"document {quoted(name)}", "one in the store", "no such name", remedy)


class ReaderMismatchError(OptionError):
    """Memories, or a store of them, that another reader wrote."""


class StoreError(AttarError, OSError):
    """A store that cannot be used: closed, read-only, no permission, or no space left on the disk."""


class BusyError(StoreError):
    """A store that another writer or process has kept locked for longer than the time limit."""


def quoted(name: str) -> str:
    r"""A name as error messages show it: on one line, and cut after 60 characters.

    >>> print(quoted("a\nb"), quoted("x" * 99)[-4:])
    'a\nb' xx'…
    """
    return repr(name) if len(name) <= 60 else f"{name[:60]!r}…"


def install_command(extra: str) -> str:
    """The command that installs the packages of an extra, from a clone: the remedy of a `MissingError`.

    >>> install_command("server")
    "pip install '.[server]'"
    """
    return f"pip install '.[{extra}]'"


@contextmanager
def writing_to(folder: Path, remedy: str = "") -> Iterator[None]:
    """Report in one line that a folder cannot be written to, and why."""
    try:
        yield
    except OSError as fault:
        came = fault.strerror or str(fault)
        raise AttarError(str(folder), "a folder to write to", came, remedy) from fault
