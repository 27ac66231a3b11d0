"""Public names that load on first use (PEP 562), so that `import attar` and `attar --help` load no torch."""

import ast
import importlib
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any


def lazy_names(package: str) -> Callable[[str], Any]:
    """The `__getattr__` of a package: its imports under `if TYPE_CHECKING:`, each done when it is first needed."""

    @cache
    def modules() -> dict[str, str]:
        tree = ast.parse(Path(str(sys.modules[package].__file__)).read_text(encoding="utf-8"))
        blocks = [block for block in tree.body if isinstance(block, ast.If)]
        imports = [each for block in blocks for each in block.body if isinstance(each, ast.ImportFrom)]
        return {name.name: str(each.module) for each in imports for name in each.names}

    def get(name: str) -> Any:
        if name not in modules():
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if modules()[name] == package:
            return importlib.import_module(f"{package}.{name}")
        value = getattr(importlib.import_module(modules()[name]), name)
        # Kept, so that the next use is a plain attribute: this function takes 3 µs, as long as a lookup.
        setattr(sys.modules[package], name, value)
        return value

    return get
