"""`attar shard`: a library in several stores; and `attar add --ray`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attar.cli import options
from attar.cli.output import print_json, printable, progress_bar
from attar.errors import OptionError

if TYPE_CHECKING:
    from attar.cli.add import AddOptions, AddReport


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


def add_with_ray(
    store: Path,
    files: list[str],
    address: str,
    reader: Path | None,
    chosen: "AddOptions",
    report: "AddReport",
) -> None:
    """Add documents by the processes of a cluster."""
    if chosen.sync or chosen.tag or chosen.name is not None or files == ["-"]:
        remedy = "leave --sync, --tag, --name and stdin to attar add without --ray"
        raise OptionError("--ray reads files, folders and URLs only", remedy)
    from attar.cluster.reading import Workers, read_with_ray
    from attar.cluster.sources import find_sources

    sources = find_sources(files)
    with report.running(sources.size, sources.skipped) as bar:
        read_with_ray(
            store,
            sources,
            address=address,
            workers=Workers(chosen.actors, chosen.threads, chosen.gpus),
            reader=reader,
            replace=chosen.replace,
            limits=chosen.limits,
            progress=lambda _, done, total: bar.files_read(min(done, total)),
            on_change=report.add,
            on_bad=report.refuse,
            keep_text=chosen.keep_text,
            budget=chosen.budget,
        )
