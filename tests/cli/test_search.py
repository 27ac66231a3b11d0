"""`attar search`, `attar ask` without a name and `store refit`, with the reader that ships."""

import json

import pytest

pytestmark = pytest.mark.slow

READER = ("--reader", "answers")

TEXTS = {
    "rome": "Rome is the capital of Italy. The Tiber flows through the city.",
    "tea": "Tea is made from the leaves of Camellia sinensis. It was first drunk in China.",
}


@pytest.fixture
def run(attar, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in TEXTS.items():
        (tmp_path / f"{name}.txt").write_text(text)
    assert attar("add", "library", "rome.txt", "tea.txt", *READER)[0] == 0
    return attar


def test_search_prints_documents_and_sentences(run):
    code, lines, _ = run("search", "library", "the Italian capital", "--top", "1")
    assert code == 0
    assert lines[0].startswith("rome")
    assert "  Rome is the capital of Italy." in lines
    _, (line,), _ = run("search", "library", "drinking tea", "--json")
    assert json.loads(line)["hits"][0]["document"] == "tea"


def test_words_without_quotes_are_named(run):
    for command in ("search", "verify"):
        _, _, (error,) = run(command, "library", "the", "capital")
        assert error == f"attar: a text of several words needs quotes; see attar {command} --help"


def test_ask_without_a_name_asks_all_documents(run):
    code, lines, _ = run("ask", "library", "Where was tea first drunk?", *READER)
    assert code == 0
    assert lines[0].split()[0] == "China"
    assert "tea" in lines[0]
    _, (line,), _ = run("ask", "library", "Where was tea first drunk?", "--json", *READER)
    told = json.loads(line)
    assert (told["document"], told["questions"][0]["answers"][0]["document"]) == (None, "tea")


def test_a_word_that_is_no_name_is_named_with_what_to_do(run):
    code, _, (error,) = run("ask", "library", "leaves", *READER)
    assert code == 2
    assert error.endswith("no document 'leaves'; list the documents, or end a question with a question mark")
    code, _, (error,) = run("ask", "library", "teaa", "Who?", *READER)
    assert (code, "did you mean 'tea'?" in error) == (2, True)


def test_a_library_without_documents_says_so(run):
    assert run("remove", "library", "rome", "tea")[0] == 0
    assert run("search", "library", "tea")[:2] == (0, ["no documents"])
    code, lines, errors = run("ask", "library", "Where was tea first drunk?", *READER)
    assert (code, errors) == (0, ["attar: this library has no documents yet: attar add"])
    assert lines[0].startswith("not in this library")
    code, _, errors = run("store", "refit", "library")
    assert code == 2
    assert "no document of the library has a text" in errors[0]


def test_refit_names_what_it_would_lose(run):
    run("remove", "library", "rome")
    assert run("add", "library", "rome.txt", "--no-text", *READER)[0] == 0
    code, _, errors = run("store", "refit", "library")
    assert code == 2
    assert "have no kept text, such as 'rome'" in errors[0]
    code, lines, _ = run("store", "refit", "library", "--leave-out")
    told = "1 without a kept text, or damaged: search does not find them"
    assert (code, lines) == (0, ["made 1 signatures", told])


def test_verify_prints_the_place_or_what_differs(run):
    assert run("verify", "library", "the tiber FLOWS through the city")[:2] == (
        0,
        ["found, word for word", "rome, line 1  The Tiber flows through the city"],
    )
    code, lines, _ = run("verify", "library", "The Tiber runs through the city")
    assert (code, lines[0]) == (0, "nearly")
    assert lines[2] == '  the quote has "runs", the document "flows"'
    assert run("verify", "library", "Pigs can fly over the moon")[:2] == (1, ["not in this library"])
    code, lines, _ = run("verify", "library", "The Tiber runs through the city", "--json")
    assert json.loads(lines[0])["passages"][0]["differences"] == [{"quote": "runs", "text": "flows"}]


def test_some_documents_are_asked_searched_and_listed(run):
    assert run("add", "library", "tea.txt", "--tag", "drink", *READER)[0] == 0
    _, lines, _ = run("list", "library", "--tag", "drink", "--json")
    assert [document["name"] for document in json.loads(lines[0])["documents"]] == ["tea"]
    _, lines, _ = run("search", "library", "the Italian capital", "--tag", "drink", "--in", ".", "--json")
    assert [hit["document"] for hit in json.loads(lines[0])["hits"]] == ["tea"]
    _, lines, _ = run("ask", "library", "What flows through the city?", "--name", "tea", "--json", *READER)
    answers = json.loads(lines[0])["questions"][0]["answers"]
    assert {answer.get("document") for answer in answers} <= {"tea", None}
    assert run("ask", "library", "Who?", "--tag", "nothing", *READER)[2] == [
        "attar: no document has the tag 'nothing'; see what there is: attar list STORE"
    ]
    assert run("ask", "library", "tea", "Who drank?", "--tag", "drink", *READER)[0] == 2
    assert run("list", "library", "--name", "tea")[1][1].endswith("  tea  [drink]")
    _, _, (error,) = run("ask", "library", "Who?", "--name", "tea", "--name", "romee", *READER)
    assert error == "attar: there is no document 'romee'; did you mean 'rome'?"
    _, _, (error,) = run("ask", "library", "Who?", "--since", "yesterday", *READER)
    assert "'yesterday' is no day; write it as in 2026-01-31" in error
    assert run("add", "library", "tea.txt", "--tag", "x" * 10_000, *READER)[0] == 2


def test_all_places_are_listed_by_answer(run):
    _, lines, _ = run("ask", "library", "Where was tea first drunk?", "--all", *READER)
    assert lines[0].split("  ")[0::2] == ["China", "1 place"]
    assert lines[1] == "  tea, line 1  It was first drunk in China."
    _, (line,), _ = run("ask", "library", "tea", "Where was tea first drunk?", "--all", "--json", *READER)
    (row,) = json.loads(line)["questions"]
    assert (row["groups"][0]["text"], row["groups"][0]["count"]) == ("China", 1)
    assert row["groups"][0]["places"][0]["quote"] == "It was first drunk in China."


def test_where_nothing_is_likely_no_place_is_listed_and_a_line_says_why(run):
    code, lines, (note,) = run("ask", "library", "What is the boiling point of iron?", "--all", *READER)
    assert (code, lines) == (0, ["not in this library"])
    assert "--all lists nothing where the best answer is not likely" in note
