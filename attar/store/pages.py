"""LMDB's own pages, looked at from outside: a file that was cut or overwritten must not reach LMDB.

LMDB trusts its file. It reads pages where they should lie, and where the file ends before, the system ends
the process. So the length is compared at each opening, and the whole structure where the length is short.
Its first two pages, of which the later one counts, have no checksum: a bit that flips in the number of the last
change there undoes that change, and nobody can tell.
"""

import os
from pathlib import Path

import lmdb
from lmdb.verify import VerifyError, verify


def structural_faults(data: Path) -> list[str]:
    """Walk through the file's pages without LMDB, and say what is wrong; nobody may write meanwhile."""
    try:
        return [str(fault) for fault in verify(str(data), subdir=False)]  # type: ignore[no-untyped-call]
    except VerifyError as fault:
        return [str(fault)]


def missing_bytes(environment: lmdb.Environment, data: int) -> int:
    """Tell how much shorter the open data file is than its pages."""
    pages = environment.info()["last_pgno"] + 1
    return max(0, pages * environment.stat()["psize"] - os.fstat(data).st_size)


def fill_up(data: Path, length: int) -> None:
    """Make a file this long if it is shorter; never shortens it, whatever another process is writing."""
    file = os.open(data, os.O_RDWR)
    try:
        if hasattr(os, "posix_fallocate"):  # macOS has none, and looks at all pages when it opens such a file
            os.posix_fallocate(file, length - 1, 1)
    finally:
        os.close(file)
