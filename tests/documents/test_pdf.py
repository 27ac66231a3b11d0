"""PDF files: words, pages, and why a file cannot be read."""

import pytest

from attar.documents.pdf import join_pages
from attar.errors import FormatError
from tests.documents.conftest import place_of
from tests.documents.document_files import pdf_of, pdf_table_of


def test_pages_title_and_date_are_kept(one):
    document = one("choir.pdf", pdf_of(["Ann left.", "Bob came.", "Eve met Bob."], title="Three pages"))
    assert (document.name, document.title) == ("choir.pdf", "Three pages")
    assert len(document.date) == 10
    assert document.text == "Ann left.\n\nBob came.\n\nEve met Bob."
    assert place_of(document, "Bob came") == "page 2"
    assert place_of(document, "Eve met") == "page 3"


def test_headers_of_pages_are_left_out(one):
    pages = ["Ann left.", "Bob came.", "Eve met Bob.", "Dan stayed."]
    document = one("a.pdf", pdf_of(pages, header="Minutes, page"))
    assert document.text == "\n\n".join(pages)
    assert place_of(document, "Dan stayed") == "page 4"


@pytest.mark.parametrize(
    ("pages", "text"),
    [
        (["Ann left.\n2"], "Ann left."),
        (["Ann left.\n- 2 -"], "Ann left."),
        (["Ann left.\nPage 2 of 3"], "Ann left."),
        (["Report 2026\nAnn left.\n1", "Report 2026\nBob came.\n2"], "Ann left.\n\nBob came."),
        (["Ann left.", "Ann left."], "Ann left.\n\nAnn left."),
        (["2026"], "2026"),
    ],
)
def test_numbers_and_headers_of_pages_are_left_out_and_no_text_is(pages, text):
    assert join_pages(pages).text == text


def test_lines_are_joined_to_paragraphs_and_hyphens_to_words():
    lines = (
        "The rent is due on the third working day of the month and is paid to the land-",
        "lord's account in Bath.",
        "Dear tenant,",
        "please note this.",
    )
    assert join_pages(["\n".join(lines)]).text.split("\n") == [
        "The rent is due on the third working day of the month and is paid to the landlord's account in Bath.",
        "Dear tenant, please note this.",
    ]


def test_a_table_has_the_names_of_its_columns(one):
    rows = [["Item", "Price", "Size"], ["Desk, oak", "120", "large"], ["Lamp", "35", ""]]
    text = one("a.pdf", pdf_table_of("Prices", ["All in pounds."], rows, ["Come and see."])).text
    assert text.split("\n\n") == [
        "Prices",
        "All in pounds.",
        "The price of Desk, oak is 120. The size of Desk, oak is large.",
        "The price of Lamp is 35.",
        "Come and see.",
    ]


def test_a_sentence_goes_on_over_the_end_of_a_page():
    document = join_pages(["The rent is due on the third", "working day of the month."])
    assert document.text == "The rent is due on the third\nworking day of the month."
    assert document.parts[1].start == document.text.index("working")


def test_an_encrypted_file_is_refused(one):
    with pytest.raises(FormatError, match=r"is encrypted; add it with --password, or save"):
        one("a.pdf", pdf_of(["Ann left."], password="secret"))


def test_a_scan_without_text_is_refused(one):
    with pytest.raises(FormatError, match=r"has no text: 2 pages of pictures; recognise it with ocr auto"):
        one("a.pdf", pdf_of(["", ""]))
