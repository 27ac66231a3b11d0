r"""Calendars and address books (iCalendar, vCard): each event and each person as sentences.

Both have lines such as `TEL;TYPE=CELL:0117 496`, which go on in lines that begin with a space.
"""

import quopri
import re
from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from attar.documents.extracted import Blob, SourceDocument, TextBuilder, parsing
from attar.documents.plain import decode_text
from attar.documents.tables import fact, sentence
from attar.errors import FormatError

_FOLDED = re.compile(r"\r?\n[ \t]")
# A name, parameters, and a value; parameters are read in one way only, so that many of them take linear time.
_LINE = re.compile(r"(?:[\w-]+\.)?([\w-]+)((?:;[^:;\"]*(?:\"[^\"]*\"[^:;\"]*)*)*):(.*)")
_QUOTED = re.compile(r";(?:ENCODING=)?QUOTED-PRINTABLE", re.I)
_ESCAPED = re.compile(r"\\([\\,;nN])")
_PARTS = re.compile(r"(?<!\\);")
_DATE = re.compile(r"(\d{4})-?(\d{2})-?(\d{2})(?:T(\d{2}):?(\d{2}))?")
_EVENTS = {
    "DTSTART": "start", "DTEND": "end", "DUE": "due date", "LOCATION": "place", "ORGANIZER": "organizer",
    "ATTENDEE": "attendee", "STATUS": "status", "RRULE": "repetition", "URL": "address",
}  # fmt: skip
_PEOPLE = {
    "TEL": "phone number", "EMAIL": "e-mail address", "ORG": "company", "TITLE": "job", "ROLE": "role",
    "ADR": "address", "BDAY": "birthday", "ANNIVERSARY": "anniversary", "NICKNAME": "nickname", "URL": "web site",
}  # fmt: skip
_TYPES = re.compile(r"(?:TYPE=)?\"?\b(CELL|WORK|HOME|FAX)\b", re.I)


class _Property(NamedTuple):
    name: str
    parameters: str
    value: str


def read_calendar(blob: Blob) -> Iterator[SourceDocument]:
    """A calendar: its events and tasks."""
    yield _extract(blob, "a calendar (iCalendar)", ("VEVENT", "VTODO", "VJOURNAL"), "SUMMARY", _EVENTS)


def read_contacts(blob: Blob) -> Iterator[SourceDocument]:
    """An address book: its people."""
    yield _extract(blob, "an address book (vCard)", ("VCARD",), "FN", _PEOPLE)


def _extract(
    blob: Blob, expected: str, kinds: tuple[str, ...], title: str, names: dict[str, str]
) -> SourceDocument:
    text = decode_text(blob.data(), blob.where)
    with parsing(blob.where, expected):
        builder, entries = TextBuilder(), 0
        for entry in _entries(text, kinds):
            entries += 1
            of = next((_plain(line.value) for line in entry if line.name == title), "") or f"entry {entries}"
            builder.begin(of)
            builder.add(of)
            builder.add(" ".join(_facts(entry, of, names)))
            for line in entry:
                if line.name in ("DESCRIPTION", "NOTE", "COMMENT"):
                    builder.add(sentence(_plain(line.value)))
        if not entries:
            raise FormatError(f"{blob.where} is not {expected}, or has no entries", "leave it out")
    return builder.build()


def _entries(text: str, kinds: tuple[str, ...]) -> Iterator[list[_Property]]:
    entry: list[_Property] | None = None
    inside: list[str] = []
    for line in _unfolded(text):
        found = _LINE.match(line)
        if found is None:
            continue
        name, value = found[1].upper(), found[3].strip()
        if name == "BEGIN":
            inside.append(value.upper())
            if value.upper() in kinds:
                if entry:  # it has no end
                    yield entry
                entry = []
        elif name == "END" and inside:
            if inside.pop() in kinds and entry is not None:
                yield entry
                entry = None
        elif entry is not None and inside[-1] in kinds:  # not of an alarm in an event
            entry.append(_Property(name, found[2], _decoded(value, found[2])))
    if entry:  # the file is cut
        yield entry


def _unfolded(text: str) -> Iterator[str]:
    """The lines, each with those that go on from it: after a line break and a space, or after "=" in vCard 2.1."""
    lines = iter(_FOLDED.sub("", text).splitlines())
    for line in lines:
        parts = [line]
        if _QUOTED.search(line.partition(":")[0]):
            while parts[-1].endswith("="):
                parts[-1] = parts[-1][:-1]
                parts.append(next(lines, ""))
        yield "".join(parts)


def _decoded(value: str, parameters: str) -> str:
    """A value as text; older address books write letters that are not ASCII as "=C3=BC"."""
    if _QUOTED.search(parameters) is None:
        return value
    data = quopri.decodestring(value.encode())
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace")


def _facts(entry: list[_Property], of: str, names: dict[str, str]) -> Iterator[str]:
    for line in entry:
        if line.name not in names or not line.value:
            continue
        name, value = names[line.name], _plain(line.value)
        kind = _TYPES.search(line.parameters) if line.name == "TEL" else None
        if kind is not None:
            name = {"CELL": "mobile phone number", "FAX": "fax number"}.get(
                kind[1].upper(), f"phone number at {kind[1].lower()}"
            )
        if line.name in ("DTSTART", "DTEND", "DUE", "BDAY", "ANNIVERSARY"):
            value = _date(value)
        elif line.name in ("ORGANIZER", "ATTENDEE"):
            person = re.search(r"CN=\"?([^\";:]+)", line.parameters)
            value = person[1] if person else re.sub(r"(?i)^mailto:", "", value)
        yield fact(name, value, of)


def _plain(value: str) -> str:
    r"""A value without escapes, its parts with commas between them.

    >>> _plain(r"Harbour Street 3\, Bath;;BA1")
    'Harbour Street 3, Bath, BA1'
    """
    parts = (
        _ESCAPED.sub(lambda mark: " " if mark[1] in "nN" else mark[1], part) for part in _PARTS.split(value)
    )
    return ", ".join(" ".join(part.split()) for part in parts if part.strip())


def _date(value: str) -> str:
    """A date as people write it.

    >>> _date("20260427T170000"), _date("1990-03-04"), _date("--0304")
    ('Monday 27 April 2026, 17:00', 'Sunday 4 March 1990', '--0304')
    """
    found = _DATE.match(value)
    try:
        day = datetime(*(int(part) for part in found.groups(default="0"))) if found else None  # type: ignore[arg-type]
    except ValueError:
        day = None
    if day is None or found is None:
        return value
    return f"{day:%A} {day.day} {day:%B %Y}" + (f", {day:%H:%M}" if found[4] else "")
