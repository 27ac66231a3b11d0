"""A library behind HTTP: questions that arrive together are answered together.

`attar serve STORE` runs it; `make_app` is the ASGI application for whoever runs their own server.
"""

from attar.server.app import (
    make_app,
)
from attar.server.running import (
    Place,
    listen,
    serve,
)
from attar.server.settings import (
    LOOPBACK_HOSTS,
    Settings,
    check_open,
    is_loopback,
    token_in,
)

__all__ = [
    "LOOPBACK_HOSTS",
    "Place",
    "Settings",
    "check_open",
    "is_loopback",
    "listen",
    "make_app",
    "serve",
    "token_in",
]
