"""E-mails: the headers as sentences, the text, quoted parts and signatures as parts of their own, and attachments.

Outlook's (.msg) are compound files with a stream for each property, and a storage for each attachment.
"""

import io
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email import message_from_bytes, policy
from email.message import EmailMessage, Message
from email.utils import getaddresses, parsedate_to_datetime
from functools import partial
from itertools import islice
from typing import Any

from attar.documents.archives import ReadMember, read_attachment
from attar.documents.extracted import Blob, SourceDocument, TextBuilder, check_size, clean, parsing
from attar.documents.html import decode_html, text_of_html
from attar.documents.plain import decode_text
from attar.documents.tables import sentence
from attar.errors import FormatError

_QUOTED, _SIGNATURE = "quoted message", "signature"
_QUOTE_MARK = re.compile(r"^\s{0,3}>[> ]?")
_QUOTE_MARKS = re.compile(rf"^(?:{_QUOTE_MARK.pattern[1:]})+")
_ATTRIBUTION = re.compile(r"^.{0,200}\b(?:wrote|writes|schrieb|escribió|a écrit)\s?:\s*$", re.S)
_FORWARDED = re.compile(
    r"^\s*(?:-{2,}\s*(?:original|forwarded) message\s*-{2,}|begin forwarded message:?|_{20,})\s*$", re.I
)
# mbox puts ">" before a line of the text that begins with "From ".
_ESCAPED = re.compile(rb"^>(>*From )", re.M)
# More than any mail program writes.
_MAX_HEADER_LINES = 2_000
_LONGEST_HEADER = 20_000
_MAX_MIME_PARTS = 10_000
_MAX_ATTACHMENTS = 1_000
_HEAD_END = re.compile(rb"\r?\n\r?\n")
# The properties of a message, by their numbers in Microsoft's MS-OXPROPS.
_SUBJECT, _SENDER, _ADDRESS, _SMTP, _TO, _CC = "0037", "0C1A", "0C1F", "5D01", "0E04", "0E03"
_BODY, _HTML, _HEADERS = "1000", "1013", "007D"
_LONG_NAME, _NAME, _DATA = "3707", "3704", "3701"
_SENT = (b"\x40\0\x39\0", b"\x40\0\x06\x0e")  # when it was sent, or received, in the stream of fixed sizes


def read_eml(blob: Blob, read: ReadMember) -> Iterator[SourceDocument]:
    """One e-mail, and its attachments as documents of their own."""
    data = blob.data()
    if not data.strip():
        raise FormatError(f"{blob.where} is empty", "leave it out")
    yield from _extract(data, blob, read)


def read_mbox(blob: Blob, read: ReadMember) -> Iterator[SourceDocument]:
    """The e-mails of an mbox file, each a document: `inbox.mbox-1` and so on."""
    for number, data in enumerate(_messages(blob), 1):
        name = f"{blob.name}-{number}"
        message = replace(blob, where=f"{blob.where}, message {number}", name=name)
        for found in _extract(_ESCAPED.sub(rb"\1", data), message, read):
            yield found._replace(name=found.name or name)


def _messages(blob: Blob) -> Iterator[bytes]:
    lines: list[bytes] = []
    size, blank, begun = 0, True, False
    for line in blob.file:
        if line.startswith(b"From ") and blank:
            if begun:
                yield b"".join(lines)
            lines, size, begun = [], 0, True
        elif not begun and line.strip():
            raise FormatError(f"{blob.where} is not an mbox file: it does not begin with From")
        else:
            lines.append(line)
            size += len(line)
            if blob.compressed:
                check_size(blob.where, size, blob.max_bytes)
        blank = not line.strip()
    if not begun:
        raise FormatError(f"{blob.where} has no e-mails", "leave it out")
    yield b"".join(lines)


