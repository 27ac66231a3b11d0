"""The view Documents: the list and its search, files, pasted texts, appending, and deletions."""

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from attar.store.store import Store

pytestmark = pytest.mark.nightly

TEXT = "Then Ann Lee met Bob Stone in Paris. Bob Stone married Elizabeth Grey."
DROPS = Path(__file__).with_name("drops.js").read_text().strip()
OTHER = "Then Eve Hill came to Rome. Ann Lee left."


def rows(page: Any) -> Any:
    return page.locator("#document-list li")


def names(page: Any) -> Any:
    return page.locator("#document-list .name")


def states(page: Any) -> Any:
    return page.locator("#upload-list .state")


def paste(page: Any, name: str, text: str) -> None:
    page.get_by_role("button", name="Paste a text").click()
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_label("Text", exact=True).fill(text)
    page.get_by_role("button", name="Add", exact=True).click()


def file(name: str, text: str | bytes) -> dict[str, Any]:
    data = text.encode() if isinstance(text, str) else text
    return {"name": name, "mimeType": "text/plain", "buffer": data}


@pytest.fixture
def empty(server, open_page):
    page = open_page(server, "/#documents")
    expect(page.locator("#no-documents")).to_have_text("There are no documents yet.")
    return page


@pytest.fixture
def three(filled):
    """The list of autumn, spring and winter."""
    filled.get_by_role("link", name="Documents", exact=True).click()
    expect(names(filled)).to_have_text(["autumn", "spring", "winter"])
    return filled


def test_a_damaged_document_is_named_and_hides_no_other(three, seasons_server):
    with Store.open(seasons_server.library) as store, store._environment.map.begin(write=True) as transaction:
        transaction.put(b"fspring", b"?")
    three.reload()
    expect(rows(three)).to_contain_text(["autumn", "damaged: entry of 'spring'", "winter"])


def test_several_files_are_added_one_after_the_other(empty, server):
    empty.locator("#files").set_input_files([file("spring.txt", TEXT), file("winter.txt", OTHER)])
    expect(states(empty)).to_have_text(["Added", "Added"])
    expect(names(empty)).to_have_text(["spring", "winter"])
    expect(empty.locator("#uploads-line")).to_have_text("2 files added")
    expect(empty.locator("#library-said")).to_have_text("winter.txt: Added")
    assert server.names() == ["spring", "winter"]
    empty.locator("#files").set_input_files(file("spring.txt", TEXT))
    expect(states(empty)).to_have_text(["Added", "Added", "Already in the library"])
    expect(empty.locator("#uploads-line")).to_have_text("2 files added, 1 file known already")
    empty.get_by_role("link", name="Open spring").first.click()
    expect(empty.locator("#document-heading")).to_have_text("spring")


def test_files_may_be_dropped_anywhere_in_any_view(page, server):
    page.evaluate(f"texts => {DROPS}.texts(texts)", [TEXT, OTHER])
    assert page.evaluate("wasShown")
    expect(page.locator("#dropping")).to_be_hidden()
    expect(page.get_by_role("link", name="Documents", exact=True)).to_have_attribute("aria-current", "page")
    expect(names(page)).to_have_text(["story 0", "story 1"])


def test_files_and_texts_get_a_folder_and_tags(empty, server):
    empty.get_by_label("Into the folder").fill("/2026/may/")
    empty.get_by_label("With the tags").fill("post, new, post")
    empty.locator("#files").set_input_files(file("spring.txt", TEXT))
    expect(states(empty)).to_have_text(["Added"])
    paste(empty, "winter", OTHER)
    expect(names(empty)).to_have_text(["spring", "winter"])
    listed = server.call("GET", "documents")["documents"]
    assert [(each["name"], each["tags"]) for each in listed] == [
        ("2026/may/spring", ["post", "new"]),
        ("2026/may/winter", ["post", "new"]),
    ]
    expect(empty.locator("#document-list .folder")).to_have_text("2026/may/")
    expect(empty.locator("#document-list .tag").first).to_have_text("post")


def test_a_dropped_folder_gives_its_files_with_their_paths(empty):
    paths = empty.evaluate(f"{DROPS}.folder()")
    assert paths == ["a/2.txt", "a/b/1.txt", "3.txt"]


