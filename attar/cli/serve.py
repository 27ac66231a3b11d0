"""`attar serve`: a library over HTTP."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from attar.cli import options
from attar.errors import MissingError, OptionError


def serve(
    store: options.StorePath,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 for any free one.")] = 8000,
    workers: Annotated[int, typer.Option(min=1, max=64, help="Number of server processes.")] = 1,
    token: Annotated[
        str | None, typer.Option(help="Bearer token that clients must send; visible to local users in ps.")
    ] = None,
    token_file: Annotated[Path | None, typer.Option(help="File whose first line is the token.")] = None,
    no_token: Annotated[
        bool, typer.Option("--no-token", help="Allow requests without a token from any host.")
    ] = False,
    read_only: Annotated[bool, typer.Option("--read-only", help="Answer only; refuse changes.")] = False,
    keep_text: Annotated[
        bool, typer.Option("--keep-text", help="Store the text of new documents with the memory.")
    ] = False,
    reader: options.ReaderPath = None,
    max_body: Annotated[int, typer.Option(help="Maximum bytes per request.")] = 16 * 2**20,
    max_text: Annotated[int, typer.Option(help="Maximum characters per text.")] = 4_000_000,
    max_questions: Annotated[int, typer.Option(help="Maximum questions or vectors per request.")] = 1_024,
    max_concurrent: Annotated[int, typer.Option(help="Maximum concurrent requests per process.")] = 256,
    max_queue: Annotated[int, typer.Option(help="Maximum waiting questions per process.")] = 4_096,
    max_batch: Annotated[int, typer.Option(help="Maximum questions per batch; 1 disables batching.")] = 256,
    timeout: Annotated[float, typer.Option(help="Timeout per request in seconds.")] = 30.0,
    log_format: Annotated[str, typer.Option(help="plain or json.")] = "plain",
    log_level: Annotated[
        str, typer.Option(help="info: log every request; warning: only refused ones.")
    ] = "info",
    ssl_keyfile: Annotated[Path | None, typer.Option(help="TLS private key.")] = None,
    ssl_certfile: Annotated[Path | None, typer.Option(help="TLS certificate; enables https.")] = None,
    ssl_keyfile_password: Annotated[str | None, typer.Option(help="Password of the private key.")] = None,
) -> None:
    """Serve a library over HTTP, with a web page at / and the API reference at /docs; stop it with Ctrl+C.

    A missing library is created, except with --read-only.

    attar serve stories --port 8000
    """
    # Read when numpy loads its BLAS, here and in worker processes: each process uses one thread, so that several
    # share the cores.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    try:
        from attar.server import Place, listen
        from attar.server import serve as run
    except ModuleNotFoundError as fault:
        part = str(fault.name).partition(".")[0]
        if part not in ("starlette", "uvicorn", "httptools"):
            raise
        raise MissingError(
            "attar serve", "the server's packages", f"no {part}", "pip install 'attar[server]'"
        ) from fault
    from attar.library import Library
    from attar.server import LOOPBACK_HOSTS, Settings, check_open, is_loopback, token_in

    if token is not None and token_file is not None:
        raise OptionError("token", "--token or --token-file", "both")
    secret = token_in(token_file) if token_file is not None else token
    check_open(host, secret, no_token)
    for file in (ssl_keyfile, ssl_certfile):
        if file is not None and not file.is_file():
            raise OptionError("TLS", "files with a certificate and its key", f"{file}, which does not exist")
    settings = Settings(
        store,
        reader,
        secret,
        read_only,
        keep_text,
        max_body,
        max_text,
        max_questions,
        max_concurrent,
        max_queue,
        max_batch,
        timeout,
        LOOPBACK_HOSTS | {host} if secret is None and is_loopback(host) else frozenset(),
        log_format,
        log_level,
    )
    place = Place(host, port, workers, ssl_keyfile, ssl_certfile, ssl_keyfile_password)
    # An address in use is reported before a library is created.
    for socket in listen(place):
        socket.close()
    new = not read_only and _is_new(store)
    # Errors of the store or its reader are reported once, here, and not by every process.
    with Library(store, reader, read_only=read_only, create=not read_only) as library:
        library.reader  # noqa: B018  # loads on first use
    if new:
        print(f"attar: new library at {store}", file=sys.stderr)
    run(settings, place)


def _is_new(store: Path) -> bool:
    """Whether there is no library yet; its parent folder must exist."""
    from attar.store import DATA

    parent = store.absolute().parent
    if not parent.is_dir():
        raise OptionError(
            "STORE", "a library or a path for a new one", f"no folder {parent}", "check the path"
        )
    return not (store / DATA).exists()
