"""Files and folders as documents, in a fixed order, one file's text in memory at a time; the kinds of files."""

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path, PurePosixPath
from pkgutil import resolve_name
from typing import IO, NamedTuple

from attar.documents.extracted import Blob, OnBad, SourceDocument, report
from attar.documents.plain import is_binary
from attar.documents.programs import CONVERTED, INSTALL_OCR, PICTURES, has_ocr, has_office
from attar.errors import FormatError, quoted
from attar.files import replace_surrogates
from attar.options import FileLimits

# The suffixes of the files that a function reads. All of them take 20 ms to import: that is done when a file needs it.
_TEXT = "plain:read_text"
_KINDS = {
    _TEXT: ".txt .text .log .rst .yaml .yml",
    "html:read_markdown": ".md .markdown",
    "html:read_html": ".html .htm .xhtml",
    "pdf:read_pdf": ".pdf",
    "office:read_docx": ".docx",
    "office:read_pptx": ".pptx",
    "office:read_rtf": ".rtf",
    "opendocument:read_opendocument": ".odt .ods .odp",
    "html:read_epub": ".epub",
    "cards:read_calendar": ".ics",
    "cards:read_contacts": ".vcf",
    "office:read_csv": ".csv .tsv",
    "office:read_xlsx": ".xlsx",
    "plain:read_json": ".json",
    "plain:read_json_lines": ".jsonl .ndjson",
    "plain:read_parquet": ".parquet",
    "pdf:read_picture": " ".join(PICTURES),
}
_READERS = {suffix: reader for reader, suffixes in _KINDS.items() for suffix in suffixes.split()}
# Those that have other files in them.
_ARCHIVES = {
    ".zip": "archives:read_zip", ".tar": "archives:read_tar",
    ".eml": "mail:read_eml", ".mbox": "mail:read_mbox", ".msg": "mail:read_msg",
}  # fmt: skip
_COMPRESSED = {".gz": "", ".xz": "", ".tgz": ".tar", ".txz": ".tar"}
# Kinds that people take for documents, and what to save them as.
_OTHERS = {
    ".doc": "DOCX", ".pages": "DOCX", ".ppt": "PPTX", ".key": "PDF", ".xls": "XLSX", ".numbers": "XLSX",
    ".mobi": "EPUB", ".azw": "EPUB", ".azw3": "EPUB", ".djvu": "PDF", ".ps": "PDF",
}  # fmt: skip
# Suffixes that are dropped from names.
_DROPPED_SUFFIXES = (".tar.xz", ".jsonl.xz", ".txt.xz", ".jsonl", ".txt")
# What programs leave in folders: nobody wants to hear of these.
_LEFT_BEHIND = re.compile(
    r"~\$.*|\.~lock\..*|(?:eh)?thumbs\.db|desktop\.ini|\.DS_Store|\._.*|Icon\r|(?:data|lock)\.mdb", re.I
)
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


class SourceFile(NamedTuple):
    """A file, the source and the name of its document, and its size; lines and members have names of their own."""

    path: Path
    source: str
    name: str
    bytes: int


class SkippedFile(NamedTuple):
    """A file or folder in a folder that is not read, and why."""

    path: Path
    reason: str


class FoundFiles(NamedTuple):
    """The files to read, those that are not read, and the folders that were walked."""

    files: list[SourceFile]
    skipped: list[SkippedFile]
    folders: list[Path]


def find_files(
    paths: Iterable[str | Path],
    *,
    allow_empty: bool = False,
    pictures: bool = True,
    on_bad: OnBad | None = None,
) -> FoundFiles:
    """The files of paths, in a fixed order, each once: the files themselves, and those in folders and below.

    A folder without documents is refused, unless `allow_empty`; a path that does not exist always is: `on_bad` is told,
    and the others are found. Pictures in folders are among them if their text can be recognised, and `pictures`.
    """
    found = FoundFiles([], [], [])
    done: set[Path] = set()
    for path in map(Path, paths):
        try:
            files, skipped = _find(path, allow_empty, pictures)
        except FormatError as error:
            report(error, on_bad)
            continue
        for file in files:
            resolved = file.path.resolve()
            if resolved not in done:
                done.add(resolved)
                found.files.append(file)
        found.skipped.extend(skipped)
        if path.is_dir():
            found.folders.append(path)
    return found


def read_stream(
    path: str, name: str, stream: IO[bytes], limits: FileLimits, on_bad: OnBad | None
) -> Iterator[SourceDocument]:
    """Yield the documents of an open file."""
    blob = Blob(path, name, stream, limits, report=on_bad)
    for document in _read_blob(blob, PurePosixPath(path).name):
        own_name = replace_surrogates(document.name or name)
        if not document.text.strip() and not document.pictures:
            where = f"{blob.where}: document {quoted(own_name)}" if document.name else blob.where
            report(FormatError(f"{where} has no text", "leave it out"), on_bad)
            continue
        yield document._replace(name=own_name, text=replace_surrogates(document.text))


def _find(path: Path, allow_empty: bool, pictures: bool) -> tuple[list[SourceFile], list[SkippedFile]]:
    """The file itself, or the files in the folder and below, in the order of their names."""
    skipped: list[SkippedFile] = []
    try:
        if not path.exists():
            if _URL.match(str(path)):
                url = str(path).replace(":/", "://", 1)
                raise FormatError(f"{url} is a URL, and nothing is fetched", "save the page first")
            raise FormatError(f"{path} does not exist", "check the path")
        if not path.is_dir():
            name = document_name(path.name)
            return [SourceFile(path, name, name, _size(path))], []
        ocr = has_ocr()
        files = [file for file in sorted(_walk(path, skipped)) if _is_read(file, skipped, pictures, ocr)]
        names = {file: document_name(file.relative_to(path).as_posix()) for file in files}
        counts = Counter(names.values())
        source = path.resolve().name
        found = [
            # Of `a.txt` and `a`, the first would have the name of the second.
            SourceFile(
                file, source, name if counts[name] == 1 else file.relative_to(path).as_posix(), _size(file)
            )
            for file, name in names.items()
        ]
    except OSError as fault:
        raise FormatError(f"{path} cannot be read: {fault.strerror or fault}") from fault
    if not found and not allow_empty:
        others = f", but {len(skipped):,} files of other kinds" if skipped else ""
        raise FormatError(f"{path} has no documents{others}", "name files themselves")
    return found, skipped


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:  # it has just vanished, and reading it says so
        return 0


