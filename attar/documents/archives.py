"""Compressed files and archives, read in memory: nothing is written to disk, and all that grows is bounded."""

import gzip
import io
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import PurePosixPath
from typing import IO, Any, NamedTuple, Self

from attar.documents.extracted import Blob, Budget, SourceDocument, check_size, report
from attar.errors import AttarError, FormatError

# An archive in an archive in an archive is read, a deeper one is not.
MAX_DEPTH = 3
MAX_MEMBERS = 100_000
# Times the limit on what is decompressed at once: what the members of an archive may have together.
_TOGETHER = 16
# The largest header of a member of an archive, such as a long name; tarfile reads it whole.
_MAX_HEADER = 2**20
_ENCRYPTED = 0x1
# A package of XML takes many times its size in memory.
_MAX_XML = 2**28

ReadMember = Callable[[Blob], Iterator[SourceDocument]]


@contextmanager
def decompressing(blob: Blob) -> Iterator[None]:
    """Report a damaged compressed file in one line."""
    try:
        yield
    except (
        lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, gzip.BadGzipFile,
        NotImplementedError, ValueError, OverflowError, UnicodeError,
    ) as fault:  # fmt: skip
        if isinstance(fault, AttarError):
            raise
        reason = " ".join(str(fault).split())[:200] or "it is incomplete"
        raise FormatError(f"{blob.where} is damaged: {reason}", "fetch it again") from fault


def decompressed(blob: Blob, suffix: str) -> Blob:
    """The file in a `.gz` or `.xz` file."""
    if suffix in (".gz", ".tgz"):
        unpacked: Any = gzip.GzipFile(fileobj=blob.file)
        return replace(blob, file=unpacked, compressed=True)
    return replace(blob, file=lzma.LZMAFile(blob.file), compressed=True)


def open_package(blob: Blob, most: int = _MAX_XML) -> zipfile.ZipFile:
    """Open a document that is a package, and refuse one that grows beyond the limit before any of it is parsed."""
    archive = zipfile.ZipFile(io.BytesIO(blob.data()))
    size = sum(member.file_size for member in archive.infolist())
    check_size(blob.where, size, min(blob.limits.max_decompressed, most))
    return archive


class _Member(NamedTuple):
    """A file in an archive or e-mail: its path there, its size, and how it is opened."""

    path: str
    size: int
    open: Callable[[], AbstractContextManager[IO[bytes]]]


def read_tar(blob: Blob, read: ReadMember) -> Iterator[SourceDocument]:
    """The documents of a tar archive, compressed or not, in order."""
    blob = _counted(blob)
    with tarfile.open(fileobj=blob.file, mode="r|*", tarinfo=_TarHeader) as archive:
        members = (
            _Member(member.name, member.size, partial(_opened, file))
            for member in archive
            if member.isfile()
            and not _is_hidden(member.name)
            and (file := archive.extractfile(member)) is not None
        )
        yield from _read_members(blob, members, read)


def read_zip(blob: Blob, read: ReadMember) -> Iterator[SourceDocument]:
    """The documents of a zip archive, in order."""
    blob = _counted(blob)
    source = blob.file if blob.file.seekable() and not blob.compressed else io.BytesIO(blob.data())
    with zipfile.ZipFile(source) as archive:
        if len(archive.infolist()) > MAX_MEMBERS:
            raise _too_many(blob)
        yield from _read_members(blob, _zip_members(blob, archive), read)


def _zip_members(blob: Blob, archive: zipfile.ZipFile) -> Iterator[_Member]:
    for member in archive.infolist():
        if member.is_dir() or _is_hidden(member.filename):
            continue
        if member.flag_bits & _ENCRYPTED:
            encrypted = FormatError(f"{blob.where}: {member.filename} is encrypted", "decrypt it first")
            _refuse(encrypted, blob)
            continue
        yield _Member(member.filename, member.file_size, partial(archive.open, member))


