"""Memories on disk: one record a document, in LMDB; what is acknowledged stays.

Many processes read while one writes. `Store` is the whole of it; `export_store` and `import_store` take a
store's documents out to Parquet and in again.
"""

from attar.store.changes import (
    Changes,
)
from attar.store.check import (
    Fault,
)
from attar.store.environment import (
    DATA,
)
from attar.store.faults import (
    BusyError,
    StoreError,
    UnknownNameError,
    quoted,
)
from attar.store.keys import (
    key_of,
)
from attar.store.locks import (
    locked,
)
from attar.store.lookups import (
    compiled,
)
from attar.store.opening import (
    Durability,
)
from attar.store.parquet import (
    export_store,
    import_store,
    read_note,
)
from attar.store.reading import (
    Reading,
)
from attar.store.record import (
    Facts,
    Record,
    digest_of,
)
from attar.store.stats import (
    Stats,
)
from attar.store.store import (
    Store,
)

__all__ = [
    "DATA",
    "BusyError",
    "Changes",
    "Durability",
    "Facts",
    "Fault",
    "Reading",
    "Record",
    "Stats",
    "Store",
    "StoreError",
    "UnknownNameError",
    "compiled",
    "digest_of",
    "export_store",
    "import_store",
    "key_of",
    "locked",
    "quoted",
    "read_note",
]
