"""Errors of a store: what LMDB and the system report, as one line with a remedy."""

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

import lmdb

from attar.errors import AttarError, RecordError, StoreError

# A write that found room for only its beginning is an input/output error to LMDB.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)


@contextlib.contextmanager
def store_errors(path: Path) -> Iterator[None]:
    """Raise what LMDB or the system reports about the store at `path` as an error of this package."""
    try:
        yield
    except AttarError:
        raise
    except (lmdb.Error, OSError) as fault:
        raise store_error(path, fault) from fault


def store_error(path: Path, fault: BaseException) -> AttarError:
    """Return the package's error for one of LMDB or the system."""
    what = f"store {path}"
    if isinstance(fault, lmdb.DiskError) or _mentions(fault, _FULL):
        remedy = "free some space and try again; the store is as it was before this change"
        return StoreError(what, "space on the disk for the change", "a full disk, or a broken one", remedy)
    if isinstance(fault, lmdb.ReadonlyError) or _mentions(fault, _FORBIDDEN):
        remedy = "grant it, or copy the store (readers write to lock.mdb too)"
        return StoreError(what, "a folder and files that can be written", "no permission to", remedy)
    if isinstance(fault, FileNotFoundError):
        return StoreError(what, "an existing folder", "no such folder", "create it first")
    if isinstance(fault, lmdb.VersionMismatchError):
        return RecordError(what, "a file of LMDB 0.9", "one of another version", "open it where it was made")
    if isinstance(fault, (lmdb.InvalidError, lmdb.CorruptedError, lmdb.PageNotFoundError)):
        return damaged(path, str(fault).split(": ", 1)[-1])
    if isinstance(fault, lmdb.TxnFullError):
        return StoreError(what, "a transaction that fits into memory", "a larger one", "use smaller batches")
    if isinstance(fault, lmdb.ReadersFullError):
        return StoreError(what, "a free reader slot", "none", "end some of the processes")
    return StoreError(what, "a store in working order", str(fault).replace("\n", " "))


def _mentions(fault: BaseException, codes: tuple[int, ...]) -> bool:
    return any(os.strerror(code) in str(fault) for code in codes)


def damaged(path: Path, came: str) -> RecordError:
    """Return the error for a file that is not as it was written."""
    remedy = "restore it from a copy or an export"
    return RecordError(f"store {path}", "the file as it was written", came, remedy)