def _walk(folder: Path, skipped: list[SkippedFile]) -> Iterator[Path]:
    """Yield the files in a folder and below; links to folders are not followed."""

    def fail(fault: OSError) -> None:
        skipped.append(SkippedFile(Path(fault.filename or folder), fault.strerror or "cannot be read"))

    for place, folders, files in os.walk(folder, onerror=fail):
        skipped += [SkippedFile(Path(place, name), "hidden") for name in folders if name.startswith(".")]
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(place, name) for name in files if not _LEFT_BEHIND.fullmatch(name))


def _is_read(file: Path, skipped: list[SkippedFile], pictures: bool, ocr: bool) -> bool:
    """Whether a file of a folder is read: one of a known kind, or a text without a suffix."""
    reason = ""
    if file.name.startswith("."):
        reason = "hidden"
    elif not file.is_file():
        reason = "not a file"
    elif file.suffix.lower() in PICTURES and not (pictures and ocr):
        reason = "a picture" + f"; {INSTALL_OCR}" * (not ocr)
    elif save_as := _OTHERS.get(file.suffix.lower()):
        if not (file.suffix.lower() in CONVERTED and has_office()):
            reason = f"{file.suffix} is not read; {_remedy(file.suffix, save_as)}"
    elif not is_known(file.name):
        if file.suffix:
            reason = f"{file.suffix} is not a kind of document; name the file itself to read it as text"
        else:
            try:
                with open(file, "rb") as stream:
                    reason = "binary data" if is_binary(stream.read(8192)) else ""
            except OSError as fault:
                reason = fault.strerror or "cannot be read"
    if reason:
        skipped.append(SkippedFile(file, reason))
    return not reason


def is_known(name: str) -> bool:
    """Whether a file is of a kind that is read, by its name.

    >>> is_known("emma.PDF"), is_known("novels.tar.gz"), is_known("notes.md.gz"), is_known("song.mp3")
    (True, True, True, False)
    """
    suffix, inner = _suffixes(name)
    return suffix in _READERS or suffix in _ARCHIVES or (suffix in _COMPRESSED and is_known("x" + inner))


def _remedy(suffix: str, save_as: str) -> str:
    office = ", or install LibreOffice" * (suffix.lower() in CONVERTED and not has_office())
    return f"save it as {save_as}{office}"


def document_name(path: str) -> str:
    """The name of a file's document: its path; without the suffix for plain text and JSON lines.

    >>> document_name("a/emma.txt.xz"), document_name("v1.2.txt"), document_name("emma.pdf")
    ('a/emma', 'v1.2', 'emma.pdf')
    """
    for suffix in _DROPPED_SUFFIXES:
        if path.endswith(suffix) and not path.endswith("/" + suffix) and path != suffix:
            return path.removesuffix(suffix)
    return path


def _read_blob(blob: Blob, file_name: str) -> Iterator[SourceDocument]:
    """Yield the documents of a file; one of an unknown kind is plain text."""
    suffix, inner = _suffixes(file_name)
    if _LEFT_BEHIND.fullmatch(file_name):
        raise FormatError(f"{blob.where} is no document: a program left it in its folder", "leave it out")
    if save_as := _OTHERS.get(PurePosixPath(file_name).suffix.lower()):
        raise FormatError(f"{blob.where}: {suffix} files are not read", _remedy(suffix, save_as))
    if suffix in _COMPRESSED or suffix in _ARCHIVES:
        from attar.documents.archives import decompressed, decompressing

        with decompressing(blob):
            if suffix in _COMPRESSED:
                blob, suffix = decompressed(blob, suffix), inner
            if suffix in _ARCHIVES:
                yield from _reader(_ARCHIVES[suffix])(blob, _read_member)
            else:
                yield from _reader(_READERS.get(suffix, _TEXT))(blob)
    else:
        yield from _reader(_READERS.get(suffix, _TEXT))(blob)


def _reader(name: str) -> Callable[..., Iterator[SourceDocument]]:
    reader: Callable[..., Iterator[SourceDocument]] = resolve_name(f"attar.documents.{name}")
    return reader


def _read_member(blob: Blob) -> Iterator[SourceDocument]:
    """The documents of a member of an archive, named by its path; members of other kinds are left out."""
    name = blob.name.rpartition("/")[2]
    is_picture = PurePosixPath(name).suffix.lower() in PICTURES
    is_read = is_known(name) and not _LEFT_BEHIND.fullmatch(name)
    if is_read and not (is_picture and (blob.limits.ocr == "never" or not has_ocr())):
        blob = replace(blob, name=document_name(blob.name))
        for found in _read_blob(blob, name):
            yield found._replace(name=found.name or blob.name)


def _suffixes(name: str) -> tuple[str, str]:
    """The suffix of a file, and that of the file in it if it is compressed."""
    path = PurePosixPath(name.rpartition("/")[2])
    suffix = path.suffix.lower()
    if suffix not in _COMPRESSED:
        return suffix, ""
    return suffix, _COMPRESSED[suffix] or PurePosixPath(path.stem).suffix.lower()
