"""The page with the reader that ships: answers with their sentence, and "Not in this text"."""

import re
from typing import Any

import pytest
from playwright.sync_api import expect


def ask(page: Any, question: str) -> None:
    page.get_by_label("Question", exact=True).fill(question)
    page.get_by_role("button", name="Ask", exact=True).click()


@pytest.fixture
def letter(shipped_server, open_page):
    """The page with a letter chosen."""
    return open_page(shipped_server, "/#document=letter")


def test_the_answer_is_marked_in_its_sentence(letter, picture):
    ask(letter, "When did they arrive in Trieste?")
    best = letter.locator("#answers li").first
    expect(best.locator(".answer")).to_have_text("Tuesday")
    expect(best.locator("q")).to_have_text(
        "We arrived in Trieste on Tuesday after a journey of eleven hours."
    )
    expect(best.locator("q mark")).to_have_text("Tuesday")
    expect(letter.locator("#answers-said")).to_contain_text("on Tuesday after a journey")
    letter.get_by_role("button", name="Shade the words").click()
    expect(letter.locator("#shaded")).to_be_visible()
    picture(letter, "answer")


def test_the_question_that_the_page_suggests_is_answered(letter):
    suggested = letter.get_by_label("Question", exact=True).get_attribute("placeholder")
    ask(letter, suggested)
    expect(letter.locator("#answers .answer").first).to_have_text("740 euros")


def test_a_question_whose_answer_is_not_there_is_told_so_in_words(letter, picture):
    ask(letter, "What is the capital of Norway?")
    best = letter.locator("#answers li").first
    expect(best.locator(".answer")).to_have_text("Not in this text")
    expect(best.locator("q")).to_have_count(0)
    expect(letter.locator("#answers-said")).to_contain_text("Not in this text")
    picture(letter, "absent")


def test_a_phrase_is_marked_as_whole_words_whatever_its_characters(letter):
    answer = {
        "text": "Ann (27)",
        "probability": 0.9,
        "kind": "name",
        "quote": "JoAnn (27) met Ann (27) <b>here</b>.",
    }
    told = {"answers": [answer], "seconds": 0.1, "bytes": 5}
    letter.route("**/v1/ask", lambda route: route.fulfill(json=told))
    ask(letter, "Who?")
    quote = letter.locator("#answers q")
    expect(quote).to_have_text("JoAnn (27) met Ann (27) <b>here</b>.")
    assert quote.evaluate("quote => quote.firstChild.textContent") == "JoAnn (27) met "
    expect(quote.locator("mark")).to_have_text("Ann (27)")


def test_unlikely_answers_are_not_listed(letter, shipped_server):
    question = "How much is the rent?"
    told = shipped_server.call("POST", "ask", {"document": "letter", "question": question, "top": 8})[
        "answers"
    ]
    ask(letter, question)
    likely = [answer for answer in told if answer["probability"] >= 0.005]
    assert len(likely) < len(told)
    expect(letter.locator("#answers li")).to_have_count(len(likely))


def test_the_sentence_of_the_answer_is_shaded_most(letter):
    ask(letter, "Why should the coats be sent before October?")
    expect(letter.locator("#answers .answer").first).to_contain_text("bora")
    letter.get_by_role("button", name="Shade the words").click()
    expect(letter.locator("mark.heaviest").first).to_be_visible()
    heaviest = " ".join(letter.locator("mark.heaviest").all_text_contents())
    assert heaviest == "Please send the winter coats before October, because the bora blows hard here."


def test_the_rows_of_the_memory_are_phrases(letter):
    picture = letter.get_by_role("img", name=re.compile("The memory of letter"))
    expect(picture).to_have_accessible_name(re.compile(r"\d+ phrases × 64 numbers"))
    letter.locator("#memory-picture").focus()
    letter.keyboard.press("ArrowRight")
    expect(letter.locator("#memory-here")).to_contain_text(re.compile(r"\w.*, number \d+ of 64: "))
