"""A library: a reader and a store; documents by name, questions in, answers out."""

from attar.library.drafts import Draft
from attar.library.library import Library, open_store, suggesting
from attar.library.sources import gone_documents, read_files

__all__ = [
    "Draft",
    "Library",
    "gone_documents",
    "open_store",
    "read_files",
    "suggesting",
]
