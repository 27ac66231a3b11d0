"""Tensors and what is said about them as one safetensors file: written whole or not at all, opened as a memory map."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attar.errors import AttarError, FormatError


def save_tensors(path: str | Path, tensors: dict[str, Tensor], about: dict[str, str]) -> None:
    """Write a file, replacing an earlier one when it is whole."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    from attar.files import atomic_file

    try:
        with atomic_file(Path(path)) as partial:
            save_file(tensors, partial, about)
    except (OSError, SafetensorError) as fault:
        raise AttarError(f"cannot write {path} ({fault})", "name a file in a folder that exists") from fault


@contextmanager
def open_tensors(
    path: str | Path, form: str, device: torch.device | str
) -> Iterator[tuple[Any, dict[str, str]]]:
    """A file's tensors (`get_tensor`) and what is said about them; another form, or a damaged file, is refused."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt", str(device)) as file:
            about = file.metadata() or {}
            if about.get("format") != form:
                raise ValueError(f"its format is {about.get('format', 'unknown')}")
            yield file, about
    except (OSError, SafetensorError, KeyError, TypeError, ValueError) as fault:
        if isinstance(fault, AttarError):
            raise
        raise FormatError(f"{path} is not a file of {form!r} ({fault})") from fault
