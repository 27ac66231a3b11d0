"""Attar: a document is read once into a small memory, and questions are answered from it, with quotes.

Names load when they are first used, so that `import attar` costs no torch.
"""

from typing import TYPE_CHECKING

from attar._lazy import lazy_names
from attar.errors import (
    AccessDeniedError,
    AttarError,
    BusyError,
    NameTakenError,
    ReaderMismatchError,
    StoreError,
    UnavailableError,
    UnknownDocumentError,
)

if TYPE_CHECKING:
    from attar import nn, ops
    from attar.client import AsyncClient, Client
    from attar.library import Library, SearchState
    from attar.memory import Memory
    from attar.reader import Reader
    from attar.results import (
        Answer,
        Change,
        Document,
        DocumentDetails,
        Explanation,
        Hit,
        Refit,
        Reread,
        Sentence,
    )

__version__ = "0.2.0"
__all__ = [
    "AccessDeniedError",
    "Answer",
    "AsyncClient",
    "AttarError",
    "BusyError",
    "Change",
    "Client",
    "Document",
    "DocumentDetails",
    "Explanation",
    "Hit",
    "Library",
    "Memory",
    "NameTakenError",
    "Reader",
    "ReaderMismatchError",
    "Refit",
    "Reread",
    "SearchState",
    "Sentence",
    "StoreError",
    "UnavailableError",
    "UnknownDocumentError",
    "__version__",
    "nn",
    "ops",
]

if not TYPE_CHECKING:  # so that mypy knows which names there are
    __getattr__ = lazy_names(__name__)


def __dir__() -> list[str]:
    return sorted(__all__)
