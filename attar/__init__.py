"""Attar: a document becomes a fixed-size memory, and any question of it a constant-time lookup.

Names load when they are first used, so that `import attar` costs no torch.
"""

import importlib
from typing import TYPE_CHECKING, Any

from attar.errors import AttarError

if TYPE_CHECKING:
    from attar import nn, ops
    from attar.client import AsyncClient, Client
    from attar.library import Library
    from attar.memory import Memory
    from attar.reader import Answer, Reader

__version__ = "0.1.0.dev0"
__all__ = [
    "Answer",
    "AsyncClient",
    "AttarError",
    "Client",
    "Library",
    "Memory",
    "Reader",
    "__version__",
    "nn",
    "ops",
]

_ROOMS = {"nn", "ops"}
_NAMES = {
    "Answer": "attar.reader",
    "AsyncClient": "attar.client",
    "Client": "attar.client",
    "Library": "attar.library",
    "Memory": "attar.memory",
    "Reader": "attar.reader",
}


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return importlib.import_module(f"attar.{name}")
    if name in _NAMES:
        return getattr(importlib.import_module(_NAMES[name]), name)
    raise AttributeError(f"module 'attar' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
