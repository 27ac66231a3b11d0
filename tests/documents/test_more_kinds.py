"""Presentations, OpenDocument, rich text, Outlook's e-mails, calendars and address books."""

import io
import zipfile

import pytest

from attar.errors import FormatError
from benchmarks.document_files import docx_of, eml_of, pdf_of, xlsx_of, zip_of
from benchmarks.office_files import compound_file, msg_of, odp_of, ods_of, odt_of, pptx_of, rtf_of
from tests.documents.conftest import TEXT, place_of, recovered

SLIDES = [
    ("Spring show", "Doors open at nine\nEntry is free", ""),
    ("The dinghy", "Weight 62 kg", "Say that it floats."),
]
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


@pytest.mark.parametrize(("name", "make"), [("a.odt", odt_of), ("a.rtf", rtf_of)])
def test_all_words_of_a_text_are_recovered(one, name, make):
    document = one(name, make(TEXT))
    assert recovered(document.text, TEXT) == 1.0
    assert recovered(TEXT, document.text) == 1.0


def test_headings_and_tables_of_an_opendocument_text(one):
    table = [["Item", "Price", "Size"], ["Desk", "120", "large"], ["Lamp", "35", "small"]]
    document = one("a.odt", odt_of("# Prices\n\nAll in pounds.", table=table))
    assert document.title == "Prices"
    assert place_of(document, "All in") == "Prices"
    assert document.text.endswith("The price of Lamp is 35. The size of Lamp is small.")


def test_sheets_of_an_opendocument_spreadsheet(one):
    sheets = {
        "Staff": [["Name", "Age", "Town"], ["Ann", "34", "Bath"]],
        "Rooms": [["Room", "Seats"], ["Hall", "90"]],
    }
    document = one("a.ods", ods_of(sheets))
    assert document.text.split("\n\n") == [
        "Staff",
        "The age of Ann is 34. The town of Ann is Bath.",
        "Rooms",
        "The seats of Hall is 90.",
    ]
    assert place_of(document, "90") == "Rooms, row 2"


@pytest.mark.parametrize(("name", "make"), [("a.pptx", pptx_of), ("a.odp", odp_of)])
def test_slides_with_their_notes(one, name, make):
    document = one(name, make(SLIDES))
    assert "Spring show\n\nDoors open at nine\n" in document.text
    assert place_of(document, "Weight") == "slide 2"
    assert "notes" in place_of(document, "Say that it floats.")


def test_rich_text_has_no_fonts_and_titles(one):
    text = one("a.rtf", rtf_of("Søren paid 18 %.\n\nThe end.")).text
    assert text == "Søren paid 18 %.\n\nThe end."


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


def test_an_outlook_message_and_its_attachments(read):
    attached = {
        "list.txt": b"Bob came.",
        "quote.pdf": pdf_of(["It costs 12 pounds. " * 400]),
        "logo.bin": b"\1",
    }
    data = msg_of(
        "Ann left.", subject="Varnish", sender="Ann", sender_address="a@x.org", to="Bob", attached=attached
    )
    mail, *files = read("a.msg", data)
    assert mail.text.split("\n\n") == [
        "This e-mail was sent by Ann (a@x.org). It was sent to Bob on Wednesday 4 March 2026 at 14:05.",
        "Subject: Varnish.",
        "Ann left.",
        "Attachments: list.txt, quote.pdf, logo.bin.",
    ]
    assert (mail.title, mail.date) == ("Varnish", "2026-03-04T14:05:00+00:00")
    assert [(file.name, file.title) for file in files] == [
        ("a.msg/list", "list.txt, attached to Varnish"),
        ("a.msg/quote.pdf", "quote.pdf, attached to Varnish"),
    ]


