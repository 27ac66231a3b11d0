"""What the commands in this folder share: options, and how one is run."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from attar.errors import AttarError

ReaderFolder = Annotated[
    Path | None, typer.Option("--reader", help="A reader's folder, or the name of a shipped one.")
]
Only = Annotated[str | None, typer.Option(help="Only rows whose name contains this text.")]
Quick = Annotated[bool, typer.Option("--quick", help="Tiny sizes, to test that it runs; nothing is judged.")]


def run_command(main: Callable[..., None]) -> None:
    """Run a command; a mistake in its options is one line on stderr and exit code 2, as in `attar`."""
    try:
        typer.run(main)
    except AttarError as mistake:
        print(mistake, file=sys.stderr)
        sys.exit(2)
