"""The server's log: one line per event, plain or as JSON."""

import logging
import sys
from typing import Any

import msgspec

from attar.server.problems import printable
from attar.server.settings import Settings

log = logging.getLogger("attar.server")

# Characters of a line in the log; a request's own text in it is cut before.
_MAX_LINE = 4_000


class PlainFormatter(logging.Formatter):
    """One line per event: time, level, message and fields; the trace of a bug has a line per call."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, with the fields after the message."""
        fields = "".join(f" {name}={value}" for name, value in _fields(record).items())
        line = f"{self.formatTime(record)} {record.levelname} {record.getMessage()}{fields}"
        return "\n".join([printable(line, _MAX_LINE), *_trace(record)])


class JsonFormatter(logging.Formatter):
    """One JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        """The object as a line."""
        event: dict[str, Any] = {
            "time": record.created,
            "level": record.levelname.lower(),
            "message": printable(record.getMessage(), _MAX_LINE),
        } | _fields(record)
        if record.exc_info:
            event["trace"] = "\n".join(_trace(record))
        return msgspec.json.encode(event).decode()


def _trace(record: logging.LogRecord) -> list[str]:
    """The lines of an exception's trace; its message may be a client's text."""
    lines = logging.Formatter().formatException(record.exc_info).split("\n") if record.exc_info else []
    return [printable(line, _MAX_LINE) for line in lines]


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    fields: dict[str, Any] = getattr(record, "fields", {})
    return fields


def set_up_logging(settings: Settings) -> None:
    """Write the logs of the server and of uvicorn to stderr, in one format; tokens are never logged."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if settings.log_format == "json" else PlainFormatter())
    for name in (log.name, "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.setLevel(settings.log_level.upper())
        logger.propagate = False
