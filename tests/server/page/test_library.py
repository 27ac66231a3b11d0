"""The library on the page: documents are shown, added, appended to and deleted."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

TEXT = "Then Ann Lee met Bob Stone in Paris. Bob Stone married Elizabeth Grey."


def rows(page: Any) -> Any:
    return page.locator("#documents li")


def names(page: Any) -> Any:
    return page.locator("#documents .name")


def add(page: Any, name: str, text: str) -> None:
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_label("Text", exact=True).fill(text)
    page.get_by_role("button", name="Add").click()


def file(name: str, data: bytes) -> dict[str, Any]:
    return {"name": name, "mimeType": "text/plain", "buffer": data}


def test_documents_have_their_tokens_size_and_age(filled, server):
    expect(names(filled)).to_have_text(["autumn", "spring", "winter"])
    facts = filled.locator("#documents .facts").first
    expect(facts).to_contain_text(f"{server.tokens('autumn')} tokens")
    expect(facts).to_have_text(re.compile(r"\d B|\d KB"))
    expect(facts.locator("time")).to_have_text("just now")


def test_an_empty_library_shows_how_to_start(page):
    expect(page.get_by_text("There are no documents yet.")).to_be_visible()


def test_a_pasted_text_is_added_and_selected(page, server):
    add(page, "wedding", TEXT)
    expect(names(page)).to_have_text(["wedding"])
    expect(page.get_by_role("heading", name="Ask wedding")).to_be_visible()
    expect(page.get_by_label("Question", exact=True)).to_be_focused()
    expect(page.locator("#library-said")).to_have_text(
        f"wedding was added: {server.tokens('wedding')} tokens."
    )
    assert server.names() == ["wedding"]


def test_a_chosen_file_gives_its_text_and_its_name(page, server):
    page.locator("#add-file").set_input_files(file("wedding.txt", TEXT.encode()))
    expect(page.get_by_label("Name", exact=True)).to_have_value("wedding")
    page.get_by_role("button", name="Add").click()
    expect(names(page)).to_have_text(["wedding"])


def test_a_file_may_be_dropped_anywhere(page):
    page.evaluate(
        """text => {
          const dataTransfer = new DataTransfer();
          dataTransfer.items.add(new File([text], "wedding.txt", { type: "text/plain" }));
          const event = { bubbles: true, cancelable: true, dataTransfer };
          document.querySelector("footer").dispatchEvent(new DragEvent("drop", event));
        }""",
        TEXT,
    )
    expect(page.get_by_label("Text", exact=True)).to_have_value(TEXT)


@pytest.mark.parametrize("data", [b"\xff\xfe\xfa", b"GIF\0\1"], ids=["no UTF-8", "binary"])
def test_a_file_that_is_not_text_is_refused(page, data):
    page.locator("#add-file").set_input_files(file("odd.txt", data))
    expect(page.locator("#add-problem")).to_have_text("“odd.txt” is not UTF-8 text.")
    expect(page.get_by_label("Text", exact=True)).to_have_value("")


def test_nothing_is_added_without_a_text(page, server):
    add(page, "wedding", "  ")
    expect(page.locator("#add-problem")).to_contain_text("There is no text yet")
    assert server.names() == []


def test_a_taken_name_can_be_appended_to(filled, server):
    before = server.tokens("autumn")
    add(filled, "autumn", TEXT)
    expect(filled.get_by_text("“autumn” is already in the library.")).to_be_visible()
    assert server.tokens("autumn") == before
    filled.get_by_role("button", name="Append to it").click()
    expect(filled.locator("#library-said")).to_contain_text("autumn has grown to")
    assert server.tokens("autumn") > before


def test_a_taken_name_can_be_replaced(filled, server):
    add(filled, "autumn", TEXT)
    filled.get_by_role("button", name="Replace it").click()
    expect(filled.locator("#library-said")).to_contain_text("autumn was added")
    expect(rows(filled)).to_have_count(3)
    assert server.tokens("autumn") < server.tokens("spring")


def test_appending_extends_a_document(filled, server):
    before = server.tokens("spring")
    filled.get_by_role("button", name="Append to spring").click()
    dialog = filled.get_by_role("dialog", name="Append to spring")
    dialog.get_by_label("Text to append").fill(TEXT)
    dialog.get_by_role("button", name="Append").click()
    expect(dialog).to_be_hidden()
    expect(rows(filled).nth(1)).to_contain_text(f"{server.tokens('spring')} tokens")
    assert server.tokens("spring") > before


def test_appending_to_a_removed_document_shows_the_problem_and_keeps_the_text(filled, server):
    filled.get_by_role("button", name="Append to spring").click()
    server.remove("spring")
    filled.get_by_label("Text to append").fill(TEXT)
    filled.get_by_role("dialog").get_by_role("button", name="Append").click()
    expect(filled.locator("#append-problem")).to_contain_text("spring")
    expect(filled.get_by_label("Text to append")).to_have_value(TEXT)


def test_an_undone_deletion_loses_nothing(filled, server):
    before = server.call("GET", "documents/spring")
    filled.get_by_role("button", name="Delete spring").click()
    expect(names(filled)).to_have_text(["autumn", "winter"])
    filled.get_by_role("button", name="Undo").click()
    expect(names(filled)).to_have_text(["autumn", "spring", "winter"])
    expect(filled.locator(".notice")).to_have_count(0)
    expect(rows(filled).nth(1).locator(".document")).to_be_focused()
    assert server.call("GET", "documents/spring") == before


def test_a_deletion_is_sent_after_a_delay(server, stories, open_page):
    server.put("spring", stories[0].text)
    page = open_page(server, "/healthz")
    page.clock.install()
    page.goto(server.address)
    page.get_by_role("button", name="Delete spring").click()
    assert server.names() == ["spring"]
    with page.expect_response(lambda response: response.request.method == "DELETE") as answered:
        page.clock.run_for(10_000)
    assert answered.value.status == 204
    assert server.names() == []


def test_a_deletion_can_be_sent_at_once(filled, server):
    filled.get_by_role("button", name="Delete spring").click()
    with filled.expect_response(lambda response: response.request.method == "DELETE"):
        filled.get_by_role("button", name="Delete now").click()
    expect(filled.locator(".notice")).to_have_count(0)
    expect(filled.locator("#library-count")).to_have_text("2 documents")
    assert server.names() == ["autumn", "winter"]


def test_leaving_the_page_confirms_deletions(filled, server, eventually):
    filled.get_by_role("button", name="Delete spring").click()
    filled.goto(server.address + "/healthz")
    eventually(lambda: server.names() == ["autumn", "winter"])


def test_adding_a_document_that_is_being_deleted_cancels_the_deletion(filled, server):
    filled.get_by_role("button", name="Delete spring").click()
    add(filled, "spring", TEXT)
    expect(filled.locator(".notice")).to_have_count(0)
    filled.get_by_role("button", name="Replace it").click()
    expect(filled.locator("#library-said")).to_contain_text("spring was added")
    assert "spring" in server.names()


def test_a_refused_deletion_restores_the_document(filled):
    problem = {
        "title": "Served for reading only",
        "status": 403,
        "detail": "library: expected one for writing",
    }
    refuse = {"status": 403, "content_type": "application/problem+json", "body": json.dumps(problem)}
    filled.route(
        "**/v1/documents/spring",
        lambda route: route.fulfill(**refuse) if route.request.method == "DELETE" else route.continue_(),
    )
    filled.get_by_role("button", name="Delete spring").click()
    filled.get_by_role("button", name="Delete now").click()
    expect(filled.locator("#library-problem")).to_have_text("library: expected one for writing")
    expect(names(filled)).to_have_text(["autumn", "spring", "winter"])


def test_many_documents_are_loaded_page_by_page(server, open_page: Callable[..., Any]):
    for number in range(60):
        server.put(f"story {number:02}", TEXT)
    page = open_page(server)
    expect(rows(page)).to_have_count(50)
    page.get_by_role("button", name="Show more").click()
    expect(rows(page)).to_have_count(60)
    expect(page.get_by_role("button", name="Show more")).to_be_hidden()
    page.get_by_label("Go to a name").fill("story 57")
    page.get_by_role("button", name="Go", exact=True).click()
    expect(names(page)).to_have_text(["story 57", "story 58", "story 59"])


@pytest.mark.parametrize("name", ["a/b?c#d %2F", "<img src=x>", "naïve ‘名前’", "x/append"])
def test_names_may_contain_any_characters(page, server, eventually, name):
    add(page, name, TEXT)
    expect(names(page)).to_have_text([name])
    page.reload()
    expect(page.get_by_role("heading", name=f"Ask {name}")).to_be_visible()
    page.get_by_role("button", name=f"Delete {name}").click()
    page.get_by_role("button", name="Delete now").click()
    expect(page.get_by_text("There are no documents yet.")).to_be_visible()
    eventually(lambda: server.names() == [])


def test_a_name_that_cannot_be_in_a_url_is_refused(page):
    add(page, "..", TEXT)
    expect(page.locator("#add-problem")).to_contain_text("“..” cannot be part of a URL")
