"""Files read in a child process that may die: a parser that hangs, swells or crashes costs one file."""

import contextlib
import os
import resource
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

import msgspec

from attar.documents.extracted import OnBad, SourceDocument, report
from attar.documents.programs import CONVERTED, convert, has_office, recognise
from attar.documents.sources import SourceFile, document_name, find_files, read_stream
from attar.errors import AttarError, FormatError, MissingError
from attar.files import replace_surrogates
from attar.options import FileLimits
from attar.progress import check_stopped

# A parser may leak: a process that has read this many files is replaced.
_FILES_PER_PROCESS = 1_000

# Seconds between two looks at whether the work was stopped.
_PAUSE = 0.1
_PROGRAM = "from attar.documents.workers import main; main()"
# The length of a message, before it.
_LENGTH = struct.Struct("<I")

# Descriptors for the connection, the file, and modules that are being imported.
_OPEN_FILES = 64
# Arrow's own pool reserves 1 GB at once, all that a file may take, and leaves nothing for its threads.
_ENVIRONMENT = {"ARROW_DEFAULT_MEMORY_POOL": "system"}
# Linux tells there how much memory the process has; other systems have no such file, and nothing to read in it.
_STATUS = "/proc/self/status" if sys.platform == "linux" else os.devnull
_FAILED = "the process that reads it failed"


class Request(msgspec.Struct, frozen=True):
    """A file to read; its descriptor is sent along."""

    path: str
    name: str
    limits: FileLimits


class FileFault(msgspec.Struct, frozen=True):
    """A file, or a member of an archive, that cannot be read."""

    message: str
    missing: bool = False


# None: the file is read.
Reply = SourceDocument | FileFault | None
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Reply).decode
# The errors for a message that is none; the last one for what is nested too deep.
_NONSENSE = msgspec.DecodeError, UnicodeDecodeError, RecursionError


def read_sources(
    paths: Iterable[str | Path], on_bad: OnBad | None = None, *, limits: FileLimits | None = None
) -> Iterator[SourceDocument]:
    """Yield the documents of files and folders; `on_bad` is called for a file that cannot be read, or it raises."""
    with FileReader(limits) as reader:
        for file in find_files(paths).files:
            for document in reader.read(file, on_bad):
                yield document._replace(source=replace_surrogates(file.source))


class FileReader:
    """Reads files in one child process, which is started when needed and replaced when it dies. For one thread."""

    def __init__(self, limits: FileLimits | None = None) -> None:
        self.limits = limits or FileLimits()
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: socket.socket | None = None
        self._files = 0
        # Seconds for which a file's replies were waited for so far.
        self._waited = 0.0

    @property
    def process_id(self) -> int | None:
        """That of the child process, if there is one."""
        return None if self._process is None else self._process.pid

    def read(self, file: SourceFile, on_bad: OnBad | None = None) -> Iterator[SourceDocument]:
        """Yield the documents of a file; `on_bad` is called for what cannot be read, or it raises."""
        try:
            stream = open(file.path, "rb")  # noqa: SIM115  # closed below
        except OSError as fault:
            report(FormatError(f"cannot read {file.path}: {fault.strerror or fault}"), on_bad)
            return
        with stream:
            yield from self._documents(file, stream, on_bad)

    def read_bytes(
        self, file_name: str, data: bytes, *, name: str | None = None, on_bad: OnBad | None = None
    ) -> Iterator[SourceDocument]:
        """Yield the documents of a file that is in memory, such as one that was sent to a server."""
        name = document_name(file_name) if name is None else name
        file = SourceFile(Path(file_name), name, name, len(data))
        with tempfile.TemporaryFile() as stream:
            stream.write(data)
            stream.seek(0)
            yield from self._documents(file, stream, on_bad)

    def _documents(
        self, file: SourceFile, stream: IO[bytes], on_bad: OnBad | None
    ) -> Iterator[SourceDocument]:
        suffix = file.path.suffix.lower()
        if suffix in CONVERTED and has_office():
            try:
                made = convert(str(file.path), suffix, stream, self.limits)
            except FormatError as fault:  # no `StoppedError`, which ends the work
                report(fault, on_bad)
                return
            with tempfile.TemporaryFile() as converted:
                converted.write(made)
                converted.seek(0)
                file = file._replace(path=file.path.with_suffix(CONVERTED[suffix]))
                yield from self._documents(file, converted, on_bad)
            return
        # No message can have half of a surrogate pair, which a file's name can.
        path, name = replace_surrogates(str(file.path)), replace_surrogates(file.name)
        self._send(_encode(Request(path, name, self.limits)), stream)
        is_read = False
        try:
            while (reply := self._receive()) is not None:
                if isinstance(reply, SourceDocument):
                    yield from self._recognised(reply, file, on_bad) if reply.pictures else (reply,)
                else:
                    kind = MissingError if reply.missing else FormatError
                    report(kind(reply.message), on_bad)
            is_read = True
        except _EndedError as fault:
            report(FormatError(f"{file.path}: {fault}", "leave it out"), on_bad)
        finally:
            if not is_read:  # what is left of its replies would be taken for the next file's
                self.close()

    def _send(self, request: bytes, stream: IO[bytes]) -> None:
        with contextlib.suppress(OSError):  # if it has just died, its replies say so
            connection = self._started()
            socket.send_fds(connection, [_LENGTH.pack(len(request))], [stream.fileno()])
            connection.sendall(request)
        self._files += 1
        self._waited = 0.0

    def _started(self) -> socket.socket:
        is_dead = self._process is not None and self._process.poll() is not None
        if is_dead or self._files >= _FILES_PER_PROCESS:
            self.close()
        if self._process is None or self._connection is None:
            self._connection, other = socket.socketpair()
            self._connection.settimeout(_PAUSE)
            with other:
                # -P: a module in the current folder must not be taken for one of a parser's.
                command = [sys.executable, "-P", "-c", _PROGRAM, str(other.fileno())]
                nothing = subprocess.DEVNULL  # what a parser prints is no part of this program's output
                self._process = subprocess.Popen(
                    command, pass_fds=[other.fileno()], stdin=nothing, stdout=nothing, stderr=nothing,
                    env=os.environ | _ENVIRONMENT,
                )  # fmt: skip
            self._files = 0
        return self._connection

    def _recognised(
        self, document: SourceDocument, file: SourceFile, on_bad: OnBad | None
    ) -> Iterator[SourceDocument]:
        """The document with the text of its pictures; a photo without words is none."""
        inside = "" if document.name == file.name else f": {document.name.removeprefix(f'{file.name}/')}"
        try:
            found = recognise(f"{file.path}{inside}", document.pictures, document.title, self.limits)
        except (FormatError, MissingError) as fault:  # no `StoppedError`, either
            report(fault, on_bad)
            return
        if found.text:
            parts = found.parts if len(document.pictures) > 1 else ()
            yield document._replace(text=found.text, parts=parts, pictures=())

    def _receive(self) -> Reply:
        """The next message; of one file, they are waited for at most `limits.seconds`."""
        began = time.monotonic()
        deadline = began + self.limits.seconds - self._waited
        (length,) = _LENGTH.unpack(self._bytes(_LENGTH.size, deadline))
        if length > self.limits.max_file_memory_mb * 2**20:
            raise _EndedError("it sent more than it may have in memory")
        message = self._bytes(length, deadline)
        self._waited += time.monotonic() - began
        try:
            reply: Reply = _decode(message)
        except _NONSENSE as fault:
            raise _EndedError(_FAILED) from fault
        return reply

    def _bytes(self, count: int, deadline: float) -> bytearray:
        data = bytearray()
        while len(data) < count:
            check_stopped()
            if time.monotonic() > deadline:
                raise _EndedError(f"reading it took more than {self.limits.seconds:g} s")
            more = b""
            try:
                # By and by: only what it has sent takes memory.
                if self._connection is not None:
                    more = self._connection.recv(min(count - len(data), 2**20))
            except TimeoutError:
                continue
            except ConnectionError:
                pass
            if not more:
                raise _EndedError(self._why_ended())
            data += more
        return data

    def _why_ended(self) -> str:
        try:
            code = 0 if self._process is None else self._process.wait(5)
        except subprocess.TimeoutExpired:
            return _FAILED
        if code == -signal.SIGXCPU:
            return f"reading it took more than {self.limits.max_file_seconds} s of CPU time"
        if code:
            return f"reading it took more than {self.limits.max_file_memory_mb:,} MB of memory, or failed"
        return _FAILED

    def close(self) -> None:
        """End the child process; the next file starts another."""
        if self._connection is not None:
            self._connection.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._connection = self._process = None

    def __enter__(self) -> "FileReader":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class _EndedError(Exception):
    """The child process ended, hung or sent nonsense."""


