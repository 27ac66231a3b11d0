"""A library: a reader and a store; documents by name, questions in, answers out."""

from attar.library.drafts import Draft
from attar.library.finding import find_document, suggesting
from attar.library.library import Library, open_store
from attar.library.sources import gone_documents, read_files, read_upload

__all__ = [
    "Draft",
    "Library",
    "find_document",
    "gone_documents",
    "open_store",
    "read_files",
    "read_upload",
    "suggesting",
]
