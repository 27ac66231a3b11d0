"""How LMDB opens a file: as many addresses as there are, and as sure of the disk as was asked for."""

from pathlib import Path
from typing import Literal

import lmdb

Durability = Literal["sync", "relaxed", "none"]

# What LMDB's flags make of it when the power fails; a killed process loses nothing in any of them.
DURABILITY: dict[str, dict[str, bool]] = {
    "sync": {"metasync": True, "sync": True},  # an acknowledged change is on the disk
    "relaxed": {"metasync": False, "sync": True},  # the last change may be undone
    "none": {"metasync": False, "sync": False},  # the store may be damaged
}

# Addresses, not memory and not disk: with so many the map hardly ever has to grow.
MAP_SIZE = 2**40
SMALLEST_MAP = 2**20
READERS = 1024


def open_map(folder: Path, read_only: bool, durability: Durability, size: int = MAP_SIZE) -> lmdb.Environment:
    """Open the file in a folder, with fewer addresses where the system has not so many (`ulimit -v`)."""
    while True:
        try:
            return lmdb.open(
                str(folder),
                map_size=size,
                readonly=read_only,
                create=not read_only,
                mode=0o644,
                max_readers=READERS,
                max_spare_txns=1,
                meminit=False,
                metasync=DURABILITY[durability]["metasync"],
                sync=DURABILITY[durability]["sync"],
            )
        except lmdb.MemoryError:
            if size <= SMALLEST_MAP:
                raise
            size //= 2
