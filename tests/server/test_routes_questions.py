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


@pytest.mark.parametrize(
    ("body", "pairs"),
    [
        ({"document": "0", "questions": QUESTIONS}, [("0", question) for question in QUESTIONS]),
        ({"documents": ["0"], "questions": QUESTIONS}, [("0", question) for question in QUESTIONS]),
        (
            {"documents": ["1", "0"], "questions": QUESTIONS[:2]},
            [("1", QUESTIONS[0]), ("0", QUESTIONS[1])],
        ),
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
    ],
)
def test_documents_and_questions_that_do_not_pair_are_refused(served, refused, body, line):
    assert line in refused(served.post("/v1/ask", body), 422)


@pytest.mark.parametrize(
    "body",
    [
        {"document": "0", "question": "Who left?", "top": 0},
        {"document": "0", "question": "Who left?", "top": 1.5},
        {"document": "0", "question": 7},
        {"document": "", "question": "Who left?"},
        {"document": "0", "question": ""},
        {"document": "0", "question": "Who left?", "extra": 1},
        {"document": "0", "questions": ["Who left?"] * 1_025},
        {"document": "0", "question": "Who left?" * 2_000},
    ],
    ids=lambda body: str(body)[:60],
)
def test_invalid_questions_are_422(served, refused, body):
    refused(served.post("/v1/ask", body), 422)


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


def test_long_questions_of_one_request_are_asked_a_few_at_a_time(make, serve, monkeypatch):
    made, sizes = make(), []
    ask_each = made.library.ask_each

    def noted(names, questions, **options):
        sizes.append(sum(map(len, questions)))
        return ask_each(names, questions, **options)

    monkeypatch.setattr(made.library, "ask_each", noted)
    questions = [f"Who left {number} times?".ljust(1_900, "x") for number in range(20)]
    told = serve(made).post("/v1/ask", {"document": "0", "questions": questions}).json()
    assert [result["question"] for result in told["results"]] == questions
    assert max(sizes) <= 4_000


def test_questions_that_are_read_again_are_asked_a_few_at_a_time(make, serve, monkeypatch):
    made, sizes = make(), []
    ask_each = made.library.ask_each

    def noted(names, questions, **options):
        sizes.append(len(questions))
        return ask_each(names, questions, **options)

    monkeypatch.setattr(made.library, "ask_each", noted)
    body = {"document": "0", "questions": [f"Who left {number} times?" for number in range(20)]}
    served = serve(made)
    served.post("/v1/ask", body)
    assert sizes == [5, 5, 5, 5]
    served.post("/v1/ask", body | {"look": 0})
    assert sizes[4:] == [20]
