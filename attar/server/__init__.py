"""A library over HTTP: `attar serve` runs it; `make_app` is the ASGI application for other servers.

Names load on first use: the command line reads `Settings` without loading a web framework.
"""

from typing import TYPE_CHECKING

from attar._lazy import lazy_names

if TYPE_CHECKING:
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

_MODULES = {
    "app": ("describe_api", "make_app"),
    "run": ("listen", "serve"),
    "settings": ("LOOPBACK_HOSTS", "Address", "Settings", "is_loopback", "read_token", "require_token"),
}
__getattr__ = lazy_names(
    __name__, {name: f"{__name__}.{module}" for module, names in _MODULES.items() for name in names}
)
