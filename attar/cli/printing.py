"""What commands on a library print: names that fit a line, changes, and columns."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attar.results import Change

LONGEST = 72


def shown(name: str) -> str:
    r"""A name on one line, and not too long.

    >>> shown("Emma, ch. 1"), shown("a\nb")
    ('Emma, ch. 1', "'a\\nb'")
    """
    short = name if len(name) <= LONGEST else name[: LONGEST - 1] + "…"
    return short if short.isprintable() else repr(short)


def fault_line(fault: Exception) -> str:
    """What is wrong, on one line whatever the paths in it hold."""
    return "attar: " + str(fault).replace("\n", "\\n")


def change_line(change: "Change") -> str:
    """A change as a line."""
    return f"{change.change} {shown(change.name)}: {change.tokens:,} tokens, {change.bytes:,} bytes"


def columns(rows: Sequence[Sequence[str]]) -> str:
    """Rows with their columns below each other.

    >>> print(columns([("Ann Lee", "0.75"), ("Bob", "0.25")]))
    Ann Lee  0.75
    Bob      0.25
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def print_json(value: Any) -> None:
    """Print a value, result types included, as one line of JSON."""
    import msgspec

    print(json.dumps(msgspec.to_builtins(value)))
