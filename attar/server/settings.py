"""What a server is told when it starts; a value that its worker processes are given too."""

import ipaddress
from dataclasses import dataclass, field
from pathlib import Path

from attar.errors import OptionError

MEBIBYTE = 2**20
# The names by which a machine calls itself.
LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "[::1]"})


@dataclass(frozen=True)
class Settings:
    """Whose library, who may use it, and how much of everything; sizes in bytes, times in seconds."""

    store: Path
    reader: Path | None = None
    token: str | None = field(default=None, repr=False)  # never printed, never logged
    read_only: bool = False
    keep_text: bool = False
    max_body: int = 16 * MEBIBYTE
    max_text: int = 4_000_000  # characters: some thirty novels' chapters
    max_questions: int = 1_024  # a request
    max_concurrent: int = 256  # requests at a time
    max_queue: int = 4_096  # questions that wait
    # Questions that are answered at once; from here on more at once are hardly faster (`attar.reader`).
    max_batch: int = 256
    timeout: float = 30.0
    # Hosts that a request may name; none stands for any. A page of elsewhere can make a browser send requests
    # here under its own host's name (DNS rebinding), which a token stops, and this where there is none.
    hosts: frozenset[str] = frozenset()
    log_format: str = "plain"
    log_level: str = "info"
    board: Path | None = None  # where worker processes add up their counts

    def __post_init__(self) -> None:
        for name in ("max_body", "max_text", "max_questions", "max_concurrent", "max_queue", "max_batch"):
            if getattr(self, name) < 1:
                raise OptionError(option(name), "a whole number from 1 up", str(getattr(self, name)))
        if not self.timeout > 0:
            raise OptionError("--timeout", "seconds above 0", str(self.timeout))
        if self.log_format not in ("plain", "json"):
            raise OptionError("--log-format", "plain or json", repr(self.log_format))
        if self.log_level not in ("debug", "info", "warning", "error"):
            raise OptionError("--log-level", "debug, info, warning or error", repr(self.log_level))
        if self.token is not None and not (self.token.isascii() and self.token.isprintable() and self.token):
            raise OptionError("token", "printable ASCII characters", "none, or others")


def option(name: str) -> str:
    """A setting's name on the command line.

    >>> option("max_body")
    '--max-body'
    """
    return "--" + name.replace("_", "-")


def is_loopback(host: str) -> bool:
    """Whether an address is reached from its own machine alone.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_open(host: str, token: str | None, no_token: bool) -> None:
    """Refuse to let everybody in unless that was said.

    >>> check_open("0.0.0.0", None, False)
    Traceback (most recent call last):
    attar.errors.OptionError: --host 0.0.0.0: expected a token, got none; give --token-file FILE, or say --no-token
    """
    if token is None and not no_token and not is_loopback(host):
        raise OptionError(f"--host {host}", "a token", "none", "give --token-file FILE, or say --no-token")


def token_in(file: Path) -> str:
    """The token that a file holds: its first line."""
    try:
        lines = file.read_text().split("\n")
    except (OSError, UnicodeDecodeError) as fault:
        raise OptionError("--token-file", "a file with a token", f"{file}, which cannot be read") from fault
    if not lines[0].strip():
        raise OptionError("--token-file", "a token in its first line", "an empty one")
    return lines[0].strip()
