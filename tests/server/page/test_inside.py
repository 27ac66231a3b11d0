"""The view Inside: the memory as a picture, words by weight, the cost of a question, and the load."""

import re
from typing import Any

import pytest
from playwright.sync_api import expect

QUESTION = "___ married Elizabeth ."


def choose(page: Any, name: str) -> None:
    page.get_by_label("Document", exact=True).select_option(name)
    expect(page.get_by_role("img", name=re.compile(f"The memory of {name}"))).to_be_visible()


def shade(page: Any, question: str, text: str | None = None) -> None:
    page.get_by_label("Question to weigh the words by").fill(question)
    if text is not None:
        page.get_by_label(re.compile("The document’s text")).fill(text)
    page.get_by_role("button", name="Shade the words").click()


@pytest.fixture
def inside(filled):
    filled.get_by_role("tab", name="Inside").click()
    choose(filled, "spring")
    return filled


@pytest.fixture
def letter(shipped_server, open_page):
    page = open_page(shipped_server, "/#inside?document=letter")
    expect(page.locator("#memory")).to_be_visible()
    return page


def test_the_memory_is_a_heat_map_with_one_row_per_name(inside, server):
    held = len(server.call("GET", "documents/spring")["names"])
    picture = inside.get_by_role("img", name=re.compile("The memory of spring"))
    expect(picture).to_have_accessible_name(f"The memory of spring: {held} names × 6 numbers")
    colours = picture.evaluate(
        """canvas => {
          const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
          return new Set(new Uint32Array(data.buffer)).size;
        }"""
    )
    assert colours > held


def test_the_rows_of_the_default_readers_memory_are_phrases(letter):
    picture = letter.get_by_role("img", name=re.compile("The memory of letter"))
    expect(picture).to_have_accessible_name(re.compile(r"\d+ phrases × 64 numbers"))


def test_arrow_keys_move_through_the_heat_map(inside, server):
    told = server.call("GET", "documents/spring?memory=1")["memory"]
    # Drawn: keys that are pressed before that move nothing.
    expect(inside.locator("#memory-here")).to_contain_text("arrow keys")
    inside.locator("#memory-picture").focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        inside.keyboard.press(key)
    expect(inside.locator("#memory-here")).to_contain_text(f"{told['labels'][1]}, number 2 of 6:")


def test_another_document_can_be_chosen(inside):
    choose(inside, "winter")
    expect(inside).to_have_url(re.compile("document=winter"))


def test_an_empty_library_has_nothing_inside(page):
    page.get_by_role("tab", name="Inside").click()
    expect(page.get_by_text("Once there is one, this page shows the memory")).to_be_visible()
    expect(page.locator("#comparison")).to_be_hidden()


def test_the_cost_of_softmax_is_measured_on_request(inside, server):
    expect(inside.locator("#costs")).to_be_hidden()
    inside.get_by_role("button", name="Measure").click()
    lines = inside.locator("#costs li")
    expect(lines).to_have_count(3)
    expect(lines.nth(0)).to_have_text(re.compile(r"This memory.*\d (µs|ms)"))
    expect(lines.nth(1)).to_have_text(re.compile(r"Softmax.*\d (µs|ms)"))
    expect(lines.nth(2)).to_contain_text(f"Over {server.tokens('spring')} tokens")


def test_words_are_shaded_by_weight(inside, server, stories):
    shade(inside, QUESTION, stories[1].text)
    shaded = inside.get_by_role("region", name="The text, shaded")
    expect(shaded.locator("mark.heaviest")).to_have_count(1)
    # This reader's mechanism writes names alone: no other token has a weight.
    held = server.call("GET", "documents/spring")["names"]
    assert set(shaded.locator("mark").all_text_contents()) <= {
        word for name in held for word in name.split()
    } | set(held)


def test_shading_needs_the_text_if_it_was_not_kept(inside):
    shade(inside, QUESTION)
    expect(inside.locator("#words-problem")).to_contain_text("Paste it")


def test_the_sentence_of_the_answer_is_shaded_most(letter):
    shade(letter, "Why should the coats be sent before October?")
    expect(letter.locator("mark.heaviest").first).to_be_visible()
    heaviest = " ".join(letter.locator("mark.heaviest").all_text_contents())
    assert heaviest == "Please send the winter coats before October, because the bora blows hard here."
    expect(letter.locator("#words-paste")).to_be_hidden()


def test_shading_waits_until_the_document_is_there(shipped_server, open_page):
    page = open_page(shipped_server)
    held: list[Any] = []
    page.route("**/v1/documents/letter*", lambda route: held.append(route))
    page.get_by_role("tab", name="Inside").click()
    page.get_by_label("Question to weigh the words by").fill("How much is the rent?")
    page.get_by_role("button", name="Shade the words").click()
    for route in held:
        route.continue_()
    expect(page.locator("#shaded")).to_be_visible()
    expect(page.locator("#words-problem")).to_be_hidden()


def test_the_last_question_is_taken_over(shipped_server, open_page):
    page = open_page(shipped_server, "/#ask?question=How+much+is+the+rent%3F")
    expect(page.locator("#best .phrase")).to_have_text("740 euros")
    page.get_by_role("tab", name="Inside").click()
    expect(page.get_by_label("Question to weigh the words by")).to_have_value("How much is the rent?")


def test_of_a_long_text_the_heaviest_words_are_shown(inside):
    tokens = ["word"] * 9_000
    weights = [0.0] * 9_000
    tokens[5_000], weights[5_000] = "Alice", 2.5
    told = {"tokens": tokens, "weights": weights, "answers": [], "seconds": 0.1}
    inside.route("**/v1/explain", lambda route: route.fulfill(json=told))
    shade(inside, QUESTION, "A text.")
    expect(inside.get_by_text("Of 9,000 tokens, those around the 24 heaviest are shown.")).to_be_visible()
    expect(inside.locator("#shaded mark")).to_have_text(["Alice"])


def test_the_load_is_drawn_from_the_metrics(inside, server):
    expect(inside.locator("#load-line")).to_contain_text("3 documents")
    expect(inside.locator("#rate-now")).not_to_have_text("–")
    server.call("POST", "ask", {"document": "spring", "question": QUESTION})
    expect(inside.locator("#latency-chart path.first")).to_have_attribute("d", re.compile("M"))
    expect(inside.locator("#load-line")).to_contain_text(re.compile(r"[1-9]\d* questions? answered"))


def test_the_load_can_be_paused(inside):
    pause = inside.get_by_role("button", name="Pause")
    pause.click()
    expect(pause).to_have_attribute("aria-pressed", "true")


def test_metrics_that_cannot_be_read_show_a_problem(inside):
    inside.route("**/metrics", lambda route: route.abort())
    expect(inside.locator("#load-problem")).to_contain_text("The server does not answer")


def test_the_load_is_not_asked_for_while_nobody_sees_it(shipped_server, open_page):
    page = open_page(shipped_server, "/healthz")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.clock.install()
    page.goto(shipped_server.address)
    expect(page.locator("#examples")).to_be_visible()
    page.clock.run_for(10_000)
    assert not [url for url in asked if url.endswith("/metrics")]
