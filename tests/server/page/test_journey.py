"""One journey through the page, on a phone: add a document, ask, open the answer's place, delete."""

from playwright.sync_api import expect

PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
TEXT = "Then Ann Lee met Bob Stone in Paris. Bob Stone married Elizabeth Grey in May."


def test_a_document_is_added_asked_opened_and_deleted(server, open_page, picture):
    page = open_page(server, **PHONE)
    expect(page.get_by_role("heading", name="Your library is empty")).to_be_visible()
    page.get_by_role("link", name="Paste a text").click()
    page.get_by_label("Name", exact=True).fill("wedding")
    page.get_by_label("Text", exact=True).fill(TEXT)
    page.get_by_role("button", name="Add", exact=True).click()
    expect(page.locator("#document-list .name")).to_have_text(["wedding"])
    assert server.names() == ["wedding"]

    page.get_by_role("link", name="Ask", exact=True).click()
    page.get_by_label("Question", exact=True).fill("Who married Elizabeth Grey?")
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(page.locator("#best .phrase")).to_have_text("Bob Stone")
    expect(page.locator("#best q mark")).to_have_text("Bob Stone")
    picture(page, "journey-answer")
    page.locator("#best a").click()
    expect(page.locator("#document-heading")).to_have_text("wedding")
    expect(page.locator("#document-text mark")).to_be_in_viewport()

    page.get_by_role("link", name="Documents", exact=True).click()
    expect(page.locator("#library-facts")).to_contain_text("1 document")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    picture(page, "journey-documents")
    page.get_by_role("link", name="wedding", exact=False).first.click()
    page.on("dialog", lambda asked: asked.accept())
    page.get_by_role("button", name="Delete").click()
    expect(page.locator("#document-list .name")).to_have_count(0)
    assert server.names() == []
