"""Memories on disk: one record a document, in LMDB; what is acknowledged stays.

Many processes read while one writes. `Store` is the whole of it; `export_store` and `import_store` take a
store's documents out to Parquet and in again.
"""

from attar.store.changes import Changes
from attar.store.check import Fault
from attar.store.faults import BusyError, StoreError, UnknownNameError
from attar.store.parquet import export_store, import_store
from attar.store.reading import Reading
from attar.store.record import Facts, Record, digest_of
from attar.store.stats import Stats
from attar.store.store import Store

__all__ = [
    "BusyError",
    "Changes",
    "Facts",
    "Fault",
    "Reading",
    "Record",
    "Stats",
    "Store",
    "StoreError",
    "UnknownNameError",
    "digest_of",
    "export_store",
    "import_store",
]
