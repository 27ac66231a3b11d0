"""Mistakes of callers, each in one line: a plain sentence, and what to do."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self


class AttarError(Exception):
    """A mistake that the caller can fix: a sentence, and what to do. The CLI prints it as one line, with exit code 2.

    >>> raise AttarError("document 'a' already exists with a different text", "use --replace")
    Traceback (most recent call last):
    attar.errors.AttarError: document 'a' already exists with a different text; use --replace
    """

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(f"{message}; {remedy}" if remedy else message)

    @classmethod
    def expected(cls, what: str, expected: str, got: str, remedy: str = "") -> Self:
        """The error for a shape, a type or a range.

        >>> raise ShapeError.expected("queries", "[B, m, 4]", "[2, 3, 5]")
        Traceback (most recent call last):
        attar.errors.ShapeError: queries: expected [B, m, 4], got [2, 3, 5]
        """
        return cls(f"{what}: expected {expected}, got {got}", remedy)


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
    """A name that no document has; the message suggests similar names where they are known.

    >>> raise UnknownDocumentError.named("emm", ["emma"])
    Traceback (most recent call last):
    attar.errors.UnknownDocumentError: there is no document 'emm'; did you mean 'emma'?
    """

    similar: Sequence[str] = ()

    @classmethod
    def named(cls, name: str, similar: Iterable[str] = ()) -> Self:
        """The error for a name, with the names that are similar to it."""
        near = list(similar)
        suggestion = " or ".join(map(quoted, near))
        remedy = f"did you mean {suggestion}?" if near else "list the documents to see their names"
        error = cls(f"there is no document {quoted(name)}", remedy)
        error.similar = near
        return error


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
def needs_extra(what: str, extra: str) -> Iterator[None]:
    """Report in one line that a package is not installed which `what` needs, and the extra that has it.

    >>> with needs_extra("attar serve", "server"):
    ...     import no_such_package
    Traceback (most recent call last):
    attar.errors.MissingError: attar serve needs no_such_package, which is not installed; pip install '.[server]'
    """
    try:
        yield
    except ModuleNotFoundError as fault:
        package = str(fault.name).partition(".")[0]
        if package == "attar":
            raise
        raise MissingError(
            f"{what} needs {package}, which is not installed", install_command(extra)
        ) from fault


@contextmanager
def writing_to(folder: Path, remedy: str = "") -> Iterator[None]:
    """Report in one line that a folder cannot be written to, and why."""
    try:
        yield
    except OSError as fault:
        raise AttarError(f"cannot write to {folder}: {fault.strerror or fault}", remedy) from fault
