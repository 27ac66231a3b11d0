"""Arguments and options that the commands on a library share."""

from pathlib import Path
from typing import Annotated

import typer

StorePath = Annotated[Path, typer.Argument(metavar="STORE", help="The library's folder.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="A document's name.")]
Names = Annotated[list[str], typer.Argument(metavar="NAME…", help="Documents' names.")]
ReaderPath = Annotated[
    Path | None, typer.Option("--reader", help="A reader's folder; the one in the package otherwise.")
]
Durability = Annotated[
    str, typer.Option(help="sync: on the disk; relaxed, none: less, when the power fails.")
]
Replace = Annotated[bool, typer.Option("--replace", help="Replace what has the name already.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
