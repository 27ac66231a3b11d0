"""Attar: a document becomes a fixed-size memory, and any question of it a constant-time lookup.

Names load when they are first used, so that `import attar` costs no torch.
"""

import importlib
from typing import TYPE_CHECKING, Any

from attar.errors import AttarError

if TYPE_CHECKING:
    from attar import nn, ops

__version__ = "0.1.0.dev0"
__all__ = ["AttarError", "__version__", "nn", "ops"]

_ROOMS = {"nn", "ops"}


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return importlib.import_module(f"attar.{name}")
    raise AttributeError(f"module 'attar' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
