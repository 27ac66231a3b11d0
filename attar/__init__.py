"""Attar: a document is read once into a small memory, and questions are answered from it, with quotes."""

from importlib import import_module
from typing import TYPE_CHECKING

from attar.errors import (
    AccessDeniedError,
    AttarError,
    BusyError,
    MissingError,
    NameTakenError,
    ReaderMismatchError,
    StoreError,
    UnavailableError,
    UnknownDocumentError,
)

if TYPE_CHECKING:
    from attar import nn, ops
    from attar.client import Client
    from attar.library.library import Library
    from attar.memory.memory import Memory
    from attar.reader.reader import Reader
    from attar.results import (
        Answer,
        AnswerGroup,
        Change,
        Difference,
        Document,
        DocumentDetails,
        Excerpt,
        FolderChanges,
        Hit,
        OtherPlace,
        QuotedPlace,
        Refit,
        Reread,
        Sentence,
        Subset,
        Verified,
    )

__version__ = "0.3.0"

# Loaded when first used, so that `import attar` loads no torch; the others are in `attar.results`.
_MODULES = {
    "Client": "attar.client",
    "Library": "attar.library.library",
    "Memory": "attar.memory.memory",
    "Reader": "attar.reader.reader",
    "nn": "attar.nn",
    "ops": "attar.ops",
}

__all__ = [
    "AccessDeniedError", "Answer", "AnswerGroup", "AttarError", "BusyError", "Change", "Client",
    "Difference", "Document", "DocumentDetails", "Excerpt", "FolderChanges", "Hit", "Library",
    "Memory", "NameTakenError", "OtherPlace", "QuotedPlace", "Reader", "ReaderMismatchError", "Refit", "Reread",
    "Sentence", "StoreError", "Subset", "UnavailableError", "UnknownDocumentError", "Verified",
    "__version__", "nn", "ops",
]  # fmt: skip

if not TYPE_CHECKING:  # so that mypy knows which names there are

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module 'attar' has no attribute {name!r}")
        try:
            module = import_module(_MODULES.get(name, "attar.results"))
        except ModuleNotFoundError as fault:
            if not str(fault.name).startswith("attar."):
                raise
            # The small distribution (`client/`) has no other rooms.
            line = f"attar.{name} is not a part of attar-client"
            raise MissingError(line, "install attar in its place") from fault
        value = globals()[name] = module if name in ("nn", "ops") else getattr(module, name)
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
