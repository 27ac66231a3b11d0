"""Options that several commands share, and flags derived from the fields of a dataclass."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import MISSING, Field, fields
from datetime import date
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from attar.library.library import Library
    from attar.results import Subset

StorePath = Annotated[Path, typer.Argument(metavar="STORE", help="Folder of the library.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the document, or its beginning.")]
Names = Annotated[list[str], typer.Argument(metavar="NAME…", help="Names of documents, in full.")]
ReaderPath = Annotated[
    Path | None,
    typer.Option(
        "--reader",
        help="A reader's folder, or one of the package: answers (default) or fixed (at most 16 kB per document).",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Replace = Annotated[bool, typer.Option("--replace", help="Replace what has this name already.")]
Resume = Annotated[bool, typer.Option("--resume", help="Continue a run that was stopped.")]
RayAddress = Annotated[
    str | None,
    typer.Option(
        "--ray",
        metavar="[ADDRESS]",
        help="Use the Ray cluster at HOST:PORT or auto; without an address, start Ray on this machine.",
    ),
]

Command = Callable[..., None]


def _day_of(written: str) -> date:
    try:
        return date.fromisoformat(written)
    except ValueError:
        raise typer.BadParameter(f"{written!r} is no day; write it as in 2026-01-31") from None


def subset_of(
    names: Annotated[
        list[str] | None,
        typer.Option("--name", help="Only this document; may be repeated."),
    ] = None,
    folder: Annotated[
        str | None,
        typer.Option("--in", metavar="FOLDER", help="Only documents from files below this folder."),
    ] = None,
    tags: Annotated[
        list[str] | None, typer.Option("--tag", help="Only documents with this tag; may be repeated.")
    ] = None,
    since: Annotated[
        date | None,
        typer.Option(
            parser=_day_of,
            metavar="DAY",
            help="Only documents from this day on: their own date, or the day they were added.",
        ),
    ] = None,
) -> "Subset":
    """The documents that these options choose; a folder that exists is meant by its whole path."""
    from attar.results import Subset

    if folder and Path(folder).is_dir():
        folder = str(Path(folder).absolute())
    return Subset(tuple(names or ()), folder or "", tuple(tags or ()), since)


def check_names(library: "Library", within: "Subset") -> None:
    """Refuse a name that no document has: left out in silence, a mistyped one would narrow the choice."""
    from attar.errors import UnknownDocumentError

    for name in within.names:
        similar = library.similar(name)
        if similar is not None:  # no document has this name
            raise UnknownDocumentError.named(name, similar)


def choosing_documents(command: Command) -> Command:
    """Give a command the options of `subset_of`, which its keyword arguments `**chosen` are for."""
    options = signature(subset_of).parameters.values()
    return _extended(command, after=[option.replace(kind=Parameter.KEYWORD_ONLY) for option in options])


_FLAG_TYPES: Mapping[Any, Any] = {
    tuple[str, ...]: list[str],
    Path | None: Path | None,
    str | None: str | None,
    int | None: int | None,
}


def options_from(
    options: type, *, omit: Collection[str] = (), **defaults: Any
) -> Callable[[Command], Command]:
    """Give a command one flag per field of a dataclass; it receives the values as keyword arguments `**given`.

    Required flags come first. Fields without a help text have no flag. `defaults` replace those of the dataclass.
    """
    derived = [
        _flag(option, defaults.get(option.name, option.default))
        for option in sorted(fields(options), key=lambda option: option.default is not MISSING)
        if option.metadata.get("help") and option.name not in omit
    ]

    return lambda command: _extended(command, before=derived)


def _extended(
    command: Command, *, before: Sequence[Parameter] = (), after: Sequence[Parameter] = ()
) -> Command:
    """The command with more options, which it receives as `**` arguments."""
    whole = signature(command)
    written = [
        parameter.replace(kind=Parameter.KEYWORD_ONLY)
        for parameter in whole.parameters.values()
        if parameter.kind is not Parameter.VAR_KEYWORD
    ]
    command.__signature__ = whole.replace(parameters=[*before, *written, *after])  # type: ignore[attr-defined]
    return command


def _flag(option: "Field[Any]", default: Any) -> Parameter:
    kind = option.type if option.type in (bool, int, float, str) else _FLAG_TYPES.get(option.type, str)
    metadata = option.metadata
    names = ("--" + option.name.replace("_", "-"), *metadata.get("flags", ()))
    info = typer.Option(
        # A switch that is on has a second name, which turns it off.
        *("/".join(names),) if default is True else names,
        help=metadata["help"],
        # The dataclass checks floats itself: its message about "nan" is one line.
        min=metadata.get("min") if kind in (int, int | None) else None,
        max=metadata.get("max") if kind in (int, int | None) else None,
    )
    empty = Parameter.empty if default is MISSING else default
    return Parameter(option.name, Parameter.KEYWORD_ONLY, default=empty, annotation=Annotated[kind, info])
