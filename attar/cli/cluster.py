"""`attar shard`: a library in several stores."""

from pathlib import Path
from typing import Annotated

import typer

from attar.cli import options
from attar.cli.output import print_json, printable, progress_bar


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
    from attar.cluster import split

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
