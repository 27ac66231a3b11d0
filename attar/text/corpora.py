"""Plain text as it lies on disk: files, folders, lines of JSON, compressed or not, one document at a time."""

import json
import lzma
import re
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from attar.errors import FormatError

KINDS = (".txt", ".jsonl", ".txt.xz", ".jsonl.xz", ".tar.xz")
_SURROGATE = re.compile("[\ud800-\udfff]")
_WANTED = "text in .txt, .jsonl, .tar.xz, or the first two as .xz"


class SourceDocument(NamedTuple):
    """A text, what it is called, and the file or folder it was found in."""

    source: str
    name: str
    text: str


def read_sources(paths: Iterable[str | Path]) -> Iterator[SourceDocument]:
    """Yield the documents of files and folders in a fixed order, holding one file's text at a time.

    A file that is given twice, or once by itself and once in its folder, is read once.
    """
    done: set[Path] = set()
    for path in map(Path, paths):
        if path.is_dir():
            yield from _read_folder(path, done)
        elif path.is_file():
            yield from _read_once(path, _bare(path.name), done)
        else:
            raise FormatError(str(path), "a file or a folder", "nothing there", "check the path")


def _read_once(path: Path, name: str, done: set[Path]) -> Iterator[SourceDocument]:
    if (place := path.resolve()) not in done:
        done.add(place)
        for document in _read_file(path, name):
            yield document._replace(source=encodable(document.source), name=encodable(document.name))


def encodable(name: str) -> str:
    r"""Put a mark for what no encoder takes: half of a surrogate pair in JSON, a file's name in another encoding.

    >>> encodable("emma"), encodable("caf\udce9") == "caf\ufffd"
    ('emma', True)
    """
    return _SURROGATE.sub("\ufffd", name)


def _bare(name: str) -> str:
    """Leave out the endings that only say how a text is kept.

    >>> _bare("emma.txt.xz"), _bare("v1.2.txt"), _bare("wiki.jsonl")
    ('emma', 'v1.2', 'wiki')
    """
    kind = next((kind for kind in sorted(KINDS, key=len, reverse=True) if name.endswith(kind)), "")
    return name.removesuffix(kind)


def _read_folder(folder: Path, done: set[Path]) -> Iterator[SourceDocument]:
    found = sorted(path for path in folder.rglob("*") if path.name.endswith(KINDS) and path.is_file())
    if not found:
        raise FormatError(str(folder), f"a folder with {_WANTED}", "none of these in it")
    for path in found:
        for document in _read_once(path, _bare(path.relative_to(folder).as_posix()), done):
            yield document._replace(source=encodable(folder.name))


def _read_file(path: Path, name: str) -> Iterator[SourceDocument]:
    source = _bare(path.name)
    if not path.name.endswith(KINDS):
        raise FormatError(str(path), _WANTED, f"a file that ends in {path.suffix or 'nothing'}")
    try:
        if path.name.endswith(".tar.xz"):
            yield from _read_archive(path, source)
        elif ".jsonl" in path.suffixes:
            yield from _read_lines(path, source)
        else:
            with _open(path) as file:
                yield SourceDocument(source, name, decode(file.read(), str(path)))
    except (lzma.LZMAError, tarfile.TarError, EOFError) as fault:
        raise FormatError(
            str(path), "a whole compressed file", str(fault) or "a cut one", "fetch it again"
        ) from fault
    except OSError as fault:
        raise FormatError(str(path), "a file to read", fault.strerror or str(fault)) from fault


def _open(path: Path) -> "lzma.LZMAFile":
    return lzma.open(path, "rb") if path.suffix == ".xz" else open(path, "rb")  # type: ignore[return-value]


def _read_archive(path: Path, source: str) -> Iterator[SourceDocument]:
    empty = True
    with tarfile.open(path, "r|xz") as archive:
        for member in archive:
            file = archive.extractfile(member) if member.isfile() and member.name.endswith(".txt") else None
            if file is not None:
                empty = False
                name = _bare(PurePosixPath(member.name).as_posix())
                yield SourceDocument(source, name, decode(file.read(), f"{path}: {member.name}"))
    if empty:
        raise FormatError(str(path), "an archive with .txt files", "none in it")


def _read_lines(path: Path, source: str) -> Iterator[SourceDocument]:
    empty = True
    with _open(path) as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            empty = False
            where = f"{path}, line {number}"
            text = decode(line, where)
            try:
                row = json.loads(text)
            except (ValueError, RecursionError) as fault:
                raise FormatError(where, "a JSON object", f"something else ({fault})") from fault
            if not isinstance(row, dict) or not isinstance(row.get("text"), str):
                raise FormatError(where, 'an object with "text"', f"{type(row).__name__} without it")
            name = next(
                (str(row[key]) for key in ("id", "name", "title") if row.get(key)), f"{source}-{number}"
            )
            yield SourceDocument(source, name, row["text"])
    if empty:
        raise FormatError(str(path), "lines of JSON", "an empty file", "leave it out")


def decode(data: bytes, where: str) -> str:
    """Plain text, or the line that says why it is none.

    >>> decode(b"Ann left.", "stdin")
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
