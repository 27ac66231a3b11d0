"""What all kinds of files have in common: no word is lost, and a damaged file is one line."""

import pytest

from attar.errors import FormatError
from tests.documents.conftest import TEXT, recovered
from tests.documents.document_files import docx_of, eml_of, html_of, pdf_of, xlsx_of, zip_of
from tests.documents.office_files import compound_file, msg_of, odp_of, ods_of, odt_of, pptx_of, rtf_of

PLAIN = TEXT.replace("# ", "")
SLIDES = [("Spring show", "Doors open at nine\nEntry is free", "")]
# A file, the least share of its words that is found, and of what is found that is its own.
FILES = {
    "Word": ("a.docx", docx_of(TEXT), 1.0, 1.0),
    "OpenDocument": ("a.odt", odt_of(TEXT), 1.0, 1.0),
    "rich text": ("a.rtf", rtf_of(TEXT), 1.0, 1.0),
    "PDF": ("a.pdf", pdf_of([TEXT]), 0.99, 0.99),
    "HTML document": ("a.html", html_of(TEXT, title="Choir"), 0.99, 1.0),
    "web page": ("a.html", html_of(TEXT, title="Choir", around=True), 0.99, 1.0),
    "Markdown": ("a.md", TEXT.encode(), 1.0, 1.0),
}


@pytest.mark.parametrize(("name", "data", "least_found", "least_own"), FILES.values(), ids=FILES)
def test_all_words_of_a_text_are_recovered_and_nothing_else(one, name, data, least_found, least_own):
    text = one(name, data).text
    assert recovered(text, PLAIN) >= least_found
    assert recovered(PLAIN, text) >= least_own  # no scripts, menus, footers or markup


@pytest.mark.parametrize("html_only", [False, True], ids=["plain", "html"])
def test_all_words_of_a_message_are_recovered(one, html_only):
    assert recovered(one("a.eml", eml_of(TEXT, html_only=html_only)).text, PLAIN) == 1.0


WHOLE = {
    "a.docx": docx_of(TEXT),
    "a.xlsx": xlsx_of({"A": [["x", "y"], ["1", "2"]]}),
    "a.pptx": pptx_of(SLIDES),
    "a.pdf": pdf_of(["Ann left."]),
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
    with pytest.raises(FormatError, match=rf"^{name} is not an? ") as caught:
        one(name, data)
    assert "\n" not in str(caught.value)
