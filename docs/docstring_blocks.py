"""Docstrings as the site shows them: doctests and aligned columns stay as they are typed.

Docstrings are written for `help()`. Markdown would take `>>>` for three quotations in each other, and would run
columns of words together; both become blocks of code here.
"""

import re
from typing import Any

from griffe import Extension, Object

# Words in columns: a gap of three spaces inside of a line.
COLUMNS = re.compile(r"\S {3,}\S")


class DocstringBlocks(Extension):
    """Fences what is laid out by hand in every docstring that is collected."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Change a docstring before it is read as Markdown."""
        if obj.docstring is not None:
            obj.docstring.value = with_fences(obj.docstring.value)


def with_fences(docstring: str) -> str:
    """The docstring with fences around its doctests and its columns."""
    return "\n\n".join(fenced(part) for part in re.split(r"\n{2,}", docstring))


def fenced(part: str) -> str:
    """One paragraph, in a fence if it is laid out by hand and is no table of Markdown's own."""
    if part.startswith(">>>"):
        return f"```pycon\n{part}\n```"
    if COLUMNS.search(part) and not part.lstrip().startswith("|"):
        return f"```text\n{part}\n```"
    return part
