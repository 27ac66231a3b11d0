"""The view Ask: one box, a scope, answers as cards, "not found" in plain words, examples and history."""

import json
import re
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from playwright.sync_api import expect

from attar.results import Answer

pytestmark = pytest.mark.nightly

PAPERS = Path(__file__).resolve().parents[3] / "examples" / "papers"
ANSWER = {"text": "740 euros", "probability": 0.97, "kind": "money", "document": "letter"}


def ask(page: Any, question: str) -> None:
    page.get_by_label("Question", exact=True).fill(question)
    page.get_by_role("button", name="Ask", exact=True).click()


def phrase(page: Any) -> Any:
    return page.locator("#best .phrase")


def reply(page: Any, *given: dict[str, Any]) -> None:
    """Answer every question with these, each with the server's word for its certainty."""
    answers = [msgspec.to_builtins(msgspec.convert(answer, Answer)) for answer in given]
    told = {"document": None, "question": "?", "answers": answers, "seconds": 0.01, "bytes": 5_000}
    page.route("**/v1/ask", lambda route: route.fulfill(json=told))


def offered(page: Any) -> Any:
    """The documents that may be chosen."""
    return page.locator("#scope-names option")


@pytest.fixture
def asking(demo_server, open_page):
    """The page of a library with a letter and minutes."""
    page = open_page(demo_server)
    expect(offered(page)).to_have_count(2)
    return page


def test_one_box_asks_all_documents(asking):
    ask(asking, "How much is the rent?")
    best = asking.locator("#best .answer")
    expect(phrase(asking)).to_have_text("740 euros")
    expect(best.locator("q mark")).to_have_text("740 euros")
    expect(best.locator("q")).to_contain_text("the rent is 740 euros a month.")
    expect(best.locator(".source .name")).to_have_text("letter")
    expect(best.locator(".chance")).to_have_text(re.compile(r"(Likely|Possible|Unsure) · (> )?\d\d %"))
    ask(asking, "Who is the chairman?")
    expect(phrase(asking)).to_have_text("Mr. Okafor")
    expect(best.locator(".source .name")).to_have_text("minutes")


@pytest.mark.parametrize(
    ("scope", "words"),
    [("", "None of your documents says this."), ("letter", "This document does not say this.")],
    ids=["all documents", "one document"],
)
def test_what_is_not_said_is_told_in_plain_words(asking, scope, words):
    asking.get_by_label("Where to look").fill(scope)
    ask(asking, "What is the capital of Norway?")
    expect(phrase(asking)).to_have_text(words)
    expect(asking.locator("#answers-said")).to_contain_text(words)
    expect(asking.get_by_role("heading", name="The closest passages")).to_be_visible()
    expect(asking.locator("#others q").first).to_be_visible()


def test_place_and_further_answers_are_shown(asking):
    others = [
        {"text": "2,310 pounds", "probability": 0.02, "kind": "money", "document": "minutes"},
        {"text": "", "probability": 0.2, "kind": "none"},
        {"text": "May", "probability": 0.001, "kind": "date", "document": "letter"},
    ]
    reply(asking, ANSWER | {"place": "page 3"}, *others)
    ask(asking, "How much?")
    expect(asking.locator("#best .place")).to_have_text("page 3")
    expect(asking.locator("#best .chance")).to_have_text("Likely · 97 %")
    expect(asking.get_by_role("heading", name="Other possibilities")).to_be_visible()
    expect(asking.locator("#others .phrase")).to_have_text(["2,310 pounds"])
    expect(asking.locator("#others .chance")).to_have_text("Unsure · 2 %")
    expect(asking.locator("#answer-cost")).to_have_text(
        "That none of your documents says it: 20 %. Answered in 10 ms from 5 KB of memory."
    )


def test_a_phrase_is_marked_as_whole_words_whatever_its_characters(asking):
    quote = "JoAnn (27) met Ann (27) <b>here</b>."
    reply(asking, ANSWER | {"text": "Ann (27)", "quote": quote})
    ask(asking, "Who?")
    expect(asking.locator("#best q")).to_have_text(quote)
    expect(asking.locator("#best q mark")).to_have_text("Ann (27)")
    before = asking.locator("#best q").evaluate("quote => quote.firstChild.textContent")
    assert before == "JoAnn (27) met "


