"""Calendars and address books: entries as sentences."""

from tests.documents.conftest import place_of

CALENDAR = """BEGIN:VCALENDAR
BEGIN:VEVENT
DTSTART;TZID=Europe/London:20260427T170000
SUMMARY:Works council
LOCATION:The loft\\, second
  floor
ORGANIZER;CN="Ann Lee":mailto:ann@example.org
DESCRIPTION:Bring the list.
BEGIN:VALARM
DESCRIPTION:Reminder
END:VALARM
END:VEVENT
END:VCALENDAR
"""
CONTACTS = """BEGIN:VCARD
VERSION:3.0
FN:Ann Lee
ORG:Meridian;Sales
item1.TEL;TYPE=CELL:07700 900418
TEL;WORK;VOICE:0117 496
EMAIL:ann@example.org
BDAY:1990-03-04
ADR:;;3 Quay Street;Bath;;BA1;UK
END:VCARD
"""


def test_an_event_of_a_calendar(one):
    document = one("a.ics", CALENDAR.replace("\n", "\r\n").encode())
    assert document.text.split("\n\n") == [
        "Works council",
        "The start of Works council is Monday 27 April 2026, 17:00. The place of Works council is The loft, second "
        "floor. The organizer of Works council is Ann Lee.",
        "Bring the list.",
    ]
    assert place_of(document, "17:00") == "Works council"


def test_a_person_of_an_address_book(one):
    text = one("a.vcf", CONTACTS.encode()).text
    assert text.split("\n\n")[1] == (
        "The company of Ann Lee is Meridian, Sales. The mobile phone number of Ann Lee is 07700 900418. The phone "
        "number at work of Ann Lee is 0117 496. The e-mail address of Ann Lee is ann@example.org. The birthday of Ann "
        "Lee is Sunday 4 March 1990. The address of Ann Lee is 3 Quay Street, Bath, BA1, UK."
    )


def test_entries_without_an_end_are_read(one):
    """A program that crashed, or a download that was cut, leaves them."""
    events = "".join(f"BEGIN:VEVENT\nSUMMARY:{name}\n" for name in ("First", "Second", "Third"))
    assert one("a.ics", f"BEGIN:VCALENDAR\n{events}".encode()).text == "First\n\nSecond\n\nThird"


def test_letters_of_older_address_books_are_decoded(one):
    name = "FN;CHARSET=UTF-8;ENCODING=QUOTED-PRINTABLE:=4A=C3=B6rg =\n=4D=C3=BCller\nNOTE;QUOTED-PRINTABLE:caf=E9"
    assert one("a.vcf", f"BEGIN:VCARD\n{name}\nEND:VCARD\n".encode()).text == "Jörg Müller\n\ncafé."
