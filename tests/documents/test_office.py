"""Word, OpenDocument, rich text, presentations, spreadsheets and CSV: headings, notes, and rows as sentences."""

import io
import zipfile
from datetime import date

import pytest

from attar.documents import office
from attar.errors import FormatError
from tests.documents.conftest import TEXT, place_of
from tests.documents.document_files import docx_of, xlsx_of, zip_of
from tests.documents.office_files import odp_of, ods_of, odt_of, pptx_of, rtf_of

SLIDES = [
    ("Spring show", "Doors open at nine\nEntry is free", ""),
    ("The dinghy", "Weight 62 kg", "Say that it floats."),
]


def test_text_title_date_and_headings_of_a_document(one):
    document = one("a.docx", docx_of(TEXT, title="Choir"))
    assert document.text == TEXT.replace("# ", "")
    assert (document.title, len(document.date)) == ("Choir", 10)
    assert place_of(document, "14 June") == "Concert"


def test_rows_of_a_table_in_a_document_read_as_sentences(one):
    table = [["Item", "Price", "Colour"], ["Desk", "120", "oak"], ["Lamp", "35", ""]]
    text = one("a.docx", docx_of("The prices:", table=table)).text
    assert text.split("\n\n") == [
        "The prices:",
        "The price of Desk is 120. The colour of Desk is oak.",
        "The price of Lamp is 35.",
    ]


def test_insertions_are_read_and_deletions_are_not(one):
    """Tracked changes, as Word writes them."""
    changed = _with_document(
        docx_of("Ann left."),
        "<w:r><w:t>Ann left.</w:t></w:r>",
        "<w:r><w:t>Ann </w:t></w:r><w:del><w:r><w:delText>left</w:delText></w:r></w:del>"
        "<w:ins><w:r><w:t>stayed</w:t></w:r></w:ins><w:r><w:t>.</w:t></w:r>",
    )
    assert one("a.docx", changed).text == "Ann stayed."


def test_sheets_and_rows_are_places(one):
    sheets = {
        "Staff": [["name", "born", "pay"], ["Ann Lee", date(1990, 3, 4), 1200.5], ["Bob Ray", None, 900]],
        "Rooms": [["room", "free"], ["Hall", True]],
    }
    document = one("club.xlsx", xlsx_of(sheets))
    assert document.text.split("\n\n") == [
        "Staff",
        "The born of Ann Lee is 4 March 1990. The pay of Ann Lee is 1200.5.",
        "The pay of Bob Ray is 900.",
        "Rooms",
        "The free of Hall is yes.",
    ]
    assert place_of(document, "Bob Ray") == "Staff, row 3"
    assert place_of(document, "Hall") == "Rooms, row 2"


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.csv", b'name,age\nAnn Lee,34\n"Ray, Bob",40\n'),
        ("a.csv", b"name;age\r\nAnn Lee;34\r\nRay, Bob;40\r\n"),
        ("a.tsv", b"name\tage\nAnn Lee\t34\nRay, Bob\t40\n"),
    ],
)
def test_rows_of_a_csv_file_read_as_sentences(one, name, data):
    document = one(name, data)
    assert document.text == "The age of Ann Lee is 34.\n\nThe age of Ray, Bob is 40."
    assert place_of(document, "Ray, Bob") == "row 3"


def test_rows_without_names_of_columns_are_read_as_they_are(one):
    assert one("a.csv", b"Ann,34,Bath\nBob,40,York\n").text == "Ann; 34; Bath.\n\nBob; 40; York."


def test_a_file_that_grows_beyond_the_limit_is_refused(read):
    data = zip_of({"word/document.xml": b" " * 10**6})
    assert len(data) < 10**4
    with pytest.raises(FormatError, match="at most 50,000 bytes when decompressed"):
        read("a.docx", data, max_bytes=50_000)


def test_entities_of_a_document_are_not_expanded(one):
    entity = '<!DOCTYPE d [<!ENTITY a "aaaaaaaaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>'
    bomb = _with_document(docx_of("Ann left."), "Ann left.", "Ann &b; left.", entity)
    assert "aaaa" not in one("a.docx", bomb).text


def _with_document(data: bytes, old: str, new: str, before: str = "") -> bytes:
    """A Word document with another text in its XML."""
    files = _members(data)
    xml = files["word/document.xml"].decode()
    assert old in xml
    head, _, body = xml.replace(old, new).partition("?>")
    files["word/document.xml"] = f"{head}?>{before}{body}".encode()
    return zip_of(files)


def _members(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


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
    files = _members(data)
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


def test_an_emoji_in_rich_text_stays(one):
    assert one("a.rtf", rb"{\rtf1\ansi Ann left \u-10179?\u-8704? today}").text == "Ann left \U0001f600 today"


def test_columns_that_are_left_out_are_said(one):
    rows = [[f"{name} {at}" for at in range(1_001)] for name in ("name", "cell")]
    document = one("a.xlsx", xlsx_of({"Wide": rows}))
    assert document.incomplete == "Wide, columns after 1,000"


def test_a_text_that_stands_for_many_cells_is_bounded(one, monkeypatch):
    """The rows before it are read."""
    monkeypatch.setattr(office, "MAX_TEXT", 1_000)
    document = one("a.ods", ods_of({"Staff": [["Name", "Town"], ["Ann", "Bath"], ["x" * 100] * 10]}))
    assert document.text == "The town of Ann is Bath."
    assert document.incomplete == "row 3 and what follows"
