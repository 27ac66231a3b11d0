"""A server's library from afar: the same questions over HTTP, and the same errors back."""

from attar.client.client import (
    AsyncClient,
    Client,
)

__all__ = [
    "AsyncClient",
    "Client",
]