def test_a_file_that_cannot_be_read_says_why_and_the_others_are_added(empty, server):
    photo = bytes(range(256)) * 8
    files = [file("photo.gif", photo), file("blank.txt", " \n"), file("winter.txt", OTHER)]
    empty.locator("#files").set_input_files(files)
    expect(states(empty).nth(2)).to_have_text("Added")
    expect(states(empty).nth(0)).to_have_text("photo.gif is not a text but binary data. Leave it out.")
    expect(states(empty).nth(1)).to_have_text("blank.txt is blank. Leave it out.")
    expect(empty.locator("#uploads-line")).to_have_text("1 file added, 2 files could not be added")
    assert server.names() == ["winter"]


def test_a_file_of_a_taken_name_can_replace_the_document(three, seasons_server):
    three.locator("#files").set_input_files(file("autumn.txt", TEXT))
    expect(states(three)).to_have_text("A document of this name is already in the library.")
    before = seasons_server.tokens("autumn")
    three.get_by_role("button", name="Replace it").click()
    expect(states(three)).to_have_text("Replaced")
    assert seasons_server.tokens("autumn") < before


def test_a_file_that_did_not_arrive_can_be_sent_again(empty, server):
    empty.route("**/v1/files?*", lambda route: route.abort(), times=1)
    empty.locator("#files").set_input_files(file("spring.txt", TEXT))
    expect(states(empty)).to_contain_text("The server does not answer")
    empty.get_by_role("button", name="Try again").click()
    expect(states(empty)).to_have_text("Added")
    empty.get_by_role("button", name="Clear the list").click()
    expect(empty.locator("#uploads")).to_be_hidden()


def test_a_long_file_shows_its_progress_and_can_be_cancelled(empty, server):
    empty.locator("#files").set_input_files(file("long.txt", TEXT * 20_000))
    expect(states(empty)).to_have_text(re.compile(r"Reading, \d+ %"), timeout=60_000)
    empty.get_by_role("button", name="Cancel").click()
    expect(states(empty)).to_have_text("Cancelled.")
    assert server.names() == []


def test_texts_are_searched_by_the_server(three):
    sentence = {"text": "Then Ann Lee met Bob.", "start": 0, "end": 21, "place": "page 2"}
    found = {"query": "", "hits": [{"document": "winter", "title": "", "score": 1, "sentences": [sentence]}]}
    three.route("**/v1/search", lambda route: route.fulfill(json=found))
    three.get_by_label("Search documents").fill("Ann Lee")
    passage = three.get_by_role("link", name=re.compile("Then Ann Lee met Bob"))
    expect(passage.locator("mark")).to_have_text("Ann Lee")
    expect(passage.locator(".source")).to_have_text("winterpage 2")
    heading = three.locator("#passages-heading")
    expect(heading).to_have_text("In the texts")
    three.get_by_label("Search documents").fill("quantum physics")
    expect(heading).to_have_text("The nearest; none has these words as written")
    passage.click()
    expect(three.locator("#document-heading")).to_have_text("winter")


def test_many_documents_are_shown_in_parts(seasons_server, open_told):
    told = seasons_server.call("GET", "documents")
    many = [told["documents"][0] | {"name": f"story {number:03}"} for number in range(120)]
    told |= {"documents": many, "total": 120}
    page = open_told(seasons_server, "/#documents", "**/v1/documents?*", told)
    expect(rows(page)).to_have_count(100)
    page.get_by_role("button", name="Show more").click()
    expect(rows(page)).to_have_count(120)
    expect(page.get_by_role("button", name="Show more")).to_be_hidden()
    page.get_by_label("Search documents").fill("117")
    expect(names(page)).to_have_text(["story 117"])


@pytest.mark.parametrize("answer", ["dismiss", "accept"])
def test_a_document_is_deleted_if_that_is_confirmed(three, seasons_server, answer):
    asked: list[str] = []

    def reply(dialog: Any) -> None:
        asked.append(dialog.message)
        getattr(dialog, answer)()

    three.on("dialog", reply)
    three.get_by_role("button", name="Delete spring").click()
    left = ["autumn", "spring", "winter"] if answer == "dismiss" else ["autumn", "winter"]
    expect(names(three)).to_have_text(left)
    assert asked == ["Delete “spring”? This cannot be undone."]
    assert seasons_server.names() == left


def test_a_text_is_appended_to_a_document(three, seasons_server):
    before = seasons_server.tokens("spring")
    three.get_by_role("button", name="Append to spring").click()
    three.get_by_label("Text", exact=True).fill(TEXT)
    three.get_by_role("button", name="Append to it").click()
    expect(three.locator("#library-said")).to_contain_text("spring has grown: about ")
    expect(three.locator("#add")).to_be_hidden()
    assert seasons_server.tokens("spring") > before
