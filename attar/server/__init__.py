"""A library behind HTTP: questions that arrive together are answered together.

`attar serve STORE` runs it; `make_app` is the ASGI application for whoever runs their own server.
"""

from attar.server.app import make_app
from attar.server.settings import Settings

__all__ = ["Settings", "make_app"]
