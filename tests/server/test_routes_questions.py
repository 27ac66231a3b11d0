"""The route of questions."""

import msgspec
import pytest

from attar import wire

QUESTIONS = ["Who left?", "Who met Ann?", "Who came?"]


def answers_of(served, name, question):
    return served.post("/v1/ask", {"document": name, "question": question}).json()["answers"]


def test_answers_are_those_of_the_library(served, folder, tiny_reader):
    from attar.library.library import Library

    with Library(folder, tiny_reader, read_only=True) as library:
        wanted = msgspec.to_builtins(library.ask("0", "Who left?"))
    told = served.post("/v1/ask", {"document": "0", "question": "Who left?"}).json()
    assert [answer["text"] for answer in told["answers"]] == [answer["text"] for answer in wanted]
    assert told["answers"][0]["probability"] == pytest.approx(wanted[0]["probability"], rel=1e-4)


def test_answers_report_seconds_and_bytes(served):
    told = served.post("/v1/ask", {"document": "0", "question": "Who left?"}).json()
    assert told["seconds"] > 0
    assert told["bytes"] == served.get("/v1/documents/0").json()["bytes"]
    msgspec.convert(told, wire.Answers)


@pytest.mark.parametrize("top", [1, 2])
def test_top_limits_the_answers(served, top):
    told = served.post("/v1/ask", {"document": "0", "question": "Who left?", "top": top}).json()
    assert len(told["answers"]) == top


def test_many_questions_about_one_document(served):
    told = served.post("/v1/ask", {"document": "0", "questions": QUESTIONS}).json()
    assert [result["question"] for result in told["results"]] == QUESTIONS
    assert {result["document"] for result in told["results"]} == {"0"}
    assert told["results"][1]["answers"][0]["text"] == answers_of(served, "0", QUESTIONS[1])[0]["text"]
    msgspec.convert(told, wire.ManyAnswers)


def test_a_list_of_one_document_applies_to_all_questions(served):
    told = served.post("/v1/ask", {"documents": ["0"], "questions": QUESTIONS}).json()
    assert len(told["results"]) == 3


def test_one_question_per_document(served):
    told = served.post("/v1/ask", {"documents": ["1", "0"], "questions": QUESTIONS[:2]}).json()
    assert [(result["document"], result["question"]) for result in told["results"]] == [
        ("1", QUESTIONS[0]),
        ("0", QUESTIONS[1]),
    ]


def test_one_question_about_all_documents(served):
    told = served.post("/v1/ask", {"documents": ["1", "0"], "question": QUESTIONS[0]}).json()
    assert [result["document"] for result in told["results"]] == ["1", "0"]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"document": "0"},
        {"document": "0", "documents": ["0"], "question": "Who left?"},
        {"documents": ["0", "1"], "questions": QUESTIONS},
        {"documents": [], "questions": []},
        {"document": "0", "questions": []},
        {"document": "0", "question": "Who left?", "top": 0},
        {"document": "0", "question": "Who left?", "top": 1.5},
        {"document": "0", "question": 7},
        {"document": "", "question": "Who left?"},
        {"document": "0", "question": ""},
        {"document": "0", "question": "Who left?", "extra": 1},
        {"document": "0", "questions": ["Who left?"] * 1_025},
    ],
    ids=str,
)
def test_invalid_questions_are_422(served, refused, body):
    refused(served.post("/v1/ask", body), 422)


def test_a_question_over_the_limit_is_422(served, refused):
    assert "question" in refused(
        served.post("/v1/ask", {"document": "0", "question": "Who left?" * 2_000}), 422
    )


def test_an_unknown_document_is_404(served, refused):
    assert "'nobody'" in refused(served.post("/v1/ask", {"document": "nobody", "question": "Who left?"}), 404)
