"""The panels of questions, memory, words and load."""

import json
import re
from typing import Any

import pytest
from playwright.sync_api import expect

QUESTION = "___ married Elizabeth ."


def ask(page: Any, question: str = QUESTION) -> None:
    page.get_by_label("Question", exact=True).fill(question)
    page.get_by_role("button", name="Ask", exact=True).click()


def choose(page: Any, name: str) -> None:
    page.locator("#documents .document").filter(has_text=name).click()
    expect(page.locator("#ask-heading")).to_have_text(f"Ask {name}")


@pytest.fixture
def asked(filled):
    choose(filled, "spring")
    ask(filled)
    expect(filled.locator("#answers li").first).to_be_visible()
    return filled


def test_answers_are_bars_with_texts_and_probabilities(asked, server):
    told = server.call("POST", "ask", {"document": "spring", "question": QUESTION, "top": 8})["answers"]
    shares = [f"{answer['probability']:.1%}".replace("%", " %") for answer in told]
    expect(asked.locator("#answers .answer")).to_have_text([answer["text"] for answer in told])
    expect(asked.locator("#answers .share")).to_have_text(shares)
    bars = asked.locator("#answers .filled").evaluate_all("bars => bars.map(bar => bar.style.inlineSize)")
    widths = [float(bar.removesuffix("%")) for bar in bars]
    assert widths == pytest.approx([100 * answer["probability"] for answer in told], abs=1e-3)


def test_answers_are_announced_to_screen_readers(asked):
    best = asked.locator("#answers .answer").first.text_content()
    expect(asked.get_by_role("status").filter(has_text=best)).to_contain_text(re.compile(r"\d %"))


def test_answers_show_seconds_and_bytes(asked, server):
    size = server.call("GET", "documents/spring")["bytes"]
    expect(asked.locator("#answer-cost")).to_have_text(
        re.compile(rf"\d (µs|ms|s) on the server · {size} B read")
    )


def test_the_cost_of_softmax_is_measured_on_request(asked, server):
    expect(asked.locator("#costs")).to_be_hidden()
    asked.get_by_role("button", name="Measure").click()
    lines = asked.locator("#costs li")
    expect(lines).to_have_count(3)
    expect(lines.nth(0)).to_have_text(re.compile(r"This memory.*\d (µs|ms)"))
    expect(lines.nth(1)).to_have_text(re.compile(r"Softmax.*\d (µs|ms)"))
    expect(lines.nth(2)).to_contain_text(f"Over {server.tokens('spring')} tokens")


def test_enter_asks(filled):
    choose(filled, "spring")
    filled.get_by_label("Question", exact=True).fill(QUESTION)
    filled.keyboard.press("Enter")
    expect(filled.locator("#answers li").first).to_be_visible()


def test_a_button_inserts_a_gap(filled):
    question = filled.get_by_label("Question", exact=True)
    question.fill(" married Elizabeth .")
    question.press("Home")
    filled.get_by_role("button", name="Insert a gap, ___, into the question").click()
    expect(question).to_have_value("___ married Elizabeth .")


def test_a_question_needs_a_document(filled):
    ask(filled)
    expect(filled.locator("#ask-problem")).to_have_text("Choose a document first.")


def test_choosing_another_document_clears_the_answers(asked):
    choose(asked, "winter")
    expect(asked.locator("#answered")).to_be_hidden()


def test_a_question_without_a_gap_shows_the_problem(filled, server):
    choose(filled, "spring")
    ask(filled, "Elizabeth married .")
    expect(filled.locator("#ask-problem")).to_contain_text("___")
    expect(filled.locator("#answered")).to_be_hidden()


def test_asking_a_removed_document_shows_the_problem(filled, server):
    choose(filled, "spring")
    server.remove("spring")
    ask(filled)
    expect(filled.locator("#ask-problem")).to_contain_text("spring")


def test_a_server_that_does_not_answer_shows_a_problem(filled):
    choose(filled, "spring")
    filled.route("**/v1/ask", lambda route: route.abort())
    ask(filled)
    expect(filled.locator("#ask-problem")).to_have_text(
        "The server does not answer. Is attar serve still running?"
    )


def test_a_busy_server_says_when_to_try_again(filled):
    problem = json.dumps(
        {"title": "Busy", "status": 503, "detail": "server: expected fewer requests, got more"}
    )
    busy = {"status": 503, "headers": {"Retry-After": "1"}, "content_type": "application/problem+json"}
    choose(filled, "spring")
    filled.route("**/v1/ask", lambda route: route.fulfill(**busy, body=problem))
    ask(filled)
    expect(filled.locator("#ask-problem")).to_have_text("The server is busy. Try again in 1 s.")


