"""HTML pages and EPUB books: the text without scripts and menus; headings are places."""

import pytest

from attar.errors import FormatError
from tests.documents.conftest import TEXT, place_of, recovered
from tests.documents.document_files import epub_of, html_of, zip_of

PLAIN = TEXT.replace("# ", "")


def test_title_and_headings_are_kept(one):
    document = one("a.html", html_of(TEXT, title="Choir"))
    assert (document.name, document.title) == ("a.html", "Choir")
    assert place_of(document, "14 June") == "Concert"
    assert place_of(document, "a pencil") == "Rehearsals"


def test_the_date_of_a_page_is_kept(one):
    page = b'<html><head><meta name="date" content="2026-03-04"></head><body><p>Ann left.</p></body></html>'
    assert one("a.html", page).date == "2026-03-04"


def test_rows_of_a_table_read_as_sentences(one):
    page = b"""<p>Prices</p><table><tr><th>item</th><th>price</th><th>colour</th></tr>
    <tr><td>Desk</td><td>120</td><td></td></tr><tr><td>Lamp</td><td>35</td><td>red</td></tr></table>
    <table><tr><td>Rent</td><td>900</td></tr><tr><td>Deposit</td><td>1,800</td></tr></table>"""
    assert one("a.html", page).text.split("\n\n") == [
        "Prices",
        "The price of Desk is 120.",
        "The price of Lamp is 35. The colour of Lamp is red.",
        "Rent: 900.",
        "Deposit: 1,800.",
    ]


def test_headings_and_tables_of_a_short_web_page_stay(one):
    page = b"""<nav>Home | About</nav><h1>Opening hours</h1><p>The library is open on weekdays from 9 to 6.</p>
    <table><tr><th>day</th><th>hours</th></tr><tr><td>Saturday</td><td>9 to 1</td></tr></table>"""
    assert one("a.html", page).text.split("\n\n") == [
        "Opening hours",
        "The library is open on weekdays from 9 to 6.",
        "The hours on Saturday is 9 to 1.",
    ]


def test_line_breaks_stay_and_comments_go(one):
    page = b"<body>Ann Lee<br>12 High Street<!-- secret --><br><br>Dear <b>Bob</b>,</body>"
    assert one("a.html", page).text == "Ann Lee\n12 High Street\n\nDear Bob,"


@pytest.mark.parametrize(
    ("encoding", "named"), [("cp1252", "iso-8859-1"), ("utf-16", "utf-8"), ("utf-8", "nonsense")]
)
def test_a_page_is_decoded_by_what_it_says_if_that_is_right(one, encoding, named):
    page = f'<html><head><meta charset="{named}"></head><body><p>Emily Brontë left.</p></body></html>'
    assert one("a.html", page.encode(encoding)).text == "Emily Brontë left."


@pytest.mark.parametrize(
    "wrapper", ['form action="/"', 'div class="page has-sidebar"', 'div style="display: none"']
)
def test_what_holds_most_of_the_text_is_kept_whatever_it_looks_like(one, wrapper):
    tag = wrapper.split()[0]
    body = html_of(TEXT).decode().partition("<body>")[2].partition("</body>")[0]
    page = f"<html><body><div id='menu'>Menuword</div><{wrapper}>{body}</{tag}></body></html>"
    text = one("a.html", page.encode()).text
    assert recovered(text, PLAIN) >= 0.99
    assert "Menuword" not in text


def test_a_page_without_text_is_refused(one):
    with pytest.raises(FormatError, match=r"a\.html has no text"):
        one("a.html", b"<html><script>var a = 1;</script></html>")


def test_a_page_that_is_nested_deeper_than_a_parser_goes_is_read_without_its_tags(one):
    page = (
        b"<script>if (a < b) {}</script>" + b"<div>" * 20_000 + b"Ann &amp; Bob<br>left.<style>p {}</style>"
    )
    assert one("a.html", page).text == "Ann & Bob\nleft."


def test_preformatted_lines_and_tables_that_say_so_are_kept(one):
    table = b"<table role='table'><tr><th>name<th>age<tr><td>Ann<td>7</table>"
    page = b"<pre>Ann left.\nBob came.</pre>" + table + b"<table role='table'></table>"
    assert one("a.html", page).text == "Ann left.\nBob came.\n\nThe age of Ann is 7."


def test_a_book_is_read_in_the_order_of_its_chapters(one):
    chapters = [
        f"# Chapter {number}\n\nThis is the text of chapter number {number}." for number in range(1, 13)
    ]
    book = one("emma.epub", epub_of(chapters, title="Emma"))
    assert (book.name, book.title, book.date) == ("emma.epub", "Emma", "1815")
    assert book.text == "\n\n".join(chapters).replace("# ", "")
    assert place_of(book, "chapter number 7") == "Chapter 7"


def test_an_encrypted_or_broken_book_is_refused(one):
    with pytest.raises(FormatError, match="is encrypted"):
        one("a.epub", zip_of({"META-INF/rights.xml": b"x"}))
    with pytest.raises(FormatError, match=r"a\.epub is not an EPUB book, or is damaged"):
        one("a.epub", zip_of({"mimetype": b"application/epub+zip"}))


BOMB = b"""<?xml version="1.0"?><!DOCTYPE a [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">
<!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;"><!ENTITY d "&c;&c;&c;&c;&c;&c;&c;&c;&c;&c;">]><container>&d;</container>"""


def test_entities_are_not_expanded(one):
    with pytest.raises(FormatError, match=r"a\.epub"):
        one("a.epub", zip_of({"META-INF/container.xml": BOMB}))
