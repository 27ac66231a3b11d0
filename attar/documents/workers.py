"""Files read in a child process that may die: a parser that hangs, swells or crashes costs one file."""

import contextlib
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import msgspec

from attar.documents.extracted import OnBad, SourceDocument, report
from attar.documents.process import LENGTH, Done, FileDocument, Reply, Request
from attar.documents.programs import CONVERTED, convert, has_office, recognise
from attar.documents.sources import SourceFile, document_name, find_files
from attar.errors import AttarError, FormatError, MissingError, OptionError, quoted
from attar.files import replace_surrogates
from attar.options import option
from attar.progress import check_stopped

# A parser may leak: a process that has read this many files is replaced.
_FILES_PER_PROCESS = 1_000

# Seconds between two looks at whether the work was stopped.
_PAUSE = 0.1
_PROGRAM = "from attar.documents.process import main; main()"

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Reply).decode


@dataclass(frozen=True, kw_only=True)
class FileLimits:
    """How a file is read, and what that may cost."""

    memory_mb: int = option(1024, "Memory that reading one file may take, in MB.", min=64, max=2**20)
    cpu_seconds: int = option(120, "CPU time that reading one file may take.", min=1, max=2**20)
    seconds: float = option(240.0, "Time that reading one file may take.", min=1.0, max=2.0**20)
    decompressed_mb: int = option(
        1024,
        "Size that a compressed text, or a member of an archive, may have when decompressed, in MB.",
        min=1,
    )
    password: str = option("", "Password of encrypted PDF files.")
    ocr: str = option(
        "auto", "Recognise text in pictures and scans: auto, always (also where a PDF has text), never."
    )

    def __post_init__(self) -> None:
        if self.ocr not in ("auto", "always", "never"):
            raise OptionError.expected("ocr", "auto, always or never", quoted(self.ocr))


def read_sources(
    paths: Iterable[str | Path], on_bad: OnBad | None = None, *, limits: FileLimits | None = None
) -> Iterator[SourceDocument]:
    """Yield the documents of files and folders; `on_bad` is called for a file that cannot be read, or it raises."""
    with FileReader(limits) as reader:
        for file in find_files(paths).files:
            yield from reader.read(file, on_bad)


class FileReader:
    """Reads files in one child process, which is started when needed and replaced when it dies. For one thread."""

    def __init__(self, limits: FileLimits | None = None) -> None:
        self.limits = limits or FileLimits()
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: socket.socket | None = None
        self._files = 0

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
                made = convert(str(file.path), suffix, stream.read(), self.limits)
            except AttarError as fault:
                report(fault, on_bad)
                return
            with tempfile.TemporaryFile() as converted:
                converted.write(made)
                converted.seek(0)
                file = file._replace(path=file.path.with_suffix(CONVERTED[suffix]))
                yield from self._documents(file, converted, on_bad)
            return
        self._send(file, stream)
        is_read = False
        try:
            yield from self._replies(file, on_bad)
            is_read = True
        finally:
            if not is_read:  # what is left of its replies would be taken for the next file's
                self.close()

    def _send(self, file: SourceFile, stream: IO[bytes]) -> None:
        limits = self.limits
        request = _encode(
            Request(
                # No message can have half of a surrogate pair, which a file's name can.
                path=replace_surrogates(str(file.path)),
                source=replace_surrogates(file.source),
                name=replace_surrogates(file.name),
                max_bytes=limits.decompressed_mb * 2**20,
                memory=limits.memory_mb * 2**20,
                cpu_seconds=limits.cpu_seconds,
                password=limits.password,
                ocr=limits.ocr,
            )
        )
        with contextlib.suppress(OSError):  # if it has just died, its replies say so
            connection = self._started()
            socket.send_fds(connection, [LENGTH.pack(len(request))], [stream.fileno()])
            connection.sendall(request)
        self._files += 1

    def _started(self) -> socket.socket:
        is_dead = self._process is not None and self._process.poll() is not None
        if is_dead or self._files >= _FILES_PER_PROCESS:
            self.close()
        if self._connection is None:
            self._connection, other = socket.socketpair()
            with other:
                # -P: a module in the current folder must not be taken for one of a parser's.
                command = [sys.executable, "-P", "-c", _PROGRAM, str(other.fileno())]
                self._process = subprocess.Popen(
                    command, pass_fds=[other.fileno()], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL
                )
            self._files = 0
        return self._connection

    def _replies(self, file: SourceFile, on_bad: OnBad | None) -> Iterator[SourceDocument]:
        while True:
            try:
                reply = _decode(self._receive())
            except (_EndedError, msgspec.DecodeError, UnicodeDecodeError) as fault:
                reason = self._why_ended(fault)
                self.close()
                report(FormatError(f"{file.path}: {reason}", "leave it out"), on_bad)
                return
            if isinstance(reply, FileDocument) and reply.document.pictures:
                yield from self._recognised(reply.document, file, on_bad)
            elif isinstance(reply, FileDocument):
                yield reply.document
            elif isinstance(reply, Done):
                return
            elif reply.out_of_memory:
                self.close()  # what is left of its memory is in pieces
                report(FormatError(f"{file.path}: {self._too_much_memory()}"), on_bad)
                return
            else:
                kind = MissingError if reply.missing else FormatError
                report(kind(reply.message), on_bad)

    def _recognised(
        self, document: SourceDocument, file: SourceFile, on_bad: OnBad | None
    ) -> Iterator[SourceDocument]:
        """The document with the text of its pictures; a photo without words is none."""
        inside = "" if document.name == file.name else f": {document.name.removeprefix(f'{file.name}/')}"
        try:
            found = recognise(f"{file.path}{inside}", document.pictures, document.title, self.limits)
        except AttarError as fault:
            report(fault, on_bad)
            return
        if found.text:
            parts = found.parts if len(document.pictures) > 1 else ()
            yield document._replace(text=found.text, parts=parts, pictures=())

    def _receive(self) -> bytes:
        """The next message; waits for at most `seconds`."""
        deadline = time.monotonic() + self.limits.seconds
        (length,) = LENGTH.unpack(self._bytes(LENGTH.size, deadline))
        if length > self.limits.memory_mb * 2**20:
            raise _EndedError("it sent more than it may have in memory")
        return self._bytes(length, deadline)

    def _bytes(self, count: int, deadline: float) -> bytes:
        connection = self._connection
        if connection is None:
            raise _EndedError("")
        data = bytearray()
        while len(data) < count:
            check_stopped()
            left = deadline - time.monotonic()
            if left <= 0:
                raise _EndedError(f"reading it took more than {self.limits.seconds:g} s")
            ready, _, _ = select.select([connection], [], [], min(left, _PAUSE))
            if not ready:
                continue
            try:
                more = connection.recv(min(count - len(data), 2**20))
            except OSError:
                more = b""
            if not more:
                raise _EndedError("")
            data += more
        return bytes(data)

    def _why_ended(self, fault: Exception) -> str:
        if str(fault) and isinstance(fault, _EndedError):
            return str(fault)
        if self._process is None or isinstance(fault, msgspec.DecodeError | UnicodeDecodeError):
            return "the process that reads it failed"
        try:
            code = self._process.wait(5)
        except subprocess.TimeoutExpired:
            return "the process that reads it failed"
        if code == -signal.SIGXCPU:
            return f"reading it took more than {self.limits.cpu_seconds} s of CPU time"
        return self._too_much_memory() if code else "the process that reads it failed"

    def _too_much_memory(self) -> str:
        return f"reading it took more than {self.limits.memory_mb:,} MB of memory, or failed"

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
