"""`attar mcp`: a library for language models, over the Model Context Protocol."""

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attar.cli import options
from attar.errors import needs_extra

if TYPE_CHECKING:
    from attar.library.served import ServedLibrary


def mcp(
    store: options.StorePath,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Serve HTTP on this port of 127.0.0.1; 0 picks a free one."),
    ] = None,
    reader: options.ReaderPath = None,
) -> None:
    """Let programs with a language model ask, search and read a library, as tools of an MCP server.

    By default it speaks over stdin and stdout to the program that started it. Nothing is changed.

    attar mcp stories

    attar mcp stories --port 8001
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    with needs_extra("attar mcp", "mcp"):
        from attar.integrations.mcp import make_server, serve_http
    library = _opened(store, reader)
    try:
        library.prepare()
        with suppress(KeyboardInterrupt):
            if port is None:
                make_server(library).run("stdio")
            else:
                serve_http(library, port, lambda url: print(f"attar: {store} at {url}", file=sys.stderr))
    finally:
        library.close()


def _opened(store: Path, reader: Path | None) -> "ServedLibrary":
    from attar.cluster.shards import is_sharded

    if is_sharded(store):
        from attar.cluster.serving import open_shards
        from attar.server.settings import Settings

        return open_shards(Settings(store=store, reader=reader, read_only=True))
    from attar.library.library import Library

    return Library(store, reader, read_only=True)
