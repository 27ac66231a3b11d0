"""A library over HTTP: `attar serve` runs it; `make_app` is the ASGI application for other servers.

Names load on first use: the command line reads `Settings` without loading a web framework.
"""

from typing import TYPE_CHECKING

from attar._lazy import lazy_names

if TYPE_CHECKING:
    from attar.server.app import describe_api, make_app
    from attar.server.backend import AskJob, AskResult, Backend, Listed, LookupJob, LookupResult, Partial
    from attar.server.local import LibraryBackend
    from attar.server.problems import ProblemError
    from attar.server.run import listen, serve
    from attar.server.settings import (
        LOOPBACK_HOSTS,
        Address,
        Settings,
        is_loopback,
        read_token,
        require_token,
    )

__all__ = [
    "LOOPBACK_HOSTS",
    "Address",
    "AskJob",
    "AskResult",
    "Backend",
    "LibraryBackend",
    "Listed",
    "LookupJob",
    "LookupResult",
    "Partial",
    "ProblemError",
    "Settings",
    "describe_api",
    "is_loopback",
    "listen",
    "make_app",
    "read_token",
    "require_token",
    "serve",
]

if not TYPE_CHECKING:  # so that mypy knows which names there are
    __getattr__ = lazy_names(__name__)
