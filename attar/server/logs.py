"""A server's log: one line an event, plain or JSON; a request's token is in none of them."""

import logging
import sys
import time
from typing import Any

import msgspec

from attar.server.settings import Settings

NAME = "attar.server"


class PlainLines(logging.Formatter):
    """Time, level, message and the event's fields, as a person reads them."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")
        self._second = 0, ""

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802
        """The local time, worked out once a second."""
        second = int(record.created)
        if self._second[0] != second:
            self._second = second, time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(second))
        return f"{self._second[1]},{int(record.msecs):03}"

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # logging's own name
        """The line, the fields after the message."""
        fields = " ".join(f"{word}={value}" for word, value in fields_of(record).items())
        return (super().formatMessage(record) + (f" {fields}" if fields else "")).replace("\n", "\\n")


class JsonLines(logging.Formatter):
    """An object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """The object as a line."""
        told: dict[str, Any] = {
            "time": record.created,
            "level": record.levelname.lower(),
            "message": record.getMessage(),
        } | fields_of(record)
        if record.exc_info:
            told["trace"] = self.formatException(record.exc_info)
        return msgspec.json.encode(told).decode()


def fields_of(record: logging.LogRecord) -> dict[str, Any]:
    """What an event says beside its message."""
    found: dict[str, Any] = getattr(record, "fields", {})
    return found


def set_up(settings: Settings) -> None:
    """Send the server's own lines and uvicorn's to stderr, in one format."""
    # What no line shows need not be asked for, some of it from the kernel, at every request.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    lines = logging.StreamHandler(sys.stderr)
    lines.setFormatter(JsonLines() if settings.log_format == "json" else PlainLines())
    for name in (NAME, "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers[:] = [lines]
        logger.setLevel(settings.log_level.upper())
        logger.propagate = False
