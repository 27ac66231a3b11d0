"""`attar store check|compact|stats`, `attar export` and `attar import`: a library's store as a whole."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from attar.cli import arguments
from attar.cli.printing import columns, print_json

app = typer.Typer(help="Look after a library's store.", no_args_is_help=True)

ParquetFile = Annotated[Path, typer.Argument(metavar="FILE.parquet", help="A Parquet file.")]


@app.command()
def check(store: arguments.StorePath, as_json: arguments.AsJson = False) -> None:
    """Go through every page and every record; exit with 0 only if all are sound.

    attar store check stories
    """
    from attar.store import Store

    with Store.open(store, read_only=True) as opened:
        documents = len(opened)
        faults = list(opened.check())
    if as_json:
        print_json({"sound": not faults, "documents": documents, "faults": [asdict(each) for each in faults]})
    elif not faults:
        print(f"{documents:,} documents, all sound")
    else:
        print("\n".join(fault.line for fault in faults))
    if faults:
        raise typer.Exit(2)


@app.command()
def compact(store: arguments.StorePath, as_json: arguments.AsJson = False) -> None:
    """Give the space of what was removed back to the disk; nobody else may have the library open.

    attar store compact stories
    """
    from attar.store import Store

    with Store.open(store, create=False) as opened:
        saved = opened.compact()
    if as_json:
        print_json({"saved_bytes": saved})
    else:
        print(f"{saved:,} bytes saved")


@app.command()
def stats(store: arguments.StorePath, as_json: arguments.AsJson = False) -> None:
    """Tell how much of everything there is.

    attar store stats stories
    """
    from attar.store import Store

    with Store.open(store, read_only=True) as opened:
        told = asdict(opened.stats())
    if as_json:
        print_json(told)
        return
    rows = [(word, f"{value:,}" if isinstance(value, int) else str(value)) for word, value in told.items()]
    print(columns(rows))


def export_documents(
    store: arguments.StorePath, file: ParquetFile, as_json: arguments.AsJson = False
) -> None:
    """Write all documents into a Parquet file, one row each.

    attar export stories stories.parquet
    """
    from attar.store import Store, export_store

    with Store.open(store, read_only=True) as opened:
        count = export_store(opened, file)
    if as_json:
        print_json({"exported": count, "file": str(file)})
    else:
        print(f"{count:,} documents exported")


def import_documents(
    store: arguments.StorePath,
    file: ParquetFile,
    replace: arguments.Replace = False,
    durability: arguments.Durability = "sync",
    as_json: arguments.AsJson = False,
) -> None:
    """Write the documents of an exported file into a library, or into a new one.

    attar import copy stories.parquet
    """
    from attar.library import open_store
    from attar.store import import_store, read_export_info

    info = read_export_info(file)
    with open_store(store, None, new_dtype=info.dtype, durability=durability) as opened:  # type: ignore[arg-type]
        count = import_store(opened, file, replace=replace)
    if as_json:
        print_json({"imported": count})
    else:
        print(f"{count:,} documents imported")