def test_an_error_without_a_problem_object_shows_its_status(filled):
    choose(filled, "spring")
    filled.route("**/v1/ask", lambda route: route.fulfill(status=502, body="<html>Bad gateway</html>"))
    ask(filled)
    expect(filled.locator("#ask-problem")).to_have_text(re.compile("^The server answered 502"))


def test_the_memory_is_a_heat_map_with_one_row_per_name(filled, server):
    choose(filled, "spring")
    held = len(server.call("GET", "documents/spring")["names"])
    picture = filled.get_by_role("img", name=re.compile("The memory of spring"))
    expect(picture).to_have_accessible_name(f"The memory of spring: {held} names × 6 numbers")
    colours = picture.evaluate(
        """canvas => {
          const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
          return new Set(new Uint32Array(data.buffer)).size;
        }"""
    )
    assert colours > held


def test_arrow_keys_move_through_the_heat_map(filled, server):
    choose(filled, "spring")
    told = server.call("GET", "documents/spring?memory=1")["memory"]
    # Drawn: keys that are pressed before that move nothing.
    expect(filled.locator("#memory-here")).to_contain_text("arrow keys")
    filled.locator("#memory-picture").focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        filled.keyboard.press(key)
    expect(filled.locator("#memory-here")).to_contain_text(f"{told['labels'][1]}, number 2 of 6:")


def test_the_memory_panel_is_hidden_without_numbers(filled):
    def without(route: Any) -> None:
        told = route.fetch().json()
        route.fulfill(json={word: value for word, value in told.items() if word != "memory"})

    filled.route("**/v1/documents/spring?memory=1", without)
    choose(filled, "spring")
    expect(filled.locator("#words-paste")).to_be_visible()
    expect(filled.locator("#memory")).to_be_hidden()


def test_words_are_shaded_by_weight(asked, server, stories):
    asked.get_by_label(re.compile("The document’s text")).fill(stories[1].text)
    asked.get_by_role("button", name="Shade the words").click()
    shaded = asked.get_by_role("region", name="The text, shaded")
    expect(shaded).to_be_visible()
    expect(shaded.locator("mark.heaviest")).to_have_count(1)
    # This reader's mechanism writes names alone: no other token has a weight.
    held = server.call("GET", "documents/spring")["names"]
    assert set(shaded.locator("mark").all_text_contents()) <= set(held)


def test_shading_needs_the_text(asked):
    asked.get_by_role("button", name="Shade the words").click()
    expect(asked.locator("#words-problem")).to_contain_text("Paste it")


def test_a_text_added_in_this_tab_need_not_be_pasted_again(page, stories):
    page.get_by_label("Name", exact=True).fill("spring")
    page.get_by_label("Text", exact=True).fill(stories[1].text)
    page.get_by_role("button", name="Add").click()
    expect(page.locator("#ask-heading")).to_have_text("Ask spring")
    ask(page)
    page.get_by_role("button", name="Shade the words").click()
    expect(page.locator("mark.heaviest")).to_be_visible()
    expect(page.locator("#words-paste")).to_be_hidden()


def test_of_a_long_text_the_heaviest_words_are_shown(asked):
    tokens = ["word"] * 9_000
    weights = [0.0] * 9_000
    tokens[5_000], weights[5_000] = "Alice", 2.5
    told = {"tokens": tokens, "weights": weights, "answers": [], "seconds": 0.1}
    asked.route("**/v1/explain", lambda route: route.fulfill(json=told))
    asked.get_by_label(re.compile("The document’s text")).fill("A text.")
    asked.get_by_role("button", name="Shade the words").click()
    expect(asked.get_by_text("Of 9,000 tokens, those around the 24 heaviest are shown.")).to_be_visible()
    expect(asked.locator("mark")).to_have_text(["Alice"])


def test_the_load_is_drawn_from_the_metrics(filled, server):
    choose(filled, "spring")
    expect(filled.locator("#load-line")).to_contain_text("3 documents")
    expect(filled.locator("#rate-now")).not_to_have_text("–")
    ask(filled)
    expect(filled.locator("#latency-now")).to_have_text(re.compile(r"\d (µs|ms|s) · \d"))
    expect(filled.locator("#latency-chart path.first")).to_have_attribute("d", re.compile("M"))


def test_the_load_can_be_paused(filled):
    pause = filled.get_by_role("button", name="Pause")
    pause.click()
    expect(pause).to_have_attribute("aria-pressed", "true")


def test_metrics_that_cannot_be_read_show_a_problem(filled):
    filled.route("**/metrics", lambda route: route.abort())
    expect(filled.locator("#load-problem")).to_contain_text("The server does not answer")
