"""What can go wrong with a store, each in one line: what was expected, what came, what to do."""

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

import lmdb

from attar.errors import AttarError, BusyError, RecordError, StoreError, UnknownDocumentError, quoted

__all__ = ["BusyError", "StoreError", "UnknownNameError", "damage", "line_for", "lines_for", "quoted"]

UnknownNameError = UnknownDocumentError


def is_full(fault: BaseException) -> bool:
    """Tell whether the disk, a quota or a limit on files' sizes leaves no room.

    A write that found room for its beginning only is what LMDB calls an input/output error.
    """
    reasons = (os.strerror(code) for code in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO))
    return isinstance(fault, lmdb.DiskError) or any(reason in str(fault) for reason in reasons)


def is_forbidden(fault: BaseException) -> bool:
    """Tell whether permissions, or a read-only disk, stand in the way."""
    reasons = (os.strerror(code) for code in (errno.EACCES, errno.EPERM, errno.EROFS))
    return isinstance(fault, lmdb.ReadonlyError) or any(reason in str(fault) for reason in reasons)


@contextlib.contextmanager
def lines_for(path: Path) -> Iterator[None]:
    """Say what LMDB or the system reports about the store at `path` in a line of the package's own."""
    try:
        yield
    except AttarError:
        raise
    except (lmdb.Error, OSError) as fault:
        raise line_for(path, fault) from fault


def line_for(path: Path, fault: BaseException) -> AttarError:
    """Give the line for one report of LMDB's or the system's."""
    what = f"store {path}"
    if is_full(fault):
        remedy = "free some space and do it again; the store is as it was before this change"
        return StoreError(what, "room on the disk for the change", "a full disk, or a broken one", remedy)
    if is_forbidden(fault):
        remedy = "allow it, or copy the store (readers announce themselves in lock.mdb, and write there too)"
        return StoreError(what, "a folder and files that can be written", "no permission to", remedy)
    if isinstance(fault, FileNotFoundError):
        return StoreError(what, "a place that is there", "none of that name", "make its folder first")
    if isinstance(fault, lmdb.VersionMismatchError):
        return RecordError(what, "a file of LMDB 0.9", "one of another version", "open it where it was made")
    damaged = (lmdb.InvalidError, lmdb.CorruptedError, lmdb.PageNotFoundError)
    if isinstance(fault, damaged):
        return damage(path, str(fault).split(": ", 1)[-1])
    if isinstance(fault, lmdb.TxnFullError):
        return StoreError(
            what, "a change that fits the working memory", "a larger one", "make smaller batches"
        )
    if isinstance(fault, lmdb.ReadersFullError):
        return StoreError(what, "a free place among its readers", "none", "end some of the processes")
    return StoreError(what, "a store in working order", str(fault).replace("\n", " "))


def damage(path: Path, came: str) -> RecordError:
    """Give the line for a file that is not what was written."""
    return RecordError(
        f"store {path}", "the file as it was written", came, "restore it from a copy or an export"
    )
