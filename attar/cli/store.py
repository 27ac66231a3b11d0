"""`attar store …`, `attar export`, `attar import` and `attar shard`: the stores of a library."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attar.cli import options
from attar.cli.output import columns, fact_rows, print_note, print_result, printable, progress_bar
from attar.errors import OptionError

if TYPE_CHECKING:
    from attar.store.records import Fault

app = typer.Typer(help="Check, repair and compact a library.")

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
    report = {"sound": not faults, "documents": documents, "faults": faults}
    lines = printable("\n".join(fault.line for fault in faults))
    print_result(report, lines or f"{documents:,} documents, all intact", as_json=as_json)
    if faults:
        print_note(f"keep what is intact and put aside the rest: attar store repair {store}")
        raise typer.Exit(2)


@app.command()
def repair(store: options.StorePath, as_json: options.AsJson = False) -> None:
    """Keep the documents that can be read, and put the old file aside in a folder of the store.

    No other process may use the library. An intact store is not changed; an interrupted repair changes nothing.

    attar store repair stories
    """
    from attar.store.repair import repair_store

    done = repair_store(store)
    folder = None if done.folder is None else str(done.folder)
    lines = [fault.line for fault in done.faults]
    if folder is None:
        lines.append(f"{done.documents:,} documents, all intact: nothing to repair")
    else:
        lines.append(f"{done.documents:,} documents kept; the old file is in {folder}")
    report = {"documents": done.documents, "faults": done.faults, "folder": folder}
    print_result(report, printable("\n".join(lines)), as_json=as_json)


@app.command()
def compact(store: options.StorePath, as_json: options.AsJson = False) -> None:
    """Return the space of removed documents to the file system; no other process may use the library.

    attar store compact stories
    """
    from attar.store.store import Store

    with Store.open(store, create=False) as opened:
        saved = opened.compact()
    print_result({"saved_bytes": saved}, f"{saved:,} bytes saved", as_json=as_json)


@app.command()
def stats(store: options.StorePath, as_json: options.AsJson = False) -> None:
    """Print the number of documents and tokens, sizes and settings of the store.

    attar store stats stories
    """
    from attar.store.store import Store

    with Store.open(store, read_only=True) as opened:
        facts = asdict(opened.stats())
    print_result(facts, columns(fact_rows(facts)), as_json=as_json)


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
    lines = [f"made {done.signatures:,} signatures"]
    if done.left_out:
        lines.append(f"{done.left_out:,} without a kept text are left out: search does not find them")
    if done.damaged:
        lines.append(f"{done.damaged:,} damaged ones are left out: see attar store check")
    print_result(done, "\n".join(lines), as_json=as_json)


def export_documents(
    store: options.StorePath,
    file: ParquetFile,
    replace: options.Replace = False,
    as_json: options.AsJson = False,
) -> None:
    """Write all documents to a Parquet file.

    Each document is a row. A document that cannot be read is left out and named; then the exit code is 2.

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
    report = {"exported": count, "file": str(file), "faults": left_out}
    print_result(report, f"{count:,} documents exported", as_json=as_json)
    for fault in left_out:
        print_note(f"{fault.line} (left out)")
    if left_out:
        raise typer.Exit(2)


def import_documents(
    store: options.StorePath,
    file: ParquetFile,
    replace: options.Replace = False,
    max_decompressed_mb: Annotated[
        int, typer.Option(min=1, help="Maximum size of decompressed data in memory, in MB; more is refused.")
    ] = 1024,
    as_json: options.AsJson = False,
) -> None:
    """Add the documents of an exported file.

    A missing library is created.

    attar import copy stories.parquet
    """
    from attar.store.parquet import import_store
    from attar.store.store import Store

    if not file.is_file():  # before a library is created
        raise OptionError(f"there is no file {file}", "check the path")
    with Store.open(store) as opened:
        count = import_store(opened, file, replace=replace, max_bytes=max_decompressed_mb * 2**20)
    print_result({"imported": count}, f"{count:,} documents imported", as_json=as_json)


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
    """Copy a library into shards, or join shards.

    A hash of a document's name decides its shard. Each shard is a library of its own. The source is not changed, and
    may be in shards already.

    attar shard stories --into 4

    attar shard stories-4 --into 1 --out stories
    """
    from attar.cluster.shards import split

    if out is None:
        named = store.resolve() if store.name in ("", "..") else store
        out = named.with_name(f"{named.name}-{into}")
    with progress_bar() as progress:
        documents = split(store, out, into, progress)
    where = f"{into:,} shards" if into > 1 else "one library"
    report = {"documents": documents, "shards": into, "folder": str(out)}
    print_result(report, f"{documents:,} documents in {where}: {printable(str(out))}", as_json=as_json)
