"""Settings of the server: what `attar serve` takes as options, and what worker processes are given."""

import ipaddress
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from attar.errors import DeviceError, OptionError
from attar.options import MOST_LOOK, check_ranges, option

if TYPE_CHECKING:
    from attar.library.library import Library

# The host names of the loopback interface, as a Host header has them.
LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "[::1]"})
_ORIGIN = re.compile(r"\*|https?://[\w.\[\]:-]+", re.ASCII)
# Plain characters: a proxy and this server must read it as the same.
_PREFIX = re.compile(r"(/[\w.~-]+)+", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class Address:
    """Where a server listens, in how many processes, and with which TLS certificate."""

    host: str = option("127.0.0.1", "Address to listen on.")
    port: int = option(8000, "Port to listen on; 0 picks a free one.", min=0, max=65535)
    workers: int = option(1, "Number of worker processes.", min=1, max=64)
    ssl_keyfile: Path | None = option(None, "Private key of the TLS certificate.")
    ssl_certfile: Path | None = option(None, "TLS certificate; the server then speaks https.")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The library, who may use it, and the limits. Sizes are in bytes and times in seconds if not stated."""

    store: Path = option(help="Folder of the library.")
    reader: Path | None = option(
        None, "A reader's folder, or one of the package: answers (default) or fixed."
    )
    # The bearer token that clients must send, and those that may ask, but not change.
    token: str | None = field(default=None, repr=False)
    read_tokens: frozenset[str] = field(default=frozenset(), repr=False)
    read_only: bool = option(False, "Answer questions, but refuse changes.")
    keep_text: bool = option(True, "Keep the text of added documents, to quote from.", "--no-text")
    look: int | None = option(
        None,
        "Sentences that are read again with a question, unless it says how many.  [default: 3]",
        min=0,
        max=MOST_LOOK,
    )
    watch: Path | None = option(None, "Follow the files of this folder, as attar watch does.")
    device: str | None = option(
        None, "cuda: read texts and answer questions to one document on a GPU; the default is the CPU."
    )
    max_body: int = option(16 * 2**20, "Maximum size of a request body, in bytes.", min=1)
    max_text: int = option(
        4_000_000, "Maximum length of a text, or of all texts of a file, in characters.", min=1
    )
    max_questions: int = option(1_024, "Maximum number of questions per request.", min=1)
    max_file_memory_mb: int = option(512, "Memory that reading an uploaded file may take, in MB.", min=64)
    max_connections: int = option(1_000, "Maximum number of open connections per process.", min=1)
    timeout: float = option(30.0, "Time limit of a request, in seconds.", min=0.001)
    log_format: str = option("plain", "Log format: plain or json.")
    log_level: str = option("info", "Log level: debug, info, warning or error; info logs every request.")
    prefix: str = option("", "Path prefix under which a proxy serves this server, for example /attar.")
    forwarded_allow_ips: str | None = option(
        None, "Addresses or networks of proxies whose X-Forwarded-For is believed, with commas; * for all."
    )
    cors: str = option("", "Origins whose web pages may use the API, with commas; * for all.")
    # Against DNS rebinding, for servers without a token: another site's page can make a browser send requests
    # to this server, but only under that site's host name.
    hosts: frozenset[str] = frozenset()  # empty accepts all
    # Per process: requests at a time, the work of questions that wait, in milliseconds, and jobs that wait or run.
    max_concurrent: int = 256
    max_queue: int = 4_096
    max_jobs: int = 16
    # The folder that all worker processes share.
    shared: Path | None = None

    def __post_init__(self) -> None:
        check_ranges(self)
        if self.log_format not in ("plain", "json"):
            raise OptionError.expected("--log-format", "plain or json", repr(self.log_format))
        if self.log_level not in ("debug", "info", "warning", "error"):
            raise OptionError.expected("--log-level", "debug, info, warning or error", repr(self.log_level))
        if self.prefix and not _PREFIX.fullmatch(self.prefix):
            raise OptionError.expected("--prefix", "a path such as /attar", repr(self.prefix))
        if self.forwarded_allow_ips not in (None, "*"):
            for network in str(self.forwarded_allow_ips).split(","):
                try:
                    ipaddress.ip_network(network.strip())
                except ValueError as error:
                    what = "--forwarded-allow-ips"
                    raise OptionError.expected(what, "addresses, networks or *", repr(network)) from error
        for token in (self.token, *self.read_tokens):
            if token is not None and not (token.isascii() and token.isprintable() and token):
                raise OptionError.expected(
                    "token", "printable ASCII characters", "an empty token, or other characters"
                )
        if self.read_tokens and (self.token is None or self.token in self.read_tokens):
            raise OptionError("--read-token-file needs another token for changes", "give --token-file too")
        for origin in self.origins:
            if not _ORIGIN.fullmatch(origin):
                raise OptionError.expected("--cors", "origins such as https://example.org", repr(origin))

    @property
    def origins(self) -> list[str]:
        return [origin.strip() for origin in self.cors.split(",")] if self.cors else []


def open_library(settings: Settings, shard: Path | None = None) -> "Library":
    """The library of the settings, or a shard of it in a folder of its own; a missing shard is not created."""
    from attar.library.library import Library

    library = Library(
        settings.store if shard is None else shard,
        settings.reader,
        read_only=settings.read_only,
        keep_text=settings.keep_text,
        create=shard is None and not settings.read_only,
        device=settings.device,
    )
    if settings.device is not None:
        library.reader.prepare()  # a device that is not there is refused
        try:
            library.open_bank(settings.device)
        except DeviceError as fault:
            print(f"attar: {fault}: questions are answered by the CPU", file=sys.stderr)
    return library


def is_loopback(host: str) -> bool:
    """Whether an address can be reached only from its own machine.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def require_token(host: str, token: str | None, no_token: bool) -> None:
    """Refuse to serve without a token on a public address, unless `no_token` asks for that.

    >>> require_token("0.0.0.0", None, False)
    Traceback (most recent call last):
    attar.errors.OptionError: --host 0.0.0.0 needs a token; give --token-file FILE, or --no-token
    """
    if token is None and not no_token and not is_loopback(host):
        raise OptionError(f"--host {host} needs a token", "give --token-file FILE, or --no-token")


def read_tokens(flag: str, file: Path) -> list[str]:
    """The tokens in a file, one per line."""
    try:
        lines = file.read_text().split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"{flag} {file} cannot be read") from error
    if not lines[0].strip():
        raise OptionError(f"{flag} {file} has no token in its first line")
    return [line.strip() for line in lines if line.strip()]
