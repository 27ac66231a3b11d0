"""A library over HTTP: `attar serve` runs it; `make_app` is the ASGI application for other servers."""

from attar.server.app import describe_api, make_app
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
    "Settings",
    "describe_api",
    "is_loopback",
    "listen",
    "make_app",
    "read_token",
    "require_token",
    "serve",
]
