"""The route of questions."""

import json

import msgspec
import pytest

from attar import wire
from attar.server.app import describe_api

QUESTIONS = ["Who left?", "Who met Ann?", "Who came?"]


def answers_of(served, name, question):
    return served.post("/v1/ask", {"document": name, "question": question}).json()["answers"]


def test_answers_report_seconds_and_bytes(served):
    told = served.post("/v1/ask", {"document": "0", "question": "Who left?"}).json()
    assert told["seconds"] > 0
    assert told["bytes"] == served.get("/v1/documents/0").json()["bytes"]
    msgspec.convert(told, wire.Answers)


@pytest.mark.parametrize(
    ("body", "pairs"),
    [
        ({"document": "0", "questions": QUESTIONS}, [("0", question) for question in QUESTIONS]),
        ({"documents": ["0"], "questions": QUESTIONS}, [("0", question) for question in QUESTIONS]),
        ({"documents": ["1", "0"], "questions": QUESTIONS[:2]}, [("1", QUESTIONS[0]), ("0", QUESTIONS[1])]),
        ({"documents": ["1", "0"], "question": QUESTIONS[0]}, [("1", QUESTIONS[0]), ("0", QUESTIONS[0])]),
    ],
    ids=["one document", "a list of one", "one question per document", "one question about all"],
)
def test_many_questions(served, body, pairs):
    told = msgspec.convert(served.post("/v1/ask", body).json(), wire.ManyAnswers)
    assert [(result.document, result.question) for result in told.results] == pairs
    for result in told.results:
        assert result.answers[0].text == answers_of(served, result.document, result.question)[0]["text"]


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ({}, '"question" or "questions", got neither'),
        ({"document": "0"}, '"question" or "questions", got neither'),
        ({"document": "0", "documents": ["0"], "question": "Who left?"}, "got both"),
        ({"documents": ["0", "1"], "questions": QUESTIONS}, "one for each of 2 documents, got 3"),
        ({"documents": [], "question": "Who left?"}, "at least one"),
        ({"document": "0", "questions": []}, "at least one"),
        ({"document": "0", "question": "Who left?", "within": {"names": ["0"]}}, "name it in within"),
        (
            {"question": "Who left?", "within": {"names": ["0"] * 10_001}},
            "names of a subset: expected at most",
        ),
        ({"question": "Who left?", "within": {"tags": ["0"] * 65}}, "tags of a subset: expected at most 64"),
        ({"question": "Who left?", "within": {"tags": ["0" * 101]}}, "tag: expected 1 to 100"),
        ({"question": "Who left?", "within": {"folder": "a/" * 5_001}}, "folder of a subset"),
    ],
)
def test_documents_and_questions_that_do_not_pair_are_refused(served, refused, body, line):
    assert line in refused(served.post("/v1/ask", body), 422)


@pytest.mark.parametrize(
    ("path", "shape", "field"),
    [
        (wire.ASK, "Ask", "question"),
        (wire.ANSWERS, "ListAnswers", "question"),
        (wire.SEARCH, "Search", "query"),
    ],
)
def test_a_question_of_more_than_2000_characters_is_422_as_the_api_says(served, refused, path, shape, field):
    longest = "Who left?".ljust(2_000, "x")
    assert served.post(path, {field: longest}).status_code == 200
    assert "length <= 2000" in refused(served.post(path, {field: longest + "x"}), 422)
    described = describe_api()["components"]["schemas"][shape]["properties"][field]
    assert '"maxLength": 2000' in json.dumps(described)


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ({"document": "0", "questions": ["Who left?" * 200] * 100}, "characters of all questions"),
        ({"questions": ["Who left?" * 200] * 100}, "characters of all questions"),
        ({"document": "0", "questions": ["Who left?"] * 60, "top": 1_000}, "questions × top"),
        ({"questions": ["Who left?"] * 60, "top": None}, "questions × top"),
        ({"document": "0", "questions": ["Who left?"] * 1_000}, "milliseconds that all questions take"),
        ({"questions": ["Who left?"] * 300}, "milliseconds that all questions take"),
    ],
    ids=["long, to one", "long, to all", "many answers", "all answers", "many, to one", "many, to all"],
)
def test_what_would_cost_too_much_is_refused_before_any_work(make, serve, refused, monkeypatch, body, line):
    made = make()
    for method in ("ask_each", "ask_all_many"):
        monkeypatch.setattr(made.library, method, lambda *given, **options: pytest.fail("work has begun"))
    assert line in refused(serve(made).post("/v1/ask", body), 413)


@pytest.mark.parametrize(
    ("questions", "options", "sizes"),
    [
        ([f"Who left {number} times?" for number in range(20)], {}, [5, 5, 5, 5]),
        ([f"Who left {number} times?" for number in range(20)], {"look": 0}, [20]),
        ([f"Who left {number} times?".ljust(1_900, "x") for number in range(6)], {"look": 0}, [4, 2]),
    ],
    ids=["read again", "from memory alone", "long"],
)
def test_questions_that_are_much_work_are_asked_a_few_at_a_time(
    make, serve, monkeypatch, questions, options, sizes
):
    made, asked = make(), []
    ask_each = made.library.ask_each

    def noted(names, questions, **options):
        asked.append(len(questions))
        return ask_each(names, questions, **options)

    monkeypatch.setattr(made.library, "ask_each", noted)
    told = serve(made).post("/v1/ask", {"document": "0", "questions": questions} | options).json()
    assert [result["question"] for result in told["results"]] == questions
    assert asked == sizes


def test_questions_are_read_again_as_the_settings_say_unless_a_request_does(make, serve, monkeypatch):
    made, looks = make(look=1), []
    ask_each = made.library.ask_each
    monkeypatch.setattr(
        made.library,
        "ask_each",
        lambda *given, look, **options: looks.append(look) or ask_each(*given, **options),
    )
    served = serve(made)
    for more in ({}, {"look": 0}, {"look": None}):
        assert served.post("/v1/ask", {"document": "0", "question": "Who left?"} | more).status_code == 200
    assert looks == [1, 0, 1]
    assert served.get("/v1/status").json()["look"] == 1
