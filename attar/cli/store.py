"""`attar store …`, `attar export`, `attar import` and `attar shard`: the stores of a library."""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attar.cli import options
from attar.cli.output import columns, error_line, fact_rows, print_json, printable, progress_bar

if TYPE_CHECKING:
    from attar.store.records import Fault

app = typer.Typer(help="Check, repair, compact, refit and describe the store of a library.")

ParquetFile = Annotated[Path, typer.Argument(metavar="FILE.parquet", help="Parquet file.")]


@app.command()
def check(store: options.StorePath, as_json: options.AsJson = False) -> None:
    """Check every page and every record; exit with code 0 only if all are intact.

    attar store check stories
    """
    from attar.store.store import Store

    with Store.open(store, read_only=True) as opened:
        documents = len(opened)
        faults = list(opened.check())
    if as_json:
        print_json(
            {"sound": not faults, "documents": documents, "faults": [asdict(fault) for fault in faults]}
        )
    elif not faults:
        print(f"{documents:,} documents, all intact")
    else:
        print(printable("\n".join(fault.line for fault in faults)))
        print(
            f"attar: keep what is intact and put aside the rest: attar store repair {printable(str(store))}",
            file=sys.stderr,
        )
    if faults:
        raise typer.Exit(2)


@app.command()
def repair(store: options.StorePath, as_json: options.AsJson = False) -> None:
    """Keep the documents that can be read, and put the old file aside in a folder of the store.

    No other process may use the library. An intact store is not changed; an interrupted repair changes nothing.

    attar store repair stories
    """
    from attar.store.repair import repair_store

    done = repair_store(store)
    if as_json:
        faults = [asdict(fault) for fault in done.faults]
        folder = None if done.folder is None else str(done.folder)
        print_json({"documents": done.documents, "faults": faults, "folder": folder})
    elif done.folder is None:
        print(f"{done.documents:,} documents, all intact: nothing to repair")
    else:
        print(printable("\n".join(fault.line for fault in done.faults)))
        print(f"{done.documents:,} documents kept; the old file is in {printable(str(done.folder))}")


@app.command()
def compact(store: options.StorePath, as_json: options.AsJson = False) -> None:
    """Return the space of removed documents to the file system; no other process may use the library.

    attar store compact stories
    """
    from attar.store.store import Store

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
    from attar.store.store import Store

    with Store.open(store, read_only=True) as opened:
        facts = asdict(opened.stats())
    if as_json:
        print_json(facts)
    else:
        print(columns(fact_rows(facts)))


@app.command()
def refit(
    store: options.StorePath,
    reader: options.ReaderPath = None,
    leave_out: Annotated[
        bool,
        typer.Option("--leave-out", help="Go on without documents that have no text: search loses them."),
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Fit the statistics to the library's own documents and recompute all signatures.

    The shards of a folder of shards are fitted together.

    attar store refit stories
    """
    from attar.cluster.shards import is_sharded, refit_shards
    from attar.library.library import Library

    with progress_bar() as progress:
        if is_sharded(store):
            done = refit_shards(store, reader, leave_out=leave_out, progress=progress)
        else:
            with Library(store, reader, create=False) as library:
                done = library.refit(leave_out=leave_out, progress=progress)
    if as_json:
        print_json(done)
        return
    print(f"made {done.signatures:,} signatures")
    if done.left_out:
        print(f"{done.left_out:,} without a kept text are left out: search does not find them")
    if done.damaged:
        print(f"{done.damaged:,} damaged ones are left out: see attar store check")


def export_documents(
    store: options.StorePath,
    file: ParquetFile,
    replace: Annotated[bool, typer.Option("--replace", help="Replace a file that exists already.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Write all documents to a Parquet file, one row per document.

    A document that cannot be read is left out and named; then the exit code is 2.

    attar export stories stories.parquet
    """
    from attar.files import refuse_existing
    from attar.store.parquet import export_store
    from attar.store.store import Store

    if not replace:
        refuse_existing([file], "add --replace, or name another file")
    left_out: list[Fault] = []
    with Store.open(store, read_only=True) as opened:
        count = export_store(opened, file, on_fault=left_out.append)
    if as_json:
        print_json({"exported": count, "file": str(file), "faults": [asdict(fault) for fault in left_out]})
    else:
        print(f"{count:,} documents exported")
    for fault in left_out:
        print(f"{error_line(Exception(fault.line))} (left out)", file=sys.stderr)
    if left_out:
        raise typer.Exit(2)


def import_documents(
    store: options.StorePath,
    file: ParquetFile,
    replace: options.Replace = False,
    max_decompressed_mb: options.MaxDecompressed = 1024,
    as_json: options.AsJson = False,
) -> None:
    """Add the documents of an exported file to a library, which is created if it does not exist.

    attar import copy stories.parquet
    """
    from attar.store.parquet import import_store
    from attar.store.store import Store

    limit = max_decompressed_mb * 2**20
    with Store.open(store) as opened:
        count = import_store(opened, file, replace=replace, max_bytes=limit)
    if as_json:
        print_json({"imported": count})
    else:
        print(f"{count:,} documents imported")


def shard(
    store: options.StorePath,
    into: Annotated[int, typer.Option(min=1, help="Number of shards; 1 joins shards into one store.")],
    out: Annotated[
        Path | None,
        typer.Option(
            help="New folder of the shards, or of the store.", show_default="STORE-N, next to STORE"
        ),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Copy a library into shards, by a hash of the documents' names, or join shards into one library.

    Each shard is a library of its own. The source is not changed, and may be in shards already.

    attar shard stories --into 4

    attar shard stories-4 --into 1 --out stories
    """
    from attar.cluster.shards import split

    if out is None:
        named = store.resolve() if store.name in ("", "..") else store
        out = named.with_name(f"{named.name}-{into}")
    with progress_bar() as progress:
        documents = split(store, out, into, progress)
    if as_json:
        print_json({"documents": documents, "shards": into, "folder": str(out)})
    else:
        where = f"{into:,} shards" if into > 1 else "one library"
        print(f"{documents:,} documents in {where}: {printable(str(out))}")
