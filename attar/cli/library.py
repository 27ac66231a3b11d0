"""The documents and stores of a library: `attar list`, `show`, `merge`, `store check` and so on."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attar.cli import options
from attar.cli.output import (
    change_line,
    columns,
    fact_rows,
    one_line,
    print_json,
    print_note,
    print_result,
    printable,
    progress_bar,
)  # fmt: skip
from attar.errors import OptionError

if TYPE_CHECKING:
    from attar.store.records import Fault

app = typer.Typer(help="Check, repair and compact a library.")

ParquetFile = Annotated[Path, typer.Argument(metavar="FILE.parquet", help="Parquet file.")]


@options.choosing_documents
def list_documents(
    store: options.StorePath,
    after: Annotated[str | None, typer.Option(help="Only names after this one.")] = None,
    limit: Annotated[int | None, typer.Option(min=0, help="Maximum number of documents.")] = None,
    as_json: options.AsJson = False,
    **chosen: Any,
) -> None:
    """List documents with their sizes and tags.

    attar list stories --limit 20
    """
    from attar.library.library import Library

    within = options.subset_of(**chosen)
    with Library(store, read_only=True) as library:
        options.check_names(library, within)
        documents = library.documents(after=after, limit=limit, within=within)
        if as_json:
            print_json({"documents": list(documents)})
            return
        print(f"{'tokens':>12}  {'bytes':>10}  name")
        for document in documents:
            if document.fault is not None:
                print(f"{'damaged':>12}  {'':>10}  {one_line(document.name)}: {printable(document.fault)}")
            else:
                missing = f"  (incomplete, without {document.incomplete})" if document.incomplete else ""
                tags = f"  [{printable(', '.join(document.tags))}]" if document.tags else ""
                name = f"{one_line(document.name)}{tags}{missing}"
                print(f"{document.tokens:>12,}  {document.bytes:>10,}  {name}")


def show(store: options.StorePath, name: options.Name, as_json: options.AsJson = False) -> None:
    """Show a document: its size, source, times and text.

    attar show stories emma
    """
    import msgspec

    from attar.library.documents import find_document
    from attar.library.library import Library

    with Library(store, read_only=True) as library:
        document = library.show(find_document(library.store, name))
    fields = msgspec.to_builtins(document)
    text = fields.pop("text")
    labels = {
        "tags": ", ".join(document.tags),
        "metadata": ", ".join(f"{key}: {value}" for key, value in document.metadata.items()),
    }
    rows = fact_rows(fields | labels | {"name": one_line(document.name)})
    facts = columns([row for row in rows if row[1] not in ("", "None")])
    print_result(document, facts if text is None else f"{facts}\n\n{printable(text)}", as_json=as_json)


def merge(
    store: options.StorePath,
    new: Annotated[str, typer.Argument(metavar="NEW", help="Name of the merged document.")],
    names: options.Names,
    title: Annotated[str, typer.Option(help="Title of the merged document.")] = "",
    replace: options.Replace = False,
    as_json: options.AsJson = False,
) -> None:
    """Merge several documents into a new one.

    Their memories are added; the documents stay.

    attar merge stories austen emma persuasion
    """
    from attar.library.library import Library

    with Library(store, create=False) as library:
        change = library.merge(new, names, title=title, replace=replace)
    print_result(change, change_line(change), as_json=as_json)


def remove(store: options.StorePath, names: options.Names, as_json: options.AsJson = False) -> None:
    """Remove documents: all that are named, or none.

    None is removed if one is missing. Names must be whole.

    attar remove stories emma
    """
    from attar.library.library import Library

    with Library(store, create=False) as library:
        library.remove(*names)
    lines = "\n".join(f"removed {one_line(name)}" for name in names)
    print_result({"removed": names}, lines, as_json=as_json)


def tag(
    store: options.StorePath,
    names: options.Names,
    add: Annotated[list[str] | None, typer.Option(help="A tag to add; may be repeated.")] = None,
    remove: Annotated[list[str] | None, typer.Option(help="A tag to take away; may be repeated.")] = None,
    as_json: options.AsJson = False,
) -> None:
    """Add tags to documents, or take them away.

    If one document is missing, none is changed.

    attar tag stories emma persuasion --add austen --remove unread
    """
    from attar.library.library import Library

    if not add and not remove:
        raise OptionError("no tag", "give --add TAG or --remove TAG")
    with Library(store, create=False) as library:
        library.tag(*names, add=add or (), remove=remove or ())
        tags = {name: library.show(name).tags for name in names}
    lines = [f"{one_line(name)}: {printable(', '.join(tags[name])) or 'no tags'}" for name in names]
    print_result({"tags": tags}, "\n".join(lines), as_json=as_json)


def reread(
    store: options.StorePath,
    reader: options.ReaderPath = None,
    as_json: options.AsJson = False,
) -> None:
    """Move a library to another reader.

    All kept texts are read again. Meanwhile the library answers with the old reader, and documents can be added; it
    switches when all texts are read. After an interruption the same command continues.

    attar reread stories
    """
    from attar.library.library import Library

    with Library(store, create=False) as library, progress_bar() as progress:
        try:
            done = library.reread(reader, progress=progress)
        except KeyboardInterrupt:
            print_note("stopped; the library is as it was, and the same command continues from here")
            raise typer.Exit(130) from None
    name = f"{one_line(str(reader or 'answers'))} ({done.reader[:12]})"
    line = f"{done.documents:,} documents have the reader {name}; {done.read:,} were read"
    print_result(done, line, as_json=as_json)


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
        lines.append(f"{done.left_out:,} without a kept text, or damaged: search does not find them")
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
