"""The picture of the page in README and docs: `make screenshot`. What it shows is checked here."""

import pytest
from playwright.sync_api import expect

from attar.cli.demo import QUESTIONS

pytestmark = pytest.mark.nightly

QUESTION = "How much is the rent?"
# Fonts that Debian has, so that the picture is the same on every machine.
FONTS = ':root { --sans: "Liberation Sans", Arial, sans-serif; --serif: "Liberation Serif", Georgia, serif; }'


def test_the_picture_shows_right_answers(demo_server, open_page, picture):
    page = open_page(demo_server, viewport={"width": 1100, "height": 720}, device_scale_factor=2)
    page.add_style_tag(content=FONTS)
    before = (
        "Why should the coats be sent before October?",
        "Who is the chairman?",
        "When is the next meeting?",
    )
    answers = QUESTIONS["letter"] | QUESTIONS["minutes"] | {"When is the next meeting?": "9 April"}
    for question in (*before, QUESTION):
        page.get_by_label("Question", exact=True).fill(question)
        page.keyboard.press("Enter")
        expect(page.locator("#best .phrase")).to_contain_text(answers[question])
    expect(page.locator("#best q mark")).to_contain_text("740 euros")
    expect(page.locator("#best .source .name")).to_have_text("letter")
    expect(page.locator("#history-list button")).to_have_text([QUESTION, *reversed(before)])
    page.evaluate("document.activeElement.blur()")
    picture(page, "page", whole=False)
