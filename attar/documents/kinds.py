"""Kinds of files by their suffixes: which function reads them, and the names of their documents."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import PurePosixPath

from attar.documents.archives import decompressed, decompressing, read_tar, read_zip
from attar.documents.epub import read_epub
from attar.documents.extracted import Blob, Extracted
from attar.documents.html import read_html
from attar.documents.mail import read_eml, read_mbox
from attar.documents.markdown import read_markdown
from attar.documents.office import read_csv, read_docx, read_xlsx
from attar.documents.pdf import read_pdf
from attar.documents.plain import read_json, read_json_lines, read_parquet, read_text
from attar.errors import FormatError

Read = Callable[[Blob], Iterator[Extracted]]

READERS: dict[str, Read] = {
    ".txt": read_text,
    ".text": read_text,
    ".log": read_text,
    ".rst": read_text,
    ".md": read_markdown,
    ".markdown": read_markdown,
    ".html": read_html,
    ".htm": read_html,
    ".xhtml": read_html,
    ".pdf": read_pdf,
    ".docx": read_docx,
    ".epub": read_epub,
    ".eml": read_eml,
    ".mbox": read_mbox,
    ".csv": read_csv,
    ".tsv": read_csv,
    ".xlsx": read_xlsx,
    ".json": read_json,
    ".jsonl": read_json_lines,
    ".ndjson": read_json_lines,
    ".parquet": read_parquet,
}
_ARCHIVES = {".zip": read_zip, ".tar": read_tar}
_COMPRESSED = {".gz": "", ".xz": "", ".tgz": ".tar", ".txz": ".tar"}
# Kinds that people take for documents, and what to save them as.
_OTHERS = {
    ".doc": "DOCX", ".rtf": "DOCX", ".odt": "DOCX", ".pages": "DOCX", ".ppt": "PDF", ".pptx": "PDF", ".odp": "PDF",
    ".key": "PDF", ".xls": "XLSX", ".ods": "XLSX", ".numbers": "XLSX", ".msg": "EML", ".mobi": "EPUB", ".azw": "EPUB",
    ".azw3": "EPUB", ".djvu": "PDF", ".ps": "PDF",
}  # fmt: skip
# Suffixes that names of documents never had: those of version 0.1.0.
_DROPPED_SUFFIXES = (".tar.xz", ".jsonl.xz", ".txt.xz", ".jsonl", ".txt")


def is_known(name: str) -> bool:
    """Whether a file is of a kind that is read, by its name.

    >>> is_known("emma.PDF"), is_known("novels.tar.gz"), is_known("notes.md.gz"), is_known("cover.png")
    (True, True, True, False)
    """
    suffix, inner = _suffixes(name)
    return suffix in READERS or suffix in _ARCHIVES or (suffix in _COMPRESSED and is_known("x" + inner))


def other_kind(name: str) -> str | None:
    """What to save a file of another well-known kind as; None if it is none.

    >>> other_kind("letter.doc"), other_kind("letter.docx")
    ('DOCX', None)
    """
    return _OTHERS.get(PurePosixPath(name).suffix.lower())


def document_name(path: str) -> str:
    """The name of a file's document: its path; texts and JSON lines have it without the suffix, as ever.

    >>> document_name("a/emma.txt.xz"), document_name("v1.2.txt"), document_name("emma.pdf")
    ('a/emma', 'v1.2', 'emma.pdf')
    """
    for suffix in _DROPPED_SUFFIXES:
        if path.endswith(suffix) and not path.endswith("/" + suffix) and path != suffix:
            return path.removesuffix(suffix)
    return path


def read_blob(blob: Blob, file_name: str) -> Iterator[Extracted]:
    """Yield the documents of a file; one of an unknown kind is plain text."""
    suffix, inner = _suffixes(file_name)
    if save_as := other_kind(file_name):
        raise FormatError(blob.where, "a kind of file that is read", suffix, f"save it as {save_as}")
    if suffix in _COMPRESSED or suffix in _ARCHIVES:
        with decompressing(blob):
            if suffix in _COMPRESSED:
                blob, suffix = decompressed(blob, suffix), inner
            if suffix in _ARCHIVES:
                yield from _ARCHIVES[suffix](blob, _read_member)
            else:
                yield from _read_documents(blob, suffix)
    else:
        yield from _read_documents(blob, suffix)


def _read_documents(blob: Blob, suffix: str) -> Iterator[Extracted]:
    for found in READERS.get(suffix, read_text)(blob):
        if found.name is None and not found.text.strip():
            raise FormatError(blob.where, "text", "none in it", "leave it out")
        yield found


def _read_member(blob: Blob) -> Iterator[Extracted]:
    """The documents of a member of an archive, named by its path; members of other kinds are left out."""
    name = blob.name.rpartition("/")[2]
    if is_known(name):
        blob = replace(blob, name=document_name(blob.name))
        for found in read_blob(blob, name):
            yield found._replace(name=found.name or blob.name)


def _suffixes(name: str) -> tuple[str, str]:
    """The suffix of a file, and that of the file in it if it is compressed."""
    path = PurePosixPath(name.rpartition("/")[2])
    suffix = path.suffix.lower()
    if suffix not in _COMPRESSED:
        return suffix, ""
    return suffix, _COMPRESSED[suffix] or PurePosixPath(path.stem).suffix.lower()
