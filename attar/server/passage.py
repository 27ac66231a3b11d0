"""One request on its way through the server: its id, headers and body, and the answer that goes back."""

import itertools
import re
import secrets
import time

from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Scope, Send

from attar.server.problems import Refusal

# A client's own id is taken over if it is one that a log can hold.
REQUEST_ID = re.compile(rb"[\w.-]{1,64}", re.ASCII)
# Ids of this process's own: a beginning that no other process has, and a number. Random ones ask the kernel
# every time.
BEGINNING, NUMBERS = secrets.token_hex(4), itertools.count(1)
# The page takes nothing from elsewhere, sits in nobody's frame, and is asked for anew after an upgrade.
PAGE_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-cache"),
    (
        b"content-security-policy",
        b"default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; frame-ancestors 'none'",
    ),
]

Headers = list[tuple[bytes, bytes]]


class Passage:
    """A request, its body as far as that may go, and its answer's status once there is one."""

    __slots__ = (
        "_limit",
        "_receive",
        "_send",
        "_taken",
        "began",
        "counted",
        "headers",
        "path",
        "request_id",
        "scope",
        "status",
    )

    def __init__(self, scope: Scope, receive: Receive, send: Send, limit: int) -> None:
        self.began = time.perf_counter()
        self.scope, self._receive, self._send, self._limit = scope, receive, send, limit
        self.path: str = scope["path"]
        # One of those of which only so many may be inside at a time.
        self.counted = self.path.startswith("/v1/")
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        given = self.headers.get(b"x-request-id")
        if given is not None and REQUEST_ID.fullmatch(given):
            self.request_id = given.decode()
        else:
            self.request_id = f"{BEGINNING}{next(NUMBERS) & 0xFFFFFFFF:08x}"
        self.status = 0
        self._taken = 0

    async def receive(self) -> Message:
        """Hand the body on, up to its limit."""
        message = await self._receive()
        if message["type"] == "http.request":
            self._taken += len(message.get("body", b""))
            if self._taken > self._limit:
                raise too_large(self._limit)
        return message

    async def body(self) -> bytes:
        """The whole body."""
        parts = []
        while True:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            parts.append(message.get("body", b""))
            if not message.get("more_body", False):
                return parts[0] if len(parts) == 1 else b"".join(parts)

    async def answer(self, body: bytes, media: bytes) -> None:
        """Answer with status 200 and a body of a type."""
        headers = self.good(body, media)
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        await self._send({"type": "http.response.body", "body": body})

    def good(self, body: bytes, media: bytes) -> Headers:
        """Take status 200, and give the headers for a body of a type."""
        self.status = 200
        return [
            (b"content-length", b"%d" % len(body)),
            (b"content-type", media),
            (b"x-request-id", self.request_id.encode()),
        ]

    async def send(self, message: Message) -> None:
        """Hand the answer on, with the request's id."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = [*message["headers"], (b"x-request-id", self.request_id.encode())]
            if not self.counted:
                headers += PAGE_HEADERS
            message = {**message, "headers": headers}
        await self._send(message)


def too_large(limit: int) -> Refusal:
    """The refusal of a body, whose rest is not waited for."""
    return Refusal(413, f"body: expected at most {limit:,} bytes, got more", closing())


def closing() -> dict[str, str]:
    """Headers of an answer after which nothing more is read from the connection."""
    return {"connection": "close"}
