"""`attar serve`: a library behind HTTP."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from attar.cli import arguments
from attar.errors import MissingError, OptionError


def serve(
    store: arguments.StorePath,
    host: Annotated[str, typer.Option(help="The address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Its port; 0 for any that is free.")] = 8000,
    workers: Annotated[int, typer.Option(min=1, max=64, help="Processes that answer.")] = 1,
    token: Annotated[
        str | None, typer.Option(help="What clients must send as a bearer; others here can see it in ps.")
    ] = None,
    token_file: Annotated[Path | None, typer.Option(help="A file whose first line is the token.")] = None,
    no_token: Annotated[bool, typer.Option("--no-token", help="Let everybody in, wherever from.")] = False,
    read_only: Annotated[bool, typer.Option("--read-only", help="Answer, and change nothing.")] = False,
    keep_text: Annotated[
        bool, typer.Option("--keep-text", help="Keep the text of what is put beside its memory.")
    ] = False,
    reader: arguments.ReaderPath = None,
    max_body: Annotated[int, typer.Option(help="Bytes of a request.")] = 16 * 2**20,
    max_text: Annotated[int, typer.Option(help="Characters of a text.")] = 4_000_000,
    max_questions: Annotated[int, typer.Option(help="Questions, or vectors, a request.")] = 1_024,
    max_concurrent: Annotated[int, typer.Option(help="Requests at a time, a process.")] = 256,
    max_queue: Annotated[int, typer.Option(help="Questions that wait, a process.")] = 4_096,
    max_batch: Annotated[
        int, typer.Option(help="Questions answered at once; 1: one after the other, which is slower.")
    ] = 256,
    timeout: Annotated[float, typer.Option(help="Seconds a request.")] = 30.0,
    log_format: Annotated[str, typer.Option(help="plain or json.")] = "plain",
    log_level: Annotated[str, typer.Option(help="info: every request; warning: those refused.")] = "info",
    ssl_keyfile: Annotated[Path | None, typer.Option(help="The key of a TLS certificate.")] = None,
    ssl_certfile: Annotated[Path | None, typer.Option(help="A TLS certificate: serve https.")] = None,
    ssl_keyfile_password: Annotated[str | None, typer.Option(help="The key's password.")] = None,
) -> None:
    """Serve a library over HTTP, with a page at / and the routes at /docs; Ctrl+C stops it.

    Where there is no library yet it makes one, and says so; with --read-only there must be one.

    attar serve stories --port 8000
    """
    # Read when numpy first loads its BLAS, here and in worker processes: each process computes on
    # one thread, so that several of them share the cores.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    try:
        from attar.server import Address, listen
        from attar.server import serve as run
    except ModuleNotFoundError as fault:
        part = str(fault.name).partition(".")[0]
        if part not in ("starlette", "uvicorn", "httptools"):
            raise
        raise MissingError(
            "attar serve", "the server's parts", f"no {part}", "pip install 'attar[server]'"
        ) from fault
    from attar.library import Library
    from attar.server import LOOPBACK_HOSTS, Settings, is_loopback, read_token, require_token

    if token is not None and token_file is not None:
        raise OptionError("token", "--token or --token-file", "both")
    secret = read_token(token_file) if token_file is not None else token
    require_token(host, secret, no_token)
    for file in (ssl_keyfile, ssl_certfile):
        if file is not None and not file.is_file():
            raise OptionError("TLS", "files with a certificate and its key", f"{file}, which is not there")
    settings = Settings(
        store=store,
        reader=reader,
        token=secret,
        read_only=read_only,
        keep_text=keep_text,
        max_body=max_body,
        max_text=max_text,
        max_questions=max_questions,
        max_concurrent=max_concurrent,
        max_queue=max_queue,
        max_batch=max_batch,
        timeout=timeout,
        log_format=log_format,
        log_level=log_level,
        hosts=LOOPBACK_HOSTS | {host} if secret is None and is_loopback(host) else frozenset(),
    )
    address = Address(
        host=host,
        port=port,
        workers=workers,
        ssl_keyfile=ssl_keyfile,
        ssl_certfile=ssl_certfile,
        ssl_keyfile_password=ssl_keyfile_password,
    )
    # An address that is taken is said before a library is made for nothing.
    for socket in listen(address):
        socket.close()
    new = not read_only and is_new(store)
    # What is wrong with the store or its reader is said here, once, and not by every process.
    with Library(store, reader, read_only=read_only, create=not read_only) as library:
        library.reader  # noqa: B018  # loaded when it is first asked for
    if new:
        print(f"attar: new library at {store}", file=sys.stderr)
    run(settings, address)


def is_new(store: Path) -> bool:
    """Whether no library is there yet; the folder that it would be in must be."""
    from attar.store import Store

    above = store.absolute().parent
    if not above.is_dir():
        raise OptionError(
            "STORE", "a library, or a place for a new one", f"no folder {above}", "check the path"
        )
    return not Store.exists(store)