def _extract(data: bytes, blob: Blob, read: ReadMember) -> Iterator[SourceDocument]:
    where = blob.where
    with parsing(where, "an e-mail"):
        head, missing = _bounded_head(data)
        message = message_from_bytes(head, policy=policy.default)
        if not message.keys():
            raise FormatError(f"{where} has no headers of an e-mail", "rename it to .txt if it is a text")
        builder = TextBuilder()
        if missing:
            builder.leave_out("a part of its headers")
        subject, date = _header(message, "Subject"), _parsed_date(str(message.get("Date") or ""))
        attached = [*islice(_attached(message), _MAX_ATTACHMENTS + 1)]
        if len(attached) > _MAX_ATTACHMENTS:
            builder.leave_out(f"attachments after {_MAX_ATTACHMENTS:,}")
        people = tuple(_addresses(message, name) for name in ("From", "To", "Cc"))
        add_mail(builder, people, date, subject, _body(message, where), [*map(_file_name, attached)])
    yield builder.build(subject, "" if date is None else date.isoformat())
    for part in attached[:_MAX_ATTACHMENTS]:
        if part.get_content_maintype() == "image" and part.get("Content-ID"):
            continue  # a logo in the text
        with parsing(where, "an e-mail"):
            content = _content(part)
        if content.strip():
            yield from read_attachment(blob, _file_name(part), content, subject, read)


def add_mail(
    builder: TextBuilder,
    people: Sequence[str],
    date: datetime | None,
    subject: str,
    body: str,
    attached: Sequence[str],
) -> None:
    """Add an e-mail: who wrote it, to whom and with copies to whom, when, about what, its text, what is attached."""
    builder.add(_introduction(people, date))
    if subject:
        builder.add(sentence(f"Subject: {subject}"))
    _add_text(builder, body)
    if attached:
        builder.begin("attachments")
        builder.add(sentence("Attachments: " + ", ".join(attached)))


def _bounded_head(data: bytes) -> tuple[bytes, bool]:
    """The e-mail with a limited number of header lines of limited length, and whether some were cut.

    The parser of headers is quadratic in the words of one, and goes through all of them for each name.
    """
    end = _HEAD_END.search(data)
    head, rest = (data, b"") if end is None else (data[: end.start()], data[end.start() :])
    lines = head.split(b"\n", _MAX_HEADER_LINES)
    cut = len(lines) > _MAX_HEADER_LINES
    headers: list[bytes] = []
    size = 0
    for line in lines[:_MAX_HEADER_LINES]:
        size = size + len(line) if line[:1] in (b" ", b"\t") else len(line)
        if size <= _LONGEST_HEADER:
            headers.append(line)
        else:
            cut = True
            if size == len(line):
                headers.append(line[:_LONGEST_HEADER])
    return b"\n".join(headers) + rest, cut


def _introduction(people: Sequence[str], date: datetime | None) -> str:
    """Who wrote to whom, and when: two sentences, from which readers answer better than from one."""
    writer, *receivers = people
    words = [f"to {receivers[0]}"] if receivers[0] else []
    words += [f"with a copy to {receivers[1]}"] if receivers[1] else []
    words += [f"on {date:%A} {date.day} {date:%B %Y at %H:%M}"] if date is not None else []
    first = f"This e-mail was sent by {writer}. " if writer else ""
    return first + (f"{'It' if writer else 'This e-mail'} was sent {' '.join(words)}." if words else "")


def _addresses(message: Message, name: str) -> str:
    found = getaddresses([str(line) for line in message.get_all(name, [])][:1])
    people = [
        f"{person} ({address})" if person and address else person or address for person, address in found
    ]
    people = [person for person in map(clean, people) if person]
    return ", ".join(people[:-1]) + " and " + people[-1] if len(people) > 1 else "".join(people)


def _header(message: Message, name: str) -> str:
    return " ".join(clean(str(message.get(name) or "")).split())


def _parsed_date(date: str) -> datetime | None:
    try:
        return parsedate_to_datetime(date)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def _body(message: EmailMessage, where: str) -> str:
    """The plain text, or that of the HTML if there is no other."""
    part = message.get_body(("plain", "html"))
    if part is None:
        return ""
    data = part.get_payload(decode=True)
    if not isinstance(data, bytes) or not data.strip():
        return ""
    if part.get_content_subtype() == "html":
        return text_of_html(decode_html(data, where))
    try:
        return data.decode(part.get_content_charset() or "utf-8")
    except (LookupError, UnicodeDecodeError):
        return decode_text(data, where)


