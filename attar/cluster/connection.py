"""Connecting to Ray: one clear line if it is not installed, not there or does not answer."""

import logging
import os
import secrets
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from attar.errors import AttarError, UnavailableError, needs_extra

# Seconds until a cluster must answer; Ray itself waits for minutes.
_WAIT = 10.0
LOCAL = "local"


def is_gpu(device: str | None) -> bool:
    """Whether a process that computes on a device needs a GPU of Ray."""
    return device not in (None, "cpu")


@contextmanager
def connected(address: str | None = None, cpus: int | None = None) -> Iterator[None]:
    """Use the cluster at an address, or one that is started on this machine and ends with it (None or "local").

    A program that is connected already stays so.
    """
    # Nothing is sent over the network but to the cluster.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if address in (None, LOCAL) and "ray" not in sys.modules:
        # Who reaches one of Ray's ports can run code: nobody else may use them. Ray reads this when it is imported.
        os.environ.setdefault("RAY_AUTH_MODE", "token")
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
        # With this, Ray takes the address 127.0.0.1 as it is given, and all of its processes listen there alone.
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
        # Ray's default of 15 leaves its processes 4 % of a core that anything else wants, this server for one.
        os.environ.setdefault("RAY_worker_niceness", "0")
    with needs_extra("--ray", "ray"):
        import ray
    if ray.is_initialized():
        yield
        return
    cluster: dict[str, Any] = {"address": address}
    if address in (None, LOCAL):
        cpus = max(cpus or 1, os.cpu_count() or 1)
        cluster = {"include_dashboard": False, "num_cpus": cpus, "_node_ip_address": "127.0.0.1"}
    elif address != "auto":
        _check(str(address))
    try:
        ray.init(logging_level=logging.ERROR, log_to_driver=False, **cluster)
    except Exception as fault:  # Ray raises plain ones too
        raise _unavailable(str(address or LOCAL), " ".join(str(fault).split())[:120]) from fault
    try:
        yield
    finally:
        ray.shutdown()


@contextmanager
def errors_in_one_line() -> Iterator[None]:
    """Report what fails in an actor as the error that it is, or in one line."""
    import ray

    try:
        yield
    except ray.exceptions.RayError as fault:
        if isinstance(cause := getattr(fault, "cause", None), AttarError):
            raise cause from fault
        lines = [line.strip() for line in str(fault).splitlines() if line.strip()] or [type(fault).__name__]
        remedy = "install this version of attar on every node, and run the command again: it continues"
        raise UnavailableError(f"an actor of Ray failed: {lines[-1][:160]}", remedy) from fault


def _check(address: str) -> None:
    """Refuse an address where nobody listens."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not port.isdigit():
        raise _unavailable(address, "no such address")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_WAIT).close()
    except (OSError, OverflowError) as fault:
        raise _unavailable(address, str(getattr(fault, "strerror", "") or fault or "no answer")) from fault


def _unavailable(address: str, reason: str) -> UnavailableError:
    remedy = "start one (ray start --head), or give HOST:PORT of one"
    return UnavailableError(f"there is no cluster of Ray at {address}: {reason}", remedy)
