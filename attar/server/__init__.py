"""A library over HTTP: `attar serve` runs it; `attar.server.app.make_app` is the ASGI application."""
