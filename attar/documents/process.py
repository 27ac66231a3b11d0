"""The child process that reads strangers' files, started by `workers`.

It gets one open file after the other over a socket, and sends back documents. It cannot connect anywhere, start a
program, or open another file than those of its own packages; the kernel ends it when it needs too much memory or time.
"""

import os
import resource
import socket
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import msgspec

from attar.documents.extracted import SourceDocument
from attar.documents.sources import SourceFile, read_stream
from attar.errors import AttarError, FormatError, MissingError

# The length of a message, before it.
LENGTH = struct.Struct("<I")
# Descriptors for the socket, the file, and modules that are being imported.
_OPEN_FILES = 64
# Linux tells there how much memory the process has; other systems have no such file, and nothing to read in it.
_STATUS = "/proc/self/status" if sys.platform == "linux" else os.devnull


class Request(msgspec.Struct, frozen=True):
    """A file to read; its descriptor is sent along."""

    path: str
    source: str
    name: str
    max_bytes: int
    memory: int
    cpu_seconds: int
    password: str = ""
    ocr: str = "auto"


class FileFault(msgspec.Struct, frozen=True, tag=True):
    """A file, or a member of an archive, that cannot be read."""

    message: str
    missing: bool = False
    out_of_memory: bool = False


class FileDocument(msgspec.Struct, frozen=True, tag=True):
    """A document of the file."""

    document: SourceDocument


class Done(msgspec.Struct, frozen=True, tag=True):
    """The file is read."""


Reply = FileDocument | FileFault | Done

encode_reply = msgspec.msgpack.Encoder().encode
decode_request = msgspec.msgpack.Decoder(Request).decode


def main() -> None:
    """Answer requests until the other end closes the socket."""
    with socket.socket(fileno=int(sys.argv[1])) as connection, open(_STATUS) as status:
        confine()
        while (received := _receive(connection)) is not None:
            request, descriptor = received
            _limit(request, status)
            for reply in _replies(request, descriptor):
                data = encode_reply(reply)
                connection.sendall(LENGTH.pack(len(data)) + data)


def _replies(request: Request, descriptor: int) -> Iterator[Reply]:
    faults: list[AttarError] = []
    file = SourceFile(Path(request.path), request.source, request.name, 0)
    try:
        with os.fdopen(descriptor, "rb") as stream:
            for document in read_stream(
                file, stream, request.max_bytes, faults.append, request.password, request.ocr
            ):
                yield from (FileFault(str(fault)) for fault in faults)
                faults.clear()
                yield FileDocument(document)
        yield from (FileFault(str(fault)) for fault in faults)
    except MissingError as fault:
        yield FileFault(str(fault), missing=True)
    except AttarError as fault:
        yield from (FileFault(str(earlier)) for earlier in faults)
        yield FileFault(str(fault))
    except MemoryError:
        yield FileFault("", out_of_memory=True)
    except Exception as fault:  # a parser's own mistake must not end the others' files
        reason = " ".join(str(fault).split())[:120] or type(fault).__name__
        error = FormatError(f"{request.path}: the file cannot be read ({reason})", "leave it out")
        yield FileFault(str(error))
    yield Done()


def _receive(connection: socket.socket) -> tuple[Request, int] | None:
    data, descriptors, _, _ = socket.recv_fds(connection, LENGTH.size, 1)
    if not data:
        return None
    rest = LENGTH.size - len(data)
    (length,) = LENGTH.unpack(data + (connection.recv(rest, socket.MSG_WAITALL) if rest else b""))
    return decode_request(connection.recv(length, socket.MSG_WAITALL)), descriptors[0]


def _limit(request: Request, status: IO[str]) -> None:
    """Allow this much memory and CPU time on top of what the process has used so far."""
    status.seek(0)
    used = [int(line.split()[1]) * 1024 for line in status if line.startswith("VmData:")]
    memory = sum(used) + request.memory
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (memory, most))
    usage = resource.getrusage(resource.RUSAGE_SELF)
    seconds = int(usage.ru_utime + usage.ru_stime) + 1 + request.cpu_seconds
    _, most = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, most))


def confine() -> None:
    """Refuse what no parser of a document needs. The hook cannot be removed."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (_OPEN_FILES, _OPEN_FILES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    packages = {os.path.realpath(place) for place in (*sys.path, sys.prefix, sys.base_prefix) if place}
    allowed = ("/etc/mime.types", *(f"{place}/" for place in (*packages, "/usr")))

    def refuse(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            if isinstance(path, int):
                return
            writes = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            if writes or not os.path.realpath(os.fsdecode(path)).startswith(allowed):
                raise PermissionError(f"a file that is being read asks for another: {event}")
        elif event.startswith(("socket.connect", "socket.bind", "socket.getaddrinfo", "subprocess.", "os.")):
            if event in ("os.listdir", "os.scandir", "os.putenv", "os.unsetenv"):
                return
            raise PermissionError(f"a file that is being read asks for {event}")

    sys.addaudithook(refuse)
