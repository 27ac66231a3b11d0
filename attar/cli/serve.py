"""`attar serve`: a library over HTTP."""

import os
import sys
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import typer

from attar.cli import options
from attar.errors import MissingError, OptionError, install_command
from attar.server.settings import LOOPBACK_HOSTS, Address, Settings, is_loopback, read_token, require_token


@options.options_from(Address)
@options.options_from(Settings, omit=("store", "hosts"))
def serve(
    store: options.StorePath,
    token_file: Annotated[Path | None, typer.Option(help="File whose first line is the token.")] = None,
    no_token: Annotated[
        bool, typer.Option("--no-token", help="Allow requests without a token from any host.")
    ] = False,
    ray: Annotated[
        str | None,
        typer.Option(
            metavar="[ADDRESS]",
            help="Serve shards with Ray: on this machine, or on the cluster at HOST:PORT or auto.",
        ),
    ] = None,
    replicas: Annotated[
        str, typer.Option(help="Processes per shard with --ray: N, or MIN:MAX to scale with the load.")
    ] = "1",
    **given: Any,
) -> None:
    """Serve a library over HTTP, with a web page at / and the API reference at /docs; stop it with Ctrl+C.

    A missing library is created, except with --read-only. STORE may be a folder of shards (attar shard).

    attar serve stories --port 8000

    attar serve stories-4 --ray --replicas 1:4
    """
    # Read when numpy loads its BLAS, here and in worker processes: each process uses one thread, so that several
    # share the cores.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    try:
        from attar.server.run import listen
        from attar.server.run import serve as run
    except ModuleNotFoundError as fault:
        part = str(fault.name).partition(".")[0]
        if part not in ("starlette", "uvicorn", "httptools", "prometheus_client"):
            raise
        raise MissingError.expected(
            "attar serve", "the server's packages", f"no {part}", install_command("server")
        ) from fault
    from attar.library.library import Library

    address = Address(**{each.name: given.pop(each.name) for each in fields(Address)})
    if given["token"] is not None and token_file is not None:
        raise OptionError.expected("token", "--token or --token-file", "both")
    token = read_token(token_file) if token_file is not None else given["token"]
    require_token(address.host, token, no_token)
    for file in (address.ssl_keyfile, address.ssl_certfile):
        if file is not None and not file.is_file():
            raise OptionError.expected(
                "TLS", "files with a certificate and its key", f"{file}, which does not exist"
            )
    hosts = LOOPBACK_HOSTS | {address.host} if token is None and is_loopback(address.host) else frozenset()
    settings = Settings(store=store, hosts=hosts, **given | {"token": token})
    # An address in use is reported before a library is created.
    listen(address).close()
    from attar.cluster.shards import is_sharded

    if ray is None and replicas != "1":
        raise OptionError.expected("--replicas", "--ray with it", "none", "add --ray")
    if is_sharded(store) or ray is not None:
        _serve_shards(settings, address, ray, replicas)
        return
    new = not settings.read_only and _is_new(store)
    # Errors of the store or its reader are reported once, here, and not by every process.
    with Library(
        store, settings.reader, read_only=settings.read_only, create=not settings.read_only
    ) as library:
        library.reader  # noqa: B018  # loads on first use
    if new:
        print(f"attar: new library at {store}", file=sys.stderr)
    run(settings, address)


def _serve_shards(settings: Settings, address: Address, ray: str | None, replicas: str) -> None:
    """Serve a folder of shards, each in this process, or in processes of Ray."""
    from attar.cluster.serving import Replicas, served_shards
    from attar.cluster.sharded import ShardedLibrary
    from attar.cluster.shards import is_sharded
    from attar.server.run import serve as run

    if not is_sharded(settings.store):
        came, remedy = "none", f"make one: attar shard {settings.store} --into 2"
        if not settings.store.exists():
            came, remedy = "no such folder", "check the path"
        raise OptionError.expected("STORE", "a folder of shards (shards.json) for --ray", came, remedy)
    if address.workers > 1:
        remedy = "give --ray and --replicas for more"
        raise OptionError.expected("--workers", "1 for a library in shards", str(address.workers), remedy)
    if ray is None:
        names = ("read_only", "keep_text", "lists_from")
        options = {name: getattr(settings, name) for name in names}
        run(settings, address, ShardedLibrary.open(settings.store, settings.reader, **options))
        return
    with served_shards(settings, None if ray == "local" else ray, Replicas.parse(replicas)) as library:
        run(settings, address, library)


def _is_new(store: Path) -> bool:
    """Whether there is no library yet; its parent folder must exist."""
    from attar.store.store import Store

    parent = store.absolute().parent
    if not parent.is_dir():
        raise OptionError.expected(
            "STORE", "a library or a path for a new one", f"no folder {parent}", "check the path"
        )
    return not Store.exists(store)
