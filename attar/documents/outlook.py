"""Outlook's e-mails (.msg): a compound file with a stream for each property, and a storage for each attachment."""

import io
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any

from attar.documents.archives import ReadMember, read_attachment
from attar.documents.extracted import Blob, Extracted, TextBuilder, clean, parsing
from attar.documents.html import decode_html, text_of_html
from attar.documents.mail import add_mail
from attar.errors import FormatError

# The properties of a message, by their numbers in Microsoft's MS-OXPROPS.
_SUBJECT, _SENDER, _ADDRESS, _SMTP, _TO, _CC = "0037", "0C1A", "0C1F", "5D01", "0E04", "0E03"
_BODY, _HTML, _HEADERS = "1000", "1013", "007D"
_LONG_NAME, _NAME, _DATA = "3707", "3704", "3701"
_SENT = (b"\x40\0\x39\0", b"\x40\0\x06\x0e")  # when it was sent, or received, in the stream of fixed sizes
_MOST_ATTACHMENTS = 1_000


def read_msg(blob: Blob, read: ReadMember) -> Iterator[Extracted]:
    """One e-mail, and its attachments as documents of their own."""
    data = blob.data()
    with parsing(blob.where, "an Outlook message"):
        import olefile

        if not olefile.isOleFile(data=data):
            raise FormatError(f"{blob.where} is not an Outlook message", "leave it out")
        file = olefile.OleFileIO(io.BytesIO(data))
        value = partial(_property, file, "")
        if not file.exists("__properties_version1.0"):
            raise FormatError(f"{blob.where} is not an Outlook message", "leave it out")
        storages = sorted({path[0] for path in file.listdir(storages=True) if path[0].startswith("__attach")})
        names = [value(_LONG_NAME, storage) or value(_NAME, storage) or "a message" for storage in storages][
            :_MOST_ATTACHMENTS
        ]
        subject, sent = value(_SUBJECT), _sent(file, value)
        sender, address = value(_SENDER), value(_SMTP) or value(_ADDRESS)
        writer = f"{sender} ({address})" if "@" in address and sender != address else sender or address
        body = value(_BODY)
        if not body.strip() and (html := _stream(file, f"__substg1.0_{_HTML}0102")):
            body = text_of_html(decode_html(html, blob.where))
        builder = TextBuilder()
        people = (writer, value(_TO).replace(";", ","), value(_CC).replace(";", ","))
        add_mail(builder, people, sent, subject, body, names)
    yield builder.build(subject, "" if sent is None else sent.isoformat())
    for storage, name in zip(storages, names, strict=False):
        content = _stream(file, f"{storage}/__substg1.0_{_DATA}0102")
        if content:
            yield from read_attachment(blob, name, content, subject, read)


def _stream(file: Any, path: str) -> bytes:
    parts = path.split("/")
    return bytes(file.openstream(parts).read()) if file.exists(parts) else b""


def _property(file: Any, default: str, number: str, storage: str = "") -> str:
    """A text of the message, in UTF-16 or in the older encoding."""
    path = f"{storage}/" * bool(storage) + f"__substg1.0_{number}"
    if wide := _stream(file, f"{path}001F"):
        return clean(wide.decode("utf-16-le", "replace"))
    return clean(_stream(file, f"{path}001E").decode("cp1252", "replace")) or default


def _sent(file: Any, value: Callable[[str], str]) -> datetime | None:
    """When it was sent: a property in steps of 100 ns since 1601, or the header."""
    fixed = _stream(file, "__properties_version1.0")[32:]
    for at in range(0, len(fixed) - 15, 16):
        if fixed[at : at + 4] in _SENT:
            steps = int.from_bytes(fixed[at + 8 : at + 16], "little")
            try:
                return datetime(1601, 1, 1, tzinfo=UTC) + timedelta(microseconds=steps // 10)
            except OverflowError:
                return None
    for line in value(_HEADERS).splitlines():
        if line.lower().startswith("date:"):
            try:
                return parsedate_to_datetime(line[5:].strip())
            except (ValueError, TypeError, IndexError, OverflowError):
                return None
    return None
