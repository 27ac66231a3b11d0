"""Files, folders and archives into texts: plain or compressed text, JSON lines, one document at a time."""

import json
import lzma
import re
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple, Self

from attar.errors import FormatError
from attar.files import MAX_DECOMPRESSED

SOURCE_SUFFIXES = (".txt", ".jsonl", ".txt.xz", ".jsonl.xz", ".tar.xz")
_SURROGATE = re.compile("[\ud800-\udfff]")
_EXPECTED = "text in .txt, .jsonl, .tar.xz, or the first two as .xz"
# The largest header of a member of an archive, such as a long name; tarfile reads it whole.
_MAX_HEADER = 2**20


class SourceDocument(NamedTuple):
    """A text, its name, and the name of the file or folder that it came from."""

    source: str
    name: str
    text: str


class SourceFile(NamedTuple):
    """A file, the source and the name of its document, and its size; lines and members have names of their own."""

    path: Path
    source: str
    name: str
    bytes: int


def read_sources(paths: Iterable[str | Path]) -> Iterator[SourceDocument]:
    """Yield the documents of files and folders in a fixed order, with one file's text in memory at a time.

    A file that is given twice, or by itself and in its folder, is read once.
    """
    done: set[Path] = set()
    for path in map(Path, paths):
        for file in find_source_files(path):
            if not file.path.name.endswith(SOURCE_SUFFIXES):
                raise FormatError(str(path), _EXPECTED, f"a file that ends in {path.suffix or 'nothing'}")
            if (resolved := file.path.resolve()) not in done:
                done.add(resolved)
                yield from read_source_file(file)


def find_source_files(path: Path) -> list[SourceFile]:
    """The file itself, or the texts in the folder and below, in the order of their names."""
    try:
        if not path.exists():
            raise FormatError(str(path), "a file or a folder", "nothing there", "check the path")
        if not path.is_dir():
            name = _without_suffix(path.name)
            return [SourceFile(path, name, name, path.stat().st_size)]
        files = [
            SourceFile(
                file, path.name, _without_suffix(file.relative_to(path).as_posix()), file.stat().st_size
            )
            for file in sorted(path.rglob("*"))
            if file.name.endswith(SOURCE_SUFFIXES) and file.is_file()
        ]
    except OSError as fault:
        came = fault.strerror or str(fault)
        raise FormatError(str(path), "a file or a folder to read", came) from fault
    if not files:
        expected = f"a folder with {_EXPECTED}"
        raise FormatError(str(path), expected, "none of these in it", "name files themselves")
    return files


def read_source_file(file: SourceFile, max_bytes: int = MAX_DECOMPRESSED) -> Iterator[SourceDocument]:
    """Yield the documents of a file; one with another suffix is plain text.

    A compressed text, line or member of an archive of more than `max_bytes` is refused.
    """
    path = file.path
    try:
        if path.name.endswith(".tar.xz"):
            documents = _read_archive(path, max_bytes)
        elif path.name.endswith((".jsonl", ".jsonl.xz")):
            documents = _read_lines(path, max_bytes)
        else:
            documents = _read_text(path, file.name, max_bytes)
        for name, text in documents:
            yield SourceDocument(replace_surrogates(file.source), replace_surrogates(name), text)
    except (lzma.LZMAError, tarfile.TarError, EOFError) as fault:
        came = str(fault) or "an incomplete one"
        raise FormatError(str(path), "a whole compressed file", came, "fetch it again") from fault
    except OSError as fault:
        raise FormatError(str(path), "a file to read", fault.strerror or str(fault)) from fault


def replace_surrogates(name: str) -> str:
    r"""Replace what UTF-8 cannot encode: half of a surrogate pair in JSON, a file name in another encoding.

    >>> replace_surrogates("emma"), replace_surrogates("caf\udce9") == "caf\ufffd"
    ('emma', True)
    """
    return _SURROGATE.sub("\ufffd", name)