def test_footnotes_and_comments_of_a_word_document(one):
    import docx

    document = docx.Document(io.BytesIO(docx_of("Ann left.")))
    document.add_comment(document.paragraphs[0].runs, text="When did she leave?", author="Bob")
    data = io.BytesIO()
    document.save(data)
    read = one("a.docx", _with_footnote(data.getvalue(), "She left in May."))
    assert read.text == "Ann left.\n\nShe left in May.\n\nWhen did she leave?"
    assert place_of(read, "in May") == "footnotes"
    assert place_of(read, "When did") == "comments"


def _with_footnote(data: bytes, text: str) -> bytes:
    """A Word document with a footnote, as Word writes it, after the lines that separate notes from the text."""
    space = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    notes = (
        f'<w:footnotes xmlns:w="{space}"><w:footnote w:type="separator" w:id="-1"><w:p><w:r><w:t>no</w:t></w:r></w:p>'
        f'</w:footnote><w:footnote w:id="1"><w:p><w:r><w:t>{text}</w:t></w:r></w:p></w:footnote></w:footnotes>'
    )
    archive = zipfile.ZipFile(io.BytesIO(data))
    files = {name: archive.read(name) for name in archive.namelist()}
    kind = "application/vnd.openxmlformats-officedocument.wordprocessingml.footnotes+xml"
    files["[Content_Types].xml"] = files["[Content_Types].xml"].replace(
        b"</Types>", f'<Override PartName="/word/footnotes.xml" ContentType="{kind}"/></Types>'.encode()
    )
    relations = "word/_rels/document.xml.rels"
    place = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/footnotes"
    files[relations] = files[relations].replace(
        b"</Relationships>",
        f'<Relationship Id="rId99" Type="{place}" Target="footnotes.xml"/></Relationships>'.encode(),
    )
    return zip_of(files | {"word/footnotes.xml": notes.encode()})


WHOLE = {
    "a.docx": docx_of(TEXT),
    "a.xlsx": xlsx_of({"A": [["x", "y"], ["1", "2"]]}),
    "a.pptx": pptx_of(SLIDES),
    "a.odt": odt_of(TEXT),
    "a.ods": ods_of({"A": [["x", "y"], ["1", "2"]]}),
    "a.odp": odp_of(SLIDES),
    "a.msg": msg_of("Ann left. " * 600, subject="S", sender="Ann", sender_address="a@x.org", to="Bob"),
}


@pytest.mark.parametrize("name", [*WHOLE, "a.rtf", "a.ics", "a.vcf"])
@pytest.mark.parametrize("damage", ["cut", "other text", "zip of nothing", "compound file of nothing"])
def test_a_damaged_file_is_refused_in_one_line(one, name, damage):
    data = {
        "cut": (whole := WHOLE.get(name, b"{\\rt"))[: len(whole) // 2],
        "other text": b"Ann left.",
        "zip of nothing": zip_of({"a.xml": b"<a/>"}),
        "compound file of nothing": compound_file({"a": b"x"}),
    }[damage]
    with pytest.raises(FormatError, match=name.replace(".", r"\.")) as caught:
        one(name, data)
    assert "\n" not in str(caught.value)


def nested_mail(depth: int) -> bytes:
    """A message with a message attached, which has a message attached, and so on."""
    from email import message_from_bytes, policy

    data = eml_of("The innermost.", subject="0")
    for number in range(1, depth):
        message = message_from_bytes(eml_of(f"Number {number}.", subject=str(number)), policy=policy.default)
        message.add_attachment(message_from_bytes(data, policy=policy.default))
        data = message.as_bytes()
    return data


def test_attachments_nested_ten_deep_are_one_clear_line(read):
    faults = []
    documents = read("a.eml", nested_mail(10), on_bad=faults.append)
    assert [document.name for document in documents] == [
        "a.eml",
        "a.eml/8.eml",
        "a.eml/8.eml/7.eml",
        "a.eml/8.eml/7.eml/6.eml",
    ]
    (fault,) = map(str, faults)
    assert fault.endswith("5.eml is attached to a message within 3 others; save it first")