def _read_members(blob: Blob, members: Iterable[_Member], read: ReadMember) -> Iterator[SourceDocument]:
    found = False
    for member in members:
        for document in _read_member(blob, member, read):
            found = True
            yield document
    assert blob.budget is not None  # `_counted`
    # Unless it was said why its members are not read.
    if not found and not blob.budget.refused:
        raise FormatError(f"{blob.where} has no documents", "leave it out")


def _read_member(blob: Blob, member: _Member, read: ReadMember) -> Iterator[SourceDocument]:
    """The documents of a member; if it cannot be read, its error is reported and the next one is read."""
    budget, size = blob.budget, member.size
    assert budget is not None  # `_counted`
    where = f"{blob.where}: {member.path}"
    budget.members -= 1
    if budget.members < 0:
        raise _too_many(blob)
    try:
        check_size(where, size, blob.limits.max_decompressed)
        if budget.bytes < size:
            most = _TOGETHER * blob.limits.max_decompressed
            remedy = "unpack it first, or raise --max-file-memory-mb of attar add"
            raise FormatError.expected(where, f"members of at most {most:,} bytes in all", "more", remedy)
        budget.bytes -= size
        name = _safe_name(member.path)
        # Sets of stories are such archives: their members have no prefix.
        name = name if blob.where.endswith(".tar.xz") and not blob.depth else f"{blob.name}/{name}"
        inner = replace(blob, where=where, name=name, compressed=True, depth=blob.depth + 1)
        with decompressing(inner), member.open() as file:
            yield from read(replace(inner, file=file))
    except AttarError as fault:
        _refuse(fault, blob)


def read_attachment(
    blob: Blob, name: str, data: bytes, subject: str, read: ReadMember
) -> Iterator[SourceDocument]:
    """The documents of a file that is attached to an e-mail; the title of one without says to which."""
    if blob.depth >= MAX_DEPTH:
        sentence = f"{blob.where}: {name} is attached to a message within {blob.depth} others"
        report(FormatError(sentence, "save it first"), blob.report)
        return
    attached = _Member(name, len(data), partial(io.BytesIO, data))
    for found in _read_member(_counted(blob), attached, read):
        about = f"{name}, attached to {subject}" if subject else name
        yield found if found.title else found._replace(title=about[:80])


def _opened(file: IO[bytes]) -> AbstractContextManager[IO[bytes]]:
    return nullcontext(file)


def _counted(blob: Blob) -> Blob:
    if blob.depth >= MAX_DEPTH:
        raise FormatError(f"{blob.where} is an archive within {blob.depth} others", "unpack it first")
    return (
        blob
        if blob.budget
        else replace(blob, budget=Budget(MAX_MEMBERS, _TOGETHER * blob.limits.max_decompressed))
    )


def _safe_name(path: str) -> str:
    """A member's name without what leads out of its archive, such as `..`; nothing is written there.

    >>> _safe_name("../../etc/passwd"), _safe_name("/a/./b.txt"), _safe_name("c:\\\\d.txt")
    ('etc/passwd', 'a/b.txt', 'c:/d.txt')
    """
    parts = PurePosixPath(path.replace("\\", "/")).parts
    return "/".join(part for part in parts if part not in ("/", "..", "//")) or "member"


def _is_hidden(path: str) -> bool:
    parts = PurePosixPath(path).parts
    return any((part.startswith((".", "~$")) and part != "..") or part == "__MACOSX" for part in parts)


def _too_many(blob: Blob) -> FormatError:
    return FormatError(f"{blob.where} has more than {MAX_MEMBERS:,} files", "unpack it first")


def _refuse(fault: AttarError, blob: Blob) -> None:
    assert blob.budget is not None  # `_counted`
    blob.budget.refused = True
    report(fault, blob.report)


class _TarHeader(tarfile.TarInfo):
    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        member = super().frombuf(buf, encoding, errors)
        if member.size > _MAX_HEADER and not member.isfile() and not member.isdir():
            raise tarfile.ReadError(f"a header of {member.size:,} bytes")
        return member
