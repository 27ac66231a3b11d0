"""Files into text: plain text, Markdown, HTML, PDF, Office, OpenDocument, EPUB, e-mail, JSON, and archives of these.

Titles, dates, and the places of pages, headings and rows are kept. Plain text and JSON need no extra packages; the
others are in the extra `documents` and are imported when a file needs them.
"""

from attar.documents.extracted import SourceDocument
from attar.documents.plain import decode_text
from attar.documents.sources import find_files
from attar.documents.workers import FileReader, read_sources
from attar.options import FileLimits

__all__ = [
    "FileLimits", "FileReader", "SourceDocument", "decode_text", "find_files", "read_sources",
]  # fmt: skip
