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
from typing import Any, cast

from attar.documents.archives import ReadMember, read_attachment
from attar.documents.extracted import (
    Blob,
    SourceDocument,
    TextBuilder,
    check_size,
    clean,
    parsing,
    report,
)
from attar.documents.html import decode_html, text_of_html
from attar.documents.plain import decode_named
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
_BODY, _HTML, _RICH, _HEADERS = "1000", "1013", "1009", "007D"
_LONG_NAME, _NAME, _DATA = "3707", "3704", "3701"
_STREAM = 2  # of a compound file, as olefile numbers it
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
        try:
            for found in _extract(_ESCAPED.sub(rb"\1", data), message, read):
                yield found._replace(name=found.name or name)
        except FormatError as fault:  # the messages after it are read
            report(fault, blob.report)


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
                check_size(blob.where, size, blob.limits.max_decompressed)
        blank = not line.strip()
    if not begun:
        raise FormatError(f"{blob.where} has no e-mails", "leave it out")
    yield b"".join(lines)


def _extract(data: bytes, blob: Blob, read: ReadMember) -> Iterator[SourceDocument]:
    where = blob.where
    with parsing(where, "an e-mail"):
        head, missing = _bounded_head(data)
        message = message_from_bytes(head, policy=_POLICY)
        if not message.keys():
            raise FormatError(f"{where} has no headers of an e-mail", "rename it to .txt if it is a text")
        builder = TextBuilder()
        if missing or any(len(str(value)) >= _LONGEST_HEADER for _, value in message.raw_items()):
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


class _ShortHeaders(policy.EmailPolicy):
    """Cuts the headers of an e-mail and of its parts: the parser is quadratic in the words and parameters of one."""

    def header_source_parse(self, sourcelines: list[str]) -> tuple[str, str]:
        name, value = super().header_source_parse(sourcelines)
        return name, value[:_LONGEST_HEADER]


_POLICY = cast("policy.Policy[EmailMessage]", _ShortHeaders())


def _bounded_head(data: bytes) -> tuple[bytes, bool]:
    """The e-mail with a limited number of header lines, and whether some were cut: each name is looked for in all."""
    end = _HEAD_END.search(data)
    head, rest = (data, b"") if end is None else (data[: end.start()], data[end.start() :])
    lines = head.split(b"\n", _MAX_HEADER_LINES)
    return b"\n".join(lines[:_MAX_HEADER_LINES]) + rest, len(lines) > _MAX_HEADER_LINES


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
    return decode_named(data, part.get_content_charset() or "utf-8", where)


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
    yield from _extract_msg(file, [], blob, read)


def _extract_msg(file: Any, place: list[str], blob: Blob, read: ReadMember) -> Iterator[SourceDocument]:
    """The message in a storage of a compound file: the file itself, or one that is attached to another."""
    with parsing(blob.where, "an Outlook message"):
        value = partial(_text_property, file, place)
        storages = sorted(
            path[len(place)]
            for path in file.listdir(streams=False, storages=True)
            if path[:-1] == place and path[-1].startswith("__attach")
        )
        builder = TextBuilder()
        if len(storages) > _MAX_ATTACHMENTS:
            builder.leave_out(f"attachments after {_MAX_ATTACHMENTS:,}")
        del storages[_MAX_ATTACHMENTS:]
        names = [value(_LONG_NAME, storage) or value(_NAME, storage) or "a message" for storage in storages]
        subject, sent = value(_SUBJECT), _sent(file, place, value)
        sender, address = value(_SENDER), value(_SMTP) or value(_ADDRESS)
        writer = f"{sender} ({address})" if "@" in address and sender != address else sender or address
        body = value(_BODY)
        if not body.strip() and (html := _stream(file, [*place, f"__substg1.0_{_HTML}0102"])):
            body = text_of_html(decode_html(html, blob.where))
        elif not body.strip() and file.exists([*place, f"__substg1.0_{_RICH}0102"]):
            builder.leave_out("its text, which is in Outlook's own format alone")
        people = (writer, value(_TO).replace(";", ","), value(_CC).replace(";", ","))
        add_mail(builder, people, sent, subject, body, names)
    yield builder.build(subject, "" if sent is None else sent.isoformat())
    for storage, name in zip(storages, names, strict=True):
        inside = [*place, storage, f"__substg1.0_{_DATA}000D"]
        content = _stream(file, [*place, storage, f"__substg1.0_{_DATA}0102"])
        if content:
            yield from read_attachment(blob, name, content, subject, read)
        elif file.exists(inside):
            message = partial(_attached_msg, file, inside, read)
            yield from read_attachment(blob, f"{name}.msg", b"", subject, message)


def _attached_msg(file: Any, place: list[str], read: ReadMember, blob: Blob) -> Iterator[SourceDocument]:
    for found in _extract_msg(file, place, blob, read):
        yield found._replace(name=found.name or blob.name)


def _stream(file: Any, path: list[str]) -> bytes:
    is_stream = file.exists(path) and file.get_type(path) == _STREAM
    return bytes(file.openstream(path).read()) if is_stream else b""


def _text_property(file: Any, place: list[str], number: str, storage: str = "") -> str:
    """A text of the message, in UTF-16 or in the older encoding."""
    path = [*place, storage] if storage else place
    if wide := _stream(file, [*path, f"__substg1.0_{number}001F"]):
        return clean(wide.decode("utf-16-le", "replace"))
    return clean(_stream(file, [*path, f"__substg1.0_{number}001E"]).decode("cp1252", "replace"))


def _sent(file: Any, place: list[str], value: Callable[[str], str]) -> datetime | None:
    """When it was sent: a property in steps of 100 ns since 1601, or the header."""
    # The head of the properties is shorter in an attached message.
    fixed = _stream(file, [*place, "__properties_version1.0"])[24 if place else 32 :]
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