def _attached(message: Message) -> Iterator[Message]:
    """The attachments of a message, without those of a message that is attached to it."""
    waiting: list[Message] = [message]
    for _ in range(_MAX_MIME_PARTS):
        if not waiting:
            return
        part = waiting.pop()
        is_message = part.get_content_maintype() == "message" and part is not message
        is_file = part.get_content_disposition() == "attachment" or bool(part.get_filename())
        if is_message or (is_file and not part.is_multipart()):
            yield part
        elif part.is_multipart():
            waiting += [inner for inner in part.get_payload() if isinstance(inner, Message)][::-1]


def _file_name(part: Message) -> str:
    """The name of an attachment; of a message without one, its subject."""
    name = " ".join(clean(part.get_filename() or "").split())
    if part.get_content_type() != "message/rfc822" or name.lower().endswith(".eml"):
        return name or "a file"
    inner = _inner_message(part)
    subject = "" if inner is None else _header(inner, "Subject")
    return f"{name or subject.replace('/', ' ') or 'a message'}.eml"


def _inner_message(part: Message) -> Message | None:
    payload = part.get_payload()
    first = payload[0] if isinstance(payload, list) and payload else None
    return first if isinstance(first, Message) else None


def _content(part: Message) -> bytes:
    if part.get_content_maintype() == "message":
        inner = _inner_message(part)
        return b"" if inner is None else inner.as_bytes()
    data = part.get_payload(decode=True)
    return data if isinstance(data, bytes) else b""


def _add_text(builder: TextBuilder, text: str) -> None:
    """Add the text of an e-mail; what it quotes and its signature are parts, so that an answer can say so."""
    kind, lines = "", list[str]()

    def close(following: str) -> None:
        nonlocal kind
        builder.begin(kind)
        builder.add("\n".join(lines))
        lines.clear()
        kind = following

    waiting = text.replace("\r\n", "\n").split("\n")
    below = False  # after a forwarded message begins, all is quoted
    for at, line in enumerate(waiting):
        if line.rstrip() == "--" and not below:
            now = _SIGNATURE
            line = ""
        elif _FORWARDED.match(line):
            below, now, line = True, _QUOTED, ""
        elif below or _QUOTE_MARK.match(line):
            now, line = _QUOTED, _QUOTE_MARKS.sub("", line)
        elif not line.strip() or kind == _SIGNATURE:
            now = kind
        else:
            following = next((line for line in waiting[at + 1 : at + 4] if line.strip()), "")
            now = _QUOTED if _ATTRIBUTION.match(line) and _QUOTE_MARK.match(following) else ""
        if now != kind:
            close(now)
        lines.append(line)
    close("")


def read_msg(blob: Blob, read: ReadMember) -> Iterator[SourceDocument]:
    """One e-mail, and its attachments as documents of their own."""
    data = blob.data()
    with parsing(blob.where, "an Outlook message"):
        import olefile

        file = olefile.OleFileIO(io.BytesIO(data)) if olefile.isOleFile(data=data) else None
        if file is None or not file.exists("__properties_version1.0"):
            raise FormatError(f"{blob.where} is not an Outlook message", "leave it out")
        value = partial(_text_property, file)
        storages = sorted({path[0] for path in file.listdir(storages=True) if path[0].startswith("__attach")})
        del storages[_MAX_ATTACHMENTS:]
        names = [value(_LONG_NAME, storage) or value(_NAME, storage) or "a message" for storage in storages]
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
    for storage, name in zip(storages, names, strict=True):
        content = _stream(file, f"{storage}/__substg1.0_{_DATA}0102")
        if content:
            yield from read_attachment(blob, name, content, subject, read)


def _stream(file: Any, path: str) -> bytes:
    parts = path.split("/")
    return bytes(file.openstream(parts).read()) if file.exists(parts) else b""


def _text_property(file: Any, number: str, storage: str = "") -> str:
    """A text of the message, in UTF-16 or in the older encoding."""
    path = f"{storage}/" * bool(storage) + f"__substg1.0_{number}"
    if wide := _stream(file, f"{path}001F"):
        return clean(wide.decode("utf-16-le", "replace"))
    return clean(_stream(file, f"{path}001E").decode("cp1252", "replace"))


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
            return _parsed_date(line[5:].strip())
    return None
