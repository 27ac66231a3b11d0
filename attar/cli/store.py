"""`attar store check|compact|stats`, `attar export` and `attar import`: the store of a library."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from attar.cli import options
from attar.cli.output import columns, fact_rows, print_json

app = typer.Typer(help="Check, compact and describe the store of a library.", no_args_is_help=True)

ParquetFile = Annotated[Path, typer.Argument(metavar="FILE.parquet", help="Parquet file.")]


@app.command()
def check(store: options.StorePath, as_json: options.AsJson = False) -> None:
    """Check every page and every record; exit with code 0 only if all are intact.

    attar store check stories
    """
    from attar.store import Store

    with Store.open(store, read_only=True) as opened:
        documents = len(opened)
        faults = list(opened.check())
    if as_json:
        print_json({"sound": not faults, "documents": documents, "faults": [asdict(each) for each in faults]})
    elif not faults:
        print(f"{documents:,} documents, all intact")
    else:
        print("\n".join(fault.line for fault in faults))
    if faults:
        raise typer.Exit(2)


@app.command()
def compact(store: options.StorePath, as_json: options.AsJson = False) -> None:
    """Return the space of removed documents to the file system; no other process may use the library.

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
def stats(store: options.StorePath, as_json: options.AsJson = False) -> None:
    """Print the number of documents and tokens, sizes and settings of the store.

    attar store stats stories
    """
    from attar.store import Store

    with Store.open(store, read_only=True) as opened:
        facts = asdict(opened.stats())
    if as_json:
        print_json(facts)
    else:
        print(columns(fact_rows(facts)))


def export_documents(
    store: options.StorePath,
    file: ParquetFile,
    replace: Annotated[bool, typer.Option("--replace", help="Replace a file that exists already.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Write all documents to a Parquet file, one row per document.

    attar export stories stories.parquet
    """
    from attar.files import refuse_existing
    from attar.store import Store, export_store

    if not replace:
        refuse_existing([file], "add --replace, or name another file")
    with Store.open(store, read_only=True) as opened:
        count = export_store(opened, file)
    if as_json:
        print_json({"exported": count, "file": str(file)})
    else:
        print(f"{count:,} documents exported")


def import_documents(
    store: options.StorePath,
    file: ParquetFile,
    replace: options.Replace = False,
    durability: options.Durability = "sync",
    as_json: options.AsJson = False,
) -> None:
    """Add the documents of an exported file to a library, which is created if it does not exist.

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
