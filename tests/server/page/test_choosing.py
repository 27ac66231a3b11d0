"""The list of documents: folders, tags and order, and several documents asked, searched, tagged or deleted at once."""

import re
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.server.page.conftest import Server, keep_only

pytestmark = pytest.mark.nightly

RENTS = {
    "flats/north": "The rent of the north flat is 740 euros a month.",
    "flats/old/attic": "The rent of the attic is 310 euros a month.",
    "garage": "The rent of the garage is 85 euros a month. It has room for one car and two bicycles.",
}


@pytest.fixture
def rented(running_server: Server) -> Server:
    """A server whose library has three documents in two folders, without tags."""
    return keep_only(keep_only(running_server, {}), RENTS)


@pytest.fixture
def listed(rented: Server, open_page: Any) -> Any:
    page = open_page(rented, "/#documents")
    expect(names(page)).to_have_text(["garage", "north", "attic"])
    return page


def names(page: Any) -> Any:
    return page.locator("#document-list .name")


def choose(page: Any, *documents: str) -> None:
    for name in documents:
        page.get_by_label(f"Choose {name}", exact=True).check()


def ask(page: Any, question: str) -> None:
    page.get_by_label("Question", exact=True).fill(question)
    page.keyboard.press("Enter")


def tags(server: Server) -> dict[str, list[str]]:
    return {each["name"]: each["tags"] for each in server.call("GET", "documents")["documents"]}


def test_folders_are_headings_and_can_be_chosen(listed):
    expect(listed.locator("#document-list .folder")).to_have_text(["flats/", "flats/old/"])
    listed.get_by_role("button", name="flats/", exact=True).click()
    expect(names(listed)).to_have_text(["north", "attic"])
    expect(listed.get_by_label("Folder", exact=True)).to_have_value("flats")
    listed.locator("#folder").select_option("")
    expect(names(listed)).to_have_count(3)


def test_chosen_documents_are_asked_and_no_others(listed):
    choose(listed, "flats/old/attic", "garage")
    expect(listed.locator("#chosen-line")).to_have_text("2 chosen")
    listed.get_by_role("button", name="Ask these").click()
    expect(listed.get_by_label("Where to look")).to_have_value("2 documents")
    ask(listed, "How much is the rent of the north flat?")
    expect(listed.locator("#answered")).to_be_visible()
    expect(listed.locator("#answered .source .name").first).to_be_visible()
    assert "flats/north" not in listed.locator("#answered .source .name").all_text_contents()
    expect(listed.locator("#history-list button")).to_contain_text("in some documents")
    listed.reload()
    expect(listed.get_by_label("Where to look")).to_have_value("2 documents")
    listed.get_by_role("button", name="Ask all documents").click()
    ask(listed, "How much is the rent of the north flat?")
    expect(listed.locator("#best .phrase")).to_contain_text("740")


@pytest.mark.parametrize(
    ("typed", "asked", "answer"),
    [("flats/old/", "the attic", "310"), ("#cheap", "the garage", "85")],
    ids=["folder", "tag"],
)
def test_a_folder_or_a_tag_is_asked(rented, open_page, typed, asked, answer):
    rented.call("POST", "tag", {"documents": ["garage"], "add": ["cheap"]})
    page = open_page(rented)
    page.get_by_label("Where to look").fill(typed)
    expect(page.locator("#scope-names option").first).to_have_attribute("value", typed)
    ask(page, f"How much is the rent of {asked}?")
    expect(page.locator("#best .phrase")).to_contain_text(answer)
    page.get_by_label("Where to look").fill("#none")
    ask(page, "How much is it?")
    expect(page.locator("#ask-problem")).to_contain_text("No document has the tag 'none'.")


def test_chosen_documents_are_tagged_together(listed, rented):
    choose(listed, "flats/north", "garage")
    for given, shown in (("let, 2026", ["2026", "let"]), ("let, paid", ["let", "paid"]), ("", [])):
        listed.get_by_role("button", name="Tags", exact=True).click()
        listed.get_by_label("Tags, with commas between them").fill(given)
        listed.get_by_role("button", name="Save", exact=True).click()
        expect(listed.get_by_role("dialog")).to_be_hidden()
        now = tags(rented)
        assert (sorted(now["garage"]), sorted(now["flats/north"]), now["flats/old/attic"]) == (
            shown,
            shown,
            [],
        )
        expect(listed.locator("[data-name=garage] .tag")).to_have_count(len(shown))
    expect(listed.locator("#tag")).to_be_hidden()


def test_chosen_documents_are_deleted_together_or_none(listed, rented):
    listed.on("dialog", lambda dialog: dialog.accept())
    choose(listed, "garage")
    listed.get_by_role("button", name="Choose all").click()
    expect(listed.locator("#chosen-line")).to_have_text("3 chosen")
    # One that another client has removed meanwhile.
    rented.remove("garage")
    listed.get_by_role("button", name="Delete these").click()
    expect(listed.locator("#library-problem")).to_have_text("This document is no longer in the library.")
    expect(names(listed)).to_have_text(["north", "attic"])
    assert sorted(rented.names()) == ["flats/north", "flats/old/attic"]
    listed.get_by_role("button", name="Delete these").click()
    expect(listed.locator("#library-facts")).to_have_text(re.compile("^0 documents"))
    assert rented.names() == []
