"""`attar shard`: a library in several stores."""

from pathlib import Path
from typing import Annotated

import typer

from attar.cli import options
from attar.cli.output import print_json, printable, progress_bar


def shard(
    store: options.StorePath,
    into: Annotated[int, typer.Option(min=1, help="Number of shards; 1 joins shards into one store.")],
    out: Annotated[Path, typer.Option(help="New folder of the shards, or of the store.")],
    as_json: options.AsJson = False,
) -> None:
    """Copy a library into shards, by a hash of the documents' names, or join shards into one library.

    Each shard is a library of its own. The source is not changed, and may be in shards already.

    attar shard stories --into 4 --out stories-4
    """
    from attar.cluster import split

    with progress_bar() as progress:
        documents = split(store, out, into, progress)
    if as_json:
        print_json({"documents": documents, "shards": into, "folder": str(out)})
    else:
        where = f"{into:,} shards" if into > 1 else "one library"
        print(f"{documents:,} documents in {where}: {printable(str(out))}")