# The other process: it cannot connect anywhere, start a program, or open another file than those of its own packages;
# the kernel ends it when it needs too much memory or time.


def main() -> None:
    """Answer requests until the other end closes the connection."""
    decode, encode = msgspec.msgpack.Decoder(Request).decode, msgspec.msgpack.Encoder().encode
    with socket.socket(fileno=int(sys.argv[1])) as connection, open(_STATUS) as status:
        confine()
        while True:
            head, descriptors, _, _ = socket.recv_fds(connection, _LENGTH.size, 1, socket.MSG_WAITALL)
            if not head:
                break
            (length,) = _LENGTH.unpack(head)
            request = decode(connection.recv(length, socket.MSG_WAITALL))
            _limit(request.limits, status)
            for reply in _replies(request, descriptors[0]):
                data = encode(reply)
                connection.sendall(_LENGTH.pack(len(data)) + data)


def _replies(request: Request, descriptor: int) -> Iterator[Reply]:
    faults: list[AttarError] = []
    try:
        with os.fdopen(descriptor, "rb") as stream:
            where = request.path, request.name
            for document in read_stream(*where, stream, request.limits, faults.append):
                yield from (FileFault(str(fault)) for fault in faults)
                faults.clear()
                yield document
        yield from (FileFault(str(fault)) for fault in faults)
    except MissingError as fault:
        yield FileFault(str(fault), missing=True)
    except AttarError as fault:
        yield from (FileFault(str(earlier)) for earlier in faults)
        yield FileFault(str(fault))
    except MemoryError:  # what is left of its memory is in pieces: the process ends
        raise
    except Exception as fault:  # a parser's own mistake must not end the others' files
        reason = " ".join(str(fault).split())[:120] or type(fault).__name__
        error = FormatError(f"{request.path}: the file cannot be read ({reason})", "leave it out")
        yield FileFault(str(error))
    yield None


def _limit(limits: FileLimits, status: IO[str]) -> None:
    """Allow this much memory and CPU time on top of what the process has used so far."""
    status.seek(0)
    used = [int(line.split()[1]) * 1024 for line in status if line.startswith("VmData:")]
    memory = sum(used) + limits.max_file_memory_mb * 2**20
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (memory, most))
    usage = resource.getrusage(resource.RUSAGE_SELF)
    seconds = int(usage.ru_utime + usage.ru_stime) + 1 + limits.max_file_seconds
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
