"""A store without the holes that removed documents leave: copied, and put in the old file's place at once."""

import os
from pathlib import Path

import lmdb

from attar.store.environment import COPY, DATA, Environment
from attar.store.faults import damage, lines_for
from attar.store.locks import sync_folder


def compact(environment: Environment, timeout: float) -> int:
    """Copy the store without its holes, and give the bytes saved.

    Until the copy is whole and on the disk the old file is the store; what is left of a copy when the process
    is killed goes away with the next opening.
    """
    folder = environment.folder
    data, copy = folder / DATA, folder / COPY
    with environment.replacing(timeout), lines_for(folder):
        before = data.stat()
        source = lmdb.open(str(folder), readonly=True, lock=False)
        try:
            file = os.open(copy, os.O_CREAT | os.O_TRUNC | os.O_RDWR, before.st_mode & 0o777)
            try:
                source.copyfd(file, compact=True)
                os.fsync(file)
            finally:
                os.close(file)
            entries = source.stat()["entries"]
            source.close()
            copied = entries_of(copy)
            if copied != entries:
                raise damage(folder, f"{copied:,} of {entries:,} entries in a copy of it")
            os.replace(copy, data)
        except BaseException:
            copy.unlink(missing_ok=True)
            raise
        finally:
            source.close()
        sync_folder(folder)
        return before.st_size - data.stat().st_size


def entries_of(copy: Path) -> int:
    """Count what a copied file holds."""
    environment = lmdb.open(str(copy), subdir=False, readonly=True, lock=False)
    try:
        return environment.stat()["entries"]
    finally:
        environment.close()
