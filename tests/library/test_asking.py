"""Searching a library, and asking all of its documents, with the reader that ships."""

import msgspec
import pytest

from attar.errors import DtypeError, FormatError
from attar.library.library import Library
from attar.search import ranking
from attar.store.records import key_of
from benchmarks.search import fill_library

from .conftest import damage, library_of

pytestmark = pytest.mark.slow

TEXTS = {
    "emma": "Emma Woodhouse lived at Hartfield with her father. Mr. Knightley owned Donwell Abbey.",
    "rome": "Rome is the capital of Italy. The Tiber flows through the city. The Colosseum was finished in 80 AD.",
    "tea": "Tea is made from the leaves of Camellia sinensis. It was first drunk in China.",
    "salt": "Salt is mined near Salzburg. It was traded along the Salzach for centuries.",
}
QUESTIONS = ["Where was tea first drunk?", "the of and", "Who was first?", "salt", "salt"]


library = library_of(TEXTS)


@pytest.mark.parametrize(
    ("query", "name"),
    [("river of the Italian capital", "rome"), ("Who owned Donwell Abbey?", "emma"), ("mining salt", "salt")],
)
def test_search_finds_documents_with_their_best_sentences(library, query, name):
    best = library.search(query)[0]
    assert best.document == name
    assert best.sentences
    for sentence in best.sentences:
        assert TEXTS[name][sentence.start : sentence.end] == sentence.text


def test_passages_hold_the_best_sentences_and_what_stands_around_them(library):
    for hit in library.search("mining salt", passages=True):
        text = TEXTS[hit.document]
        assert [text[passage.start : passage.end] for passage in hit.passages] == [text]  # all are short
        assert all(sentence.text in hit.passages[0].text for sentence in hit.sentences)
    assert not any(hit.passages for hit in library.search("mining salt"))


def test_ask_all_answers_with_document_and_quote(library):
    answer = library.ask_all("Where was tea first drunk?")[0]
    assert (answer.text, answer.document, answer.quote) == ("China", "tea", "It was first drunk in China.")
    assert TEXTS["tea"][answer.start : answer.end] == "China"


def test_the_best_documents_answer_each_as_if_asked_alone(library):
    answers = library.ask_all("Where was tea first drunk?", top=None)
    assert len({answer.document for answer in answers if not answer.absent}) == 2
    probabilities = [answer.probability for answer in answers]
    assert probabilities == sorted(probabilities, reverse=True)
    alone = library.ask("tea", "Where was tea first drunk?", top=1)[0]
    assert answers[0] == msgspec.structs.replace(alone, document="tea")


def test_not_in_this_library_is_an_answer(library):
    assert library.ask_all("Who discovered penicillin?")[0].absent


def test_an_empty_library_has_no_answer(tmp_path, shipped):
    with Library(tmp_path / "empty", shipped) as library:
        (answer,) = library.ask_all("Who?")
        assert (answer.absent, answer.probability) == (True, 1.0)
        assert library.search("Who?") == []


@pytest.mark.parametrize(
    "query", ["the of and", "___", "\ud800", "x" * 5_000], ids=["stop words", "marks", "surrogate", "long"]
)
def test_odd_queries_are_answered(library, query):
    assert len(library.search(query)) == len(TEXTS)
    assert library.ask_all(query)


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("", FormatError, "got nothing"),
        (" \n", FormatError, "got nothing"),
        ("?!", FormatError, "some words"),
        ("x" * 50_000_000, FormatError, "at most 10,000 characters, got 50,000,000"),
        (b"tea", DtypeError, "a string, got bytes"),
    ],
    ids=["nothing", "blanks", "punctuation", "a book", "bytes"],
)
def test_what_is_no_question_is_refused(library, text, error, message):
    for ask in (library.search, library.ask_all):
        with pytest.raises(error, match=message):
            ask(text)


@pytest.mark.parametrize("many", [1_000, 4_096], ids=["rounded", "exact"])
def test_many_questions_at_once_are_answered_as_each_alone(tmp_path, shipped, monkeypatch, many):
    monkeypatch.setattr(ranking, "_MANY", many)
    with Library(tmp_path / "filled", shipped) as library:
        fill_library(library, shipped, 1_500)
        library.add_many(TEXTS.items())
        alone = [library.ask_all(question, top=None) for question in QUESTIONS]
        hits = [library.search(question) for question in QUESTIONS]
    scans = []
    near_scores = ranking.near_scores
    monkeypatch.setattr(
        ranking,
        "near_scores",
        lambda packed, queries, *rest: scans.append(len(queries)) or near_scores(packed, queries, *rest),
    )
    with Library(tmp_path / "filled", shipped) as library:
        assert library.ask_all_many(QUESTIONS, top=None) == alone
        # Together, and a question that comes twice once.
        assert scans == [len(set(QUESTIONS))]
        assert [library.search(question) for question in QUESTIONS] == hits
        assert library.ask_all_many([]) == []


def test_damaged_documents_answer_no_questions(tmp_path, shipped):
    with Library(tmp_path / "library", shipped) as library:
        library.add_many(TEXTS.items())
    damage(tmp_path / "library", b"m" + key_of("tea"))
    with Library(tmp_path / "library", shipped) as library:
        answers = library.ask_all("Where was tea first drunk?", top=None)
        documents = {answer.document for answer in answers if not answer.absent}
        assert len(documents) == 2
        assert "tea" not in documents
        hits = library.search("leaves of Camellia sinensis")
        assert {hit.document for hit in hits} == TEXTS.keys() - {"tea"}


@pytest.mark.parametrize("text", ["x" * 2_000_000, "salt " * 1_500], ids=["no space", "no end of a sentence"])
def test_a_text_of_one_long_line_is_read_and_found(tmp_path, shipped, text):
    with Library(tmp_path / "library", shipped) as library:
        library.add("line", text)
        library.add("tea", TEXTS["tea"])
        assert {hit.document for hit in library.search("salt")} == {"line", "tea"}
