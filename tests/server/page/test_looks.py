"""Themes, phones, keyboards, screen readers, and the token."""

import re
from typing import Any

import pytest
from playwright.sync_api import expect

PHONE = {"width": 390, "height": 844}
# The colours of each text that is shown, and of what lies behind it.
CONTRASTS = """() => {
  const channels = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b]
    .map((c) => (c / 255 <= 0.03928 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, at) => sum + c * [0.2126, 0.7152, 0.0722][at], 0);
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = channels(getComputedStyle(at).backgroundColor);
      if (colour.length === 3) return colour;
    }
  };
  return [...document.querySelectorAll("h1, h2, h3, p, label, button, .facts span, time, figcaption *, li span")]
    .filter((element) => element.checkVisibility() && element.textContent.trim() && !element.disabled)
    .map((element) => {
      const pair = [light(channels(getComputedStyle(element).color)), light(behind(element))];
      const contrast = (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
      return [contrast, element.textContent.trim().slice(0, 40)];
    });
}"""
# Controls that a screen reader has no name for.
NAMELESS = """() => [...document.querySelectorAll("button, input, textarea, canvas, svg")]
  .filter((element) => element.checkVisibility())
  .filter((element) => !element.labels?.length && !element.getAttribute("aria-label")
    && !element.textContent.trim())
  .map((element) => element.outerHTML)"""


def paper(page: Any) -> str:
    return page.evaluate("getComputedStyle(document.body).backgroundColor")


def fill_in(page: Any, text: str) -> None:
    """Everything that the page can show, shown."""
    page.get_by_label("Name", exact=True).fill("wedding")
    page.get_by_label("Text", exact=True).fill(text)
    page.get_by_role("button", name="Add").click()
    expect(page.locator("#ask-heading")).to_have_text("Ask wedding")
    page.get_by_label("Question", exact=True).fill("___ married Elizabeth .")
    page.get_by_role("button", name="Ask", exact=True).click()
    page.get_by_role("button", name="Measure").click()
    page.get_by_role("button", name="Shade the words").click()
    expect(page.locator("mark.heaviest")).to_be_visible()
    expect(page.locator("#costs")).to_be_visible()
    expect(page.locator("#memory")).to_be_visible()
    page.get_by_role("button", name="Delete winter").click()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_has_enough_contrast_in_both_themes(filled, open_page, server, stories, picture, theme):
    page = open_page(server, color_scheme=theme)
    fill_in(page, stories[3].text)
    faint = [pair for pair in page.evaluate(CONTRASTS) if pair[0] < 4.5]
    assert faint == []
    picture(page, theme)


def test_the_theme_is_the_systems_at_first(server, open_page):
    light, dark = open_page(server, color_scheme="light"), open_page(server, color_scheme="dark")
    assert paper(light) != paper(dark)
    expect(light.get_by_role("button", name="Dark")).to_have_attribute("aria-pressed", "false")
    expect(dark.get_by_role("button", name="Dark")).to_have_attribute("aria-pressed", "true")


def test_a_chosen_theme_is_remembered(page):
    before = paper(page)
    page.get_by_role("button", name="Dark").click()
    assert paper(page) != before
    page.reload()
    assert paper(page) != before
    page.get_by_role("button", name="Dark").click()
    assert paper(page) == before


def test_a_phone_has_one_column_and_does_not_scroll_sideways(filled, open_page, server, stories, picture):
    page = open_page(server, viewport=PHONE, device_scale_factor=2, has_touch=True, is_mobile=True)
    fill_in(page, stories[3].text)
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    library, desk = page.locator(".library").bounding_box(), page.locator(".desk").bounding_box()
    assert library["x"] == desk["x"]
    assert desk["y"] >= library["y"] + library["height"]
    picture(page, "phone")


def test_a_phone_scrolls_to_the_question_when_a_document_is_chosen(filled, open_page, server):
    page = open_page(server, viewport=PHONE)
    page.locator(".document").filter(has_text="spring").click()
    expect(page.get_by_label("Question", exact=True)).to_be_in_viewport()


def test_every_control_has_an_accessible_name(filled, stories):
    fill_in(filled, stories[3].text)
    assert filled.evaluate(NAMELESS) == []


def test_choosing_and_asking_work_with_the_keyboard(filled):
    filled.locator("#documents .document").first.focus()
    filled.keyboard.press("Enter")
    expect(filled.locator("#ask-heading")).to_have_text("Ask autumn")
    filled.evaluate("document.activeElement.blur()")
    for _ in range(60):
        if filled.evaluate("document.activeElement.id") == "question":
            break
        filled.keyboard.press("Tab")
    filled.keyboard.type("___ married Elizabeth .")
    filled.keyboard.press("Enter")
    expect(filled.locator("#answers li").first).to_be_visible()


def test_the_focus_is_visible(filled):
    filled.keyboard.press("Tab")
    filled.keyboard.press("Tab")
    focused = "getComputedStyle(document.activeElement)"
    assert filled.evaluate(f"{focused}.outlineStyle") == "solid"


def test_nothing_is_loaded_from_other_sites(server, open_page, stories):
    page = open_page(server, "/healthz")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(server.address)
    expect(page.locator("#load-line")).to_contain_text("documents")
    assert [url for url in asked if not url.startswith(server.address)] == []


def test_the_token_is_asked_for_once(start_server, open_page):
    server = start_server("--token", "open-sesame")
    page = open_page(server)
    dialog = page.get_by_role("dialog", name="Token")
    expect(dialog.get_by_text("The server requires a token.")).to_be_visible()
    dialog.get_by_label("Bearer token").fill("wrong")
    dialog.get_by_role("button", name="Use token").click()
    expect(dialog.get_by_text("The server does not accept this token.")).to_be_visible()
    dialog.get_by_label("Bearer token").fill("open-sesame")
    dialog.get_by_role("button", name="Use token").click()
    expect(page.get_by_text("There are no documents yet.")).to_be_visible()
    expect(page.locator("#load-line")).to_contain_text("0 documents")
    page.reload()
    expect(page.get_by_text("There are no documents yet.")).to_be_visible()
    expect(dialog).to_be_hidden()


def test_a_token_is_kept_in_its_tab_only(page):
    page.get_by_role("button", name="Token").click()
    page.get_by_label("Bearer token").fill("secret")
    page.get_by_role("button", name="Use token").click()
    assert page.evaluate("[sessionStorage.getItem('attar.token'), JSON.stringify(localStorage)]") == [
        "secret",
        "{}",
    ]
    assert re.search("secret", page.url) is None