def test_answers_are_announced_to_screen_readers(asking):
    ask(asking, "How much is the rent?")
    said = asking.get_by_role("status").filter(has_text="740 euros")
    expect(said).to_contain_text(re.compile(r"740 euros, (Likely|Possible) · \d\d %\. [^.]*\. From letter\."))


def test_a_question_has_an_address(asking, demo_server, open_page):
    asking.get_by_label("Where to look").fill("letter")
    ask(asking, "How much is the rent?")
    expect(phrase(asking)).to_have_text("740 euros")
    again = open_page(demo_server, "/" + asking.evaluate("location.hash"))
    expect(phrase(again)).to_have_text("740 euros")
    expect(again.get_by_label("Question", exact=True)).to_have_value("How much is the rent?")
    expect(again.get_by_label("Where to look")).to_have_value("letter")


def test_questions_of_before_can_be_asked_again_and_cleared(asking):
    for question in ("How much is the rent?", "Who is the chairman?", "How much is the rent?"):
        ask(asking, question)
        expect(asking.locator("#history-list button").first).to_have_text(question)
    past = asking.locator("#history-list button")
    expect(past).to_have_text(["How much is the rent?", "Who is the chairman?"])
    asking.reload()
    past.nth(1).click()
    expect(phrase(asking)).to_have_text("Mr. Okafor")
    asking.get_by_role("button", name="Clear the history").click()
    expect(asking.locator("#history")).to_be_hidden()
    assert asking.evaluate("localStorage.getItem('attar.questions')") == "[]"


@pytest.mark.parametrize(
    ("status", "headers", "detail", "line"),
    [
        (503, {"Retry-After": "1"}, "server: expected fewer", "The server is busy. Try again in 1 s."),
        (504, {}, "request: expected", "The server took too long, and gave up. Try again."),
        (500, {}, "server: expected", "Something went wrong on the server. Its log has the reason."),
        (422, {}, "top: expected 1 or more, got 0; use 1", "top: expected 1 or more, got 0. Use 1."),
        (422, {}, "the question has no words; ask one", "The question has no words. Ask one."),
    ],
    ids=["busy", "slow", "fault", "refused", "sentence"],
)
def test_problems_are_told_in_plain_words(asking, status, headers, detail, line):
    body = json.dumps({"title": "A title", "status": status, "detail": detail})
    answer = {"status": status, "headers": headers, "content_type": "application/problem+json", "body": body}
    asking.route("**/v1/ask", lambda route: route.fulfill(**answer))
    asking.get_by_label("Where to look").fill("letter")
    ask(asking, "Who?")
    expect(asking.locator("#ask-problem")).to_have_text(line)


RIGHT_OF_PAPERS = {
    "How many hours does the working week have?": "37.5",
    "How many days of holiday does the employee have?": "28",
    "When does the work begin?": "1 September 2026",
    "What is the town of Priya Nair?": "Otley",
    "What is the town of Omar Haddad?": "Ilkley",
    "What is the town of Ruth Osei?": "Otley",
    "Who chaired the meeting?": "Priya Nair",
    "Who brings the music?": "Omar Haddad",
    "When is the party?": "20 June",
    "How much does a single visit cost?": "5 pounds 40",
    "How much does a cabin cost?": "214 euros",
}


def test_the_four_examples_of_the_papers_are_answered_right(server, open_page):
    for file in sorted(PAPERS.iterdir()):
        sent = httpx.post(
            f"{server.address}/v1/files",
            params={"name": file.name},
            content=file.read_bytes(),
            headers={"content-type": "application/octet-stream"},
            timeout=60,
        )
        assert sent.status_code == 200
    page = open_page(server)
    examples = page.locator("#example-list button")
    expect(examples).to_have_count(4)
    asked = examples.all_text_contents()
    documents = set()
    for question in asked:
        page.goto(server.address)
        page.locator("#example-list button", has_text=question).click()
        expect(phrase(page)).to_have_text(RIGHT_OF_PAPERS[question])
        expect(page.locator("#best q mark")).to_have_text(RIGHT_OF_PAPERS[question])
        documents.add(page.locator("#best .source .name").text_content())
    assert len(documents) > 1
