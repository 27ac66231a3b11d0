"""The view of one document: its text, the phrase highlighted and scrolled to, and the way back."""

import re

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.nightly


def mark(page):
    return page.locator("#document-text mark")


@pytest.fixture
def open_letter(demo_server, open_told):
    """Opens the letter at a place, with another text."""

    def open_it(text, place=""):
        told = demo_server.call("GET", "documents/letter") | {"text": text}
        return open_told(demo_server, f"/#document?name=letter{place}", "**/v1/documents/letter", told)

    return open_it


def test_a_card_opens_the_document_at_the_phrase_and_back_returns(demo_server, open_page):
    page = open_page(demo_server, "/#ask?question=How+much+is+the+rent%3F")
    page.locator("#best a").click()
    expect(page.get_by_role("heading", name="letter")).to_be_focused()
    expect(mark(page)).to_have_text("740 euros")
    expect(mark(page)).to_be_in_viewport()
    expect(page.locator("#document-text p").first).to_have_text("Dear Martha,")
    page.get_by_role("link", name="Back to the answers").click()
    expect(page.locator("#best .phrase")).to_have_text("740 euros")
    expect(page).to_have_url(re.compile("#ask"))


def test_of_a_very_long_text_the_part_around_the_phrase_is_shown_first(open_letter):
    text = "One line.\n\n" * 40_000 + "Here it is.\n\n" + "Another line.\n\n" * 100
    page = open_letter(text, "&phrase=Here+it+is")
    expect(mark(page)).to_have_text("Here it is")
    shown = page.locator("#document-text p")
    assert shown.count() < 10_000
    page.get_by_role("button", name="Show the whole text").click()
    expect(shown).to_have_count(40_101)
    expect(mark(page)).to_be_in_viewport()


def test_places_count_characters_and_not_units_of_utf16(open_letter):
    text = "🦜🦜 Two parrots.\nThen Nina came."
    start = text.index("Nina")
    expect(mark(open_letter(text, f"&start={start}&end={start + 4}"))).to_have_text("Nina")


@pytest.mark.parametrize("name", ["a/b?c#d %2F", "<img src=x>", "naïve ‘名前’", "x/append", "a+b & c=d"])
def test_names_may_contain_any_characters(server, open_page, name):
    server.put(name, "Ann met Bob.")
    page = open_page(server, "/#documents")
    page.locator("#document-list .document").click()
    expect(page.locator("#document-heading")).to_have_text(name)
    page.reload()
    expect(page.locator("#document-heading")).to_have_text(name)


def test_the_rows_of_a_table_are_shown_as_one_and_a_phrase_in_them_is_marked(server, open_page):
    text = (
        "Prices\n\nThe price of Rope, 5 m is 12.50. The length of Rope, 5 m is 5.\n\n"
        "The price of Anchor is 90. The colour of Anchor is red.\n\nThe price of Buoy is 7.\n\n"
        "The owner of the yard is Ann Lee.\n\nThe end of it."
    )
    server.put("prices", text)
    at = text.index("90")
    page = open_page(server, f"/#document?name=prices&start={at}&end={at + 2}")
    body = page.locator("#document-text")
    expect(body.locator("tr")).to_have_count(4)
    rows = [row.locator("th, td").all_text_contents() for row in body.locator("tr").all()]
    assert rows == [
        ["", "Price", "Length", "Colour"],
        ["Rope, 5 m", "12.50", "5", ""],
        ["Anchor", "90", "", "red"],
        ["Buoy", "7", "", ""],
    ]
    expect(body.locator("mark")).to_have_text("90")
    expect(body.locator("p")).to_have_text(["The owner of the yard is Ann Lee.", "The end of it."])


def test_a_timetable_and_a_rota_are_shown_as_tables_and_prose_is_not(server, open_page):
    text = (
        "On Monday at 8:50 is Choir. On Tuesday at 8:50 is Maths (Dr. Lee).\n\n"
        "On Monday at 9:40 is Art. On Tuesday at 9:40 is Latin.\n\n"
        "Rota\n\nThe door on 5 March is Ann Lee. The bar on 5 March is Bob.\n\n"
        "The door on 6 March is Cy. The bar on 6 March is Di.\n\n"
        "Rent in 2025 is 900. Rent in 2026 is 950.\n\n"
        "Life in Dover is dear. Life in London is dearer."
    )
    server.put("times", text)
    body = open_page(server, "/#document?name=times").locator("#document-text")
    expect(body.locator("table")).to_have_count(3)
    rows = [row.locator("th, td").all_text_contents() for row in body.locator("tr").all()]
    assert rows == [
        ["", "Monday", "Tuesday"],
        ["8:50", "Choir", "Maths (Dr. Lee)"],
        ["9:40", "Art", "Latin"],
        ["", "Door", "Bar"],
        ["5 March", "Ann Lee", "Bob"],
        ["6 March", "Cy", "Di"],
        ["", "2025", "2026"],
        ["Rent", "900", "950"],
    ]
    expect(body.locator("p")).to_have_text(["Life in Dover is dear. Life in London is dearer."])


def test_the_text_can_be_saved(server, open_page):
    server.put("letters/1", "Ann left.")
    page = open_page(server, "/#document?name=letters%2F1")
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save the text").click()
    assert saved.value.suggested_filename == "1.txt"
    assert saved.value.path().read_text() == "Ann left."
