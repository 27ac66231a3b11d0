"""A library: a reader and a store; documents by name, questions in, answers out."""

from attar.errors import UnknownDocumentError
from attar.library.adding import (
    Outcome,
)
from attar.library.description import (
    describe,
    describe_outcome,
    describe_record,
)
from attar.library.library import (
    Library,
)
from attar.library.opening import (
    open_store,
)
from attar.library.sources import (
    find_files,
    read_files,
)
from attar.library.unknown import (
    suggesting,
)

__all__ = [
    "Library",
    "Outcome",
    "UnknownDocumentError",
    "describe",
    "describe_outcome",
    "describe_record",
    "find_files",
    "open_store",
    "read_files",
    "suggesting",
]
