"""Options declared once: a dataclass field carries its default, help text, range and former name.

The command line derives its flags from these fields (`attar.cli.options`).
"""

import math
from collections.abc import Mapping
from dataclasses import MISSING, field, fields
from typing import Any

from attar.errors import OptionError


def option(
    default: Any = MISSING,
    help: str = "",
    *flags: str,
    former: str = "",
    min: float | None = None,
    max: float | None = None,
    repr: bool = True,
) -> Any:
    """A dataclass field with a help text; `flags` are more names on the command line, such as "-d".

    `former` is the field's name in version 0.1: files keep it, and the command line accepts it until 0.3.
    """
    metadata = {"help": help, "flags": flags, "former": former, "min": min, "max": max}
    return field(default=default, metadata=metadata, repr=repr)


def check_ranges(options: Any) -> None:
    """Refuse numbers that are not finite or lie outside their field's range.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Options:
    ...     epochs: int = option(3, "Epochs.", min=1)
    >>> check_ranges(Options(0))
    Traceback (most recent call last):
    attar.errors.OptionError: epochs: expected 1 or more, got 0
    """
    for each in fields(options):
        value, low, high = getattr(options, each.name), each.metadata.get("min"), each.metadata.get("max")
        if isinstance(value, float) and not math.isfinite(value):
            raise OptionError(each.name, "a finite number", str(value))
        if low is not None and value < low:
            raise OptionError(each.name, f"{low} or more", str(value))
        if high is not None and value > high:
            raise OptionError(each.name, f"{high} or less", str(value))


def former_names(options: type) -> dict[str, str]:
    """Each renamed field's name, and its name in version 0.1."""
    return {each.name: each.metadata["former"] for each in fields(options) if each.metadata.get("former")}


def rename(values: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """The same values under other names; names that are not listed stay.

    >>> rename({"lr": 0.1, "epochs": 3}, {"lr": "rate"})
    {'rate': 0.1, 'epochs': 3}
    """
    return {names.get(name, name): value for name, value in values.items()}
