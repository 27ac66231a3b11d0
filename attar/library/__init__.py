"""A library: a reader and a store; documents by name, questions in, answers out.

Names load on first use: a list of documents does not wait for what reads files.
"""

from typing import TYPE_CHECKING

from attar._lazy import lazy_names

if TYPE_CHECKING:
    from attar.library.drafts import Draft, encode_texts, gone_documents, read_files, read_upload
    from attar.library.finding import closest, find_document, similar_names, suggesting
    from attar.library.library import Library, open_store
    from attar.library.parts import SearchPart
    from attar.library.refitting import RefitCalls, RefitReader, calls_here, refit
    from attar.library.rounds import TOGETHER, Round, Rounds, ask_rounds, scan_together, search_rounds
    from attar.library.searching import SearchState

__all__ = [
    "TOGETHER",
    "Draft",
    "Library",
    "RefitCalls",
    "RefitReader",
    "Round",
    "Rounds",
    "SearchPart",
    "SearchState",
    "ask_rounds",
    "calls_here",
    "closest",
    "encode_texts",
    "find_document",
    "gone_documents",
    "open_store",
    "read_files",
    "read_upload",
    "refit",
    "scan_together",
    "search_rounds",
    "similar_names",
    "suggesting",
]

if not TYPE_CHECKING:  # so that mypy knows which names there are
    __getattr__ = lazy_names(__name__)
