"""A library: a reader and a store; documents by name, questions in, answers out."""

from attar.library.adding import Draft
from attar.library.finding import find_document, suggesting
from attar.library.library import Library, open_store
from attar.library.sources import find_files, read_files

__all__ = [
    "Draft",
    "Library",
    "find_document",
    "find_files",
    "open_store",
    "read_files",
    "suggesting",
]