def _without_suffix(name: str) -> str:
    """Remove the suffix that says how a text is stored.

    >>> _without_suffix("emma.txt.xz"), _without_suffix("v1.2.txt"), _without_suffix("wiki.jsonl")
    ('emma', 'v1.2', 'wiki')
    """
    suffix = next(
        (suffix for suffix in sorted(SOURCE_SUFFIXES, key=len, reverse=True) if name.endswith(suffix)), ""
    )
    return name.removesuffix(suffix)


def _open(path: Path) -> IO[bytes]:
    return lzma.open(path, "rb") if _is_compressed(path) else open(path, "rb")


def _is_compressed(path: Path) -> bool:
    return path.name.endswith((".txt.xz", ".jsonl.xz"))


def _check_size(where: str, size: int, max_bytes: int) -> None:
    if size > max_bytes:
        remedy = "raise the limit (--max-decompressed-mb), or decompress it first"
        raise FormatError(where, f"at most {max_bytes:,} bytes when decompressed", "more", remedy)


class _Member(tarfile.TarInfo):
    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        member = super().frombuf(buf, encoding, errors)
        if member.size > _MAX_HEADER and not member.isfile() and not member.isdir():
            raise tarfile.ReadError(f"a header of {member.size:,} bytes")
        return member


def _read_text(path: Path, name: str, max_bytes: int) -> Iterator[tuple[str, str]]:
    with _open(path) as file:
        data = file.read(max_bytes + 1 if _is_compressed(path) else -1)
    if _is_compressed(path):
        _check_size(str(path), len(data), max_bytes)
    yield name, decode_text(data, str(path))


def _read_archive(path: Path, max_bytes: int) -> Iterator[tuple[str, str]]:
    empty = True
    with tarfile.open(path, "r|xz", tarinfo=_Member) as archive:
        for member in archive:
            file = archive.extractfile(member) if member.isfile() and member.name.endswith(".txt") else None
            if file is not None:
                empty = False
                _check_size(f"{path}: {member.name}", member.size, max_bytes)
                name = _without_suffix(PurePosixPath(member.name).as_posix())
                yield name, decode_text(file.read(), f"{path}: {member.name}")
    if empty:
        raise FormatError(str(path), "an archive with .txt files", "none in it")


def _read_lines(path: Path, max_bytes: int) -> Iterator[tuple[str, str]]:
    empty = True
    longest = max_bytes + 1 if _is_compressed(path) else -1
    with _open(path) as file:
        for number, line in enumerate(iter(lambda: file.readline(longest), b""), 1):
            where = f"{path}, line {number}"
            if longest > 0:
                _check_size(where, len(line), max_bytes)
            if not line.strip():
                continue
            empty = False
            text = decode_text(line, where)
            try:
                row = json.loads(text)
            except (ValueError, RecursionError) as fault:
                raise FormatError(where, "a JSON object", f"something else ({fault})") from fault
            if not isinstance(row, dict) or not isinstance(row.get("text"), str):
                raise FormatError(where, 'an object with "text"', f"{type(row).__name__} without it")
            names = (str(row[key]) for key in ("id", "name", "title") if row.get(key))
            yield next(names, f"{_without_suffix(path.name)}-{number}"), row["text"]
    if empty:
        raise FormatError(str(path), "lines of JSON", "an empty file", "leave it out")


def decode_text(data: bytes, where: str) -> str:
    """Decode UTF-8 text; raise `FormatError` for empty, binary or otherwise encoded data.

    >>> decode_text(b"Ann left.", "stdin")
    'Ann left.'
    """
    if not data.strip():
        raise FormatError(where, "text", "nothing" if not data else "blanks only", "leave it out")
    if b"\0" in data[:8192]:
        raise FormatError(where, "UTF-8 text", "binary data", "leave it out")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as fault:
        came = f"the byte 0x{data[fault.start]:02x} at {fault.start}"
        raise FormatError(where, "UTF-8 text", came, "convert it (iconv -t UTF-8) or leave it out") from fault
