"""`attar serve`: a library over HTTP; and `attar mcp`: one for language models, over the Model Context Protocol."""

import os
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attar.cli import options
from attar.cli.output import print_note
from attar.errors import OptionError, needs_extra
from attar.server.settings import LOOPBACK_HOSTS, Address, Settings, is_loopback, read_tokens, require_token

if TYPE_CHECKING:
    from attar.library.library import Library


@options.options_from(Address)
@options.options_from(Settings, omit=("store",))
def serve(
    store: options.StorePath,
    token_file: Annotated[Path | None, typer.Option(help="File whose first line is the token.")] = None,
    read_token_file: Annotated[
        Path | None, typer.Option(help="File of tokens, one per line, that may ask but not change.")
    ] = None,
    no_token: Annotated[
        bool, typer.Option("--no-token", help="Allow requests without a token from any host.")
    ] = False,
    ray: options.RayAddress = None,
    **given: Any,
) -> None:
    """Serve a library over HTTP, with a web page.

    The page is at /, the API reference at /docs; Ctrl+C stops the server. A missing library is created, except with
    --read-only. STORE may be a folder of shards (attar shard).

    attar serve stories --port 8000

    attar serve stories-4 --ray
    """
    # Read when numpy loads its BLAS, here and in worker processes: each process uses one thread, so that several
    # share the cores.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with needs_extra("attar serve", "server"):
        from attar.server.run import listen
        from attar.server.run import serve as run
    from attar.cluster.shards import is_sharded

    address = Address(**{field.name: given.pop(field.name) for field in fields(Address)})
    token = None if token_file is None else read_tokens("--token-file", token_file)[0]
    readers = [] if read_token_file is None else read_tokens("--read-token-file", read_token_file)
    require_token(address.host, token, no_token)
    for file in (address.ssl_keyfile, address.ssl_certfile):
        if file is not None and not file.is_file():
            raise OptionError(f"there is no file {file} for TLS")
    hosts = LOOPBACK_HOSTS | {address.host} if token is None and is_loopback(address.host) else frozenset()
    settings = Settings(store=store, hosts=hosts, token=token, read_tokens=frozenset(readers), **given)
    in_shards = is_sharded(store) or ray is not None
    if settings.watch is not None:
        if in_shards:
            raise OptionError("--watch is for a library without shards", "add files with attar add --ray")
        if not settings.watch.is_dir():
            raise OptionError(f"--watch: there is no folder {settings.watch}", "check the path")
        with needs_extra("--watch", "watch"):
            import watchfiles  # noqa: F401
    # An address in use is reported before a library is created.
    listen(address).close()
    if in_shards:
        _serve_shards(settings, address, ray)
        return
    library = _checked_library(settings)
    if address.workers == 1:
        run(settings, address, library)
    else:
        library.close()
        run(settings, address)


def _checked_library(settings: Settings) -> "Library":
    """The library with its reader: errors are reported once, and not by every process; creates a missing one."""
    from attar.server.settings import open_library
    from attar.store.store import Store

    store = settings.store
    is_new = not settings.read_only and not Store.exists(store)
    if is_new and not store.absolute().parent.is_dir():
        raise OptionError(f"there is no folder {store.absolute().parent} for a new library", "check the path")
    library = open_library(settings)
    try:
        library.reader.prepare(texts=False)
    except BaseException:
        library.close()
        raise
    if is_new:
        print_note(f"new library at {store}")
    return library


def _serve_shards(settings: Settings, address: Address, ray: str | None) -> None:
    """Serve a folder of shards, each in this process, or in processes of Ray."""
    from attar.cluster.serving import open_shards, served_shards
    from attar.cluster.shards import is_sharded
    from attar.server.run import serve as run

    if not settings.store.exists():
        raise OptionError(f"there is no folder {settings.store}", "check the path")
    if not is_sharded(settings.store):
        remedy = f"make shards: attar shard {settings.store} --into 2"
        raise OptionError(f"--ray serves shards, and {settings.store} has none", remedy)
    if address.workers > 1:
        raise OptionError("--workers is for a library without shards", "leave it out, or make more shards")
    if ray is None:
        run(settings, address, open_shards(settings))
        return
    with served_shards(settings, None if ray == "local" else ray) as library:
        run(settings, address, library)


def mcp(
    store: options.StorePath,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Serve HTTP on this port of 127.0.0.1; 0 picks a free one."),
    ] = None,
    reader: options.ReaderPath = None,
) -> None:
    """Let language models use a library, over MCP.

    Its tools ask, search and read; nothing is changed. By default it speaks over stdin and stdout to the program that
    started it.

    attar mcp stories

    attar mcp stories --port 8001
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    with needs_extra("attar mcp", "mcp"):
        from attar.integrations.mcp import make_server, serve_http
    from attar.library.library import Library

    with Library(store, reader, read_only=True) as library, suppress(KeyboardInterrupt):
        library.prepare()
        if port is None:
            make_server(library).run("stdio")
        else:
            serve_http(library, port, lambda url: print_note(f"{store} at {url}"))
