"""The store under a library: opened as it was made, or made with the library's own choices."""

import os

from attar.errors import StoreError
from attar.store import Durability, Store

# Half of float32's bytes; the encoder's state, from which reading goes on, stays float32.
DTYPE = "float16"


def open_store(
    path: str | os.PathLike[str],
    reader: str | None,
    *,
    dtype: str | None = None,
    durability: Durability = "sync",
    read_only: bool = False,
    create: bool = True,
    new_dtype: str = DTYPE,
) -> Store:
    """Open the store in a folder, or make it: unless `dtype` asks for one, with `new_dtype` if it is new."""
    if create and not read_only:
        try:
            return Store.open(path, reader=reader, create=False, durability=durability, dtype=dtype)
        except StoreError:
            # None there, or none that can be opened; making it says which.
            return Store.open(path, reader=reader, durability=durability, dtype=dtype or new_dtype)
    return Store.open(
        path, reader=reader, create=False, read_only=read_only, durability=durability, dtype=dtype
    )
