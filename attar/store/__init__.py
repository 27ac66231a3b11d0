"""Memories on disk: one record per document, in LMDB, with atomic and durable changes.

Many processes can read a store while one writes. `Store` is the way in; `export_store` and `import_store` write a
store's documents to Parquet and read them again.
"""

from attar.store.format import DocumentEntry, Record, check_name, digest_of, key_of
from attar.store.lmdb_env import Durability
from attar.store.lookups import compile_lookups
from attar.store.maintenance import Stats
from attar.store.origin import Origin, Parts, joined_parts, pack_parts, place_in, shifted, unpack_parts
from attar.store.parquet import ExportInfo, export_store, import_store, read_export_info
from attar.store.repair import Repair, repair_store
from attar.store.signatures import Signatures
from attar.store.store import Store
from attar.store.switching import source_version
from attar.store.transactions import Snapshot, Transaction
from attar.store.validation import Fault

__all__ = [
    "DocumentEntry",
    "Durability",
    "ExportInfo",
    "Fault",
    "Origin",
    "Parts",
    "Record",
    "Repair",
    "Signatures",
    "Snapshot",
    "Stats",
    "Store",
    "Transaction",
    "check_name",
    "compile_lookups",
    "digest_of",
    "export_store",
    "import_store",
    "joined_parts",
    "key_of",
    "pack_parts",
    "place_in",
    "read_export_info",
    "repair_store",
    "shifted",
    "source_version",
    "unpack_parts",
]
