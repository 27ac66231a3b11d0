"""Files, folders and archives into texts: plain or compressed text, JSON lines, one document at a time."""

import json
import lzma
import re
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from attar.errors import FormatError

SOURCE_SUFFIXES = (".txt", ".jsonl", ".txt.xz", ".jsonl.xz", ".tar.xz")
_SURROGATE = re.compile("[\ud800-\udfff]")
_EXPECTED = "text in .txt, .jsonl, .tar.xz, or the first two as .xz"


class SourceDocument(NamedTuple):
    """A text, its name, and the name of the file or folder that it came from."""

    source: str
    name: str
    text: str


def read_sources(paths: Iterable[str | Path]) -> Iterator[SourceDocument]:
    """Yield the documents of files and folders in a fixed order, with one file's text in memory at a time.

    A file that is given twice, or by itself and in its folder, is read once.
    """
    done: set[Path] = set()
    for path in map(Path, paths):
        if path.is_dir():
            yield from _read_folder(path, done)
        elif path.is_file():
            yield from _read_once(path, _without_suffix(path.name), done)
        else:
            raise FormatError(str(path), "a file or a folder", "nothing there", "check the path")


def _read_once(path: Path, name: str, done: set[Path]) -> Iterator[SourceDocument]:
    if (resolved := path.resolve()) not in done:
        done.add(resolved)
        for document in _read_file(path, name):
            yield document._replace(
                source=replace_surrogates(document.source), name=replace_surrogates(document.name)
            )


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


def _read_folder(folder: Path, done: set[Path]) -> Iterator[SourceDocument]:
    paths = sorted(
        path for path in folder.rglob("*") if path.name.endswith(SOURCE_SUFFIXES) and path.is_file()
    )
    if not paths:
        raise FormatError(str(folder), f"a folder with {_EXPECTED}", "none of these in it")
    for path in paths:
        for document in _read_once(path, _without_suffix(path.relative_to(folder).as_posix()), done):
            yield document._replace(source=replace_surrogates(folder.name))


def _read_file(path: Path, name: str) -> Iterator[SourceDocument]:
    source = _without_suffix(path.name)
    if not path.name.endswith(SOURCE_SUFFIXES):
        raise FormatError(str(path), _EXPECTED, f"a file that ends in {path.suffix or 'nothing'}")
    try:
        if path.name.endswith(".tar.xz"):
            yield from _read_archive(path, source)
        elif ".jsonl" in path.suffixes:
            yield from _read_lines(path, source)
        else:
            with _open(path) as file:
                yield SourceDocument(source, name, decode_text(file.read(), str(path)))
    except (lzma.LZMAError, tarfile.TarError, EOFError) as fault:
        raise FormatError(
            str(path), "a whole compressed file", str(fault) or "an incomplete one", "fetch it again"
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
                name = _without_suffix(PurePosixPath(member.name).as_posix())
                yield SourceDocument(source, name, decode_text(file.read(), f"{path}: {member.name}"))
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
            text = decode_text(line, where)
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
