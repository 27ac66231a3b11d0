"""Files into text: plain text, Markdown, HTML, PDF, DOCX, EPUB, e-mail, tables, JSON, and archives of these.

Titles, dates, and the places of pages, headings and rows are kept. Plain text and JSON need no extra packages; the
others are in the extra `documents` and are imported when a file needs them.
"""

from attar.documents.extracted import Extracted, OnBad, Part, replace_surrogates
from attar.documents.plain import decode_text
from attar.documents.sources import (
    FoundFiles,
    SkippedFile,
    SourceDocument,
    SourceFile,
    document_name,
    find_files,
    is_known,
    read_bytes,
    read_source_file,
    read_sources,
)

__all__ = [
    "Extracted",
    "FoundFiles",
    "OnBad",
    "Part",
    "SkippedFile",
    "SourceDocument",
    "SourceFile",
    "decode_text",
    "document_name",
    "find_files",
    "is_known",
    "read_bytes",
    "read_source_file",
    "read_sources",
    "replace_surrogates",
]
