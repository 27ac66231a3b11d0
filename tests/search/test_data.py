"""Sets to measure search on: what is wrong in a file is one clear line."""

import json

import pytest

from attar.errors import FormatError
from attar.search.data import from_passages, read_beir


@pytest.fixture
def folder(tmp_path):
    def write(corpus=("a", "b"), queries=("q",), qrels=("q\ta\t1", "q\tb\t0")):
        (tmp_path / "qrels").mkdir(exist_ok=True)
        rows = [
            json.dumps({"_id": each, "title": each.upper(), "text": f"text of {each}"}) for each in corpus
        ]
        (tmp_path / "corpus.jsonl").write_text("\n".join(rows))
        (tmp_path / "queries.jsonl").write_text(
            "\n".join(json.dumps({"_id": each, "text": f"query {each}"}) for each in queries)
        )
        lines = ["query-id\tcorpus-id\tscore", *qrels]
        (tmp_path / "qrels" / "test.tsv").write_text("\n".join(lines) + "\n")
        return tmp_path

    return write


def test_a_folder_is_read_with_titles_and_gains(folder):
    found = read_beir(folder(qrels=("q\ta\t2", "q\tb\t0")))
    assert found.documents[0] == "A\n\ntext of a"
    assert (found.queries, found.relevant) == (["query q"], [{0: 2.0}])


def test_queries_without_relevant_documents_are_left_out(folder):
    assert read_beir(folder(queries=("q", "none"))).queries == ["query q"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"corpus": ()}, r"corpus\.jsonl: expected one JSON object per line, got no lines"),
        ({"corpus": ("a", "a")}, "line 2: expected an id of its own, got 'a' again"),
        ({"qrels": ("q\tmissing\t1",)}, "line 2: expected a document of the set, got 'missing'"),
        ({"qrels": ("missing\ta\t1",)}, "expected a query of the set"),
        ({"qrels": ("q a 1",)}, "expected query, document and score, a number, between tabs"),
        ({"qrels": ("q\ta\tinf",)}, "expected query, document and score, a number, between tabs"),
        ({"queries": ()}, r"queries\.jsonl: expected one JSON object per line, got no lines"),
        ({"qrels": ()}, "expected queries with a relevant document, got none"),
    ],
)
def test_wrong_folders_are_one_line(folder, changes, message):
    with pytest.raises(FormatError, match=message) as fault:
        read_beir(folder(**changes))
    assert "\n" not in str(fault.value)


def test_a_missing_folder_is_one_line(tmp_path):
    with pytest.raises(FormatError, match=r"corpus\.jsonl: expected a file"):
        read_beir(tmp_path)


def test_a_line_that_is_too_long_is_refused(folder, monkeypatch):
    monkeypatch.setattr("attar.search.data._LONGEST_LINE", 50)
    place = folder()
    (place / "corpus.jsonl").write_text('{"_id": "a", "text": "' + "x" * 100 + '"}')
    with pytest.raises(FormatError, match="line 1: expected at most 50 characters"):
        read_beir(place)


@pytest.mark.parametrize("line", ["no JSON", "[1]", '{"_id": "a"}', '{"text": "a"}', "[" * 100_000])
def test_a_line_without_id_and_text_is_refused(folder, line):
    place = folder()
    (place / "corpus.jsonl").write_text(line)
    with pytest.raises(FormatError, match="line 1: expected an object with _id and text"):
        read_beir(place)


def test_passages_of_an_article_are_joined():
    found = from_passages("set", [("one", "x", ["Q1"]), ("two", "y", []), ("three", "x", ["Q2"])])
    joined = found.by_article()
    assert joined.documents == ["one\n\nthree", "two"]
    assert joined.relevant == [{0: 1.0}, {0: 1.0}]


def test_a_sample_keeps_queries_with_their_documents():
    found = from_passages("set", [(str(at), "x", [f"Q{at}"]) for at in range(20)]).sample(5)
    assert len(found.queries) == 5
    assert all(
        found.documents[row] == query[1:]
        for query, each in zip(found.queries, found.relevant, strict=True)
        for row in each
    )


def test_no_documents_and_no_queries_are_refused():
    for passages in ([], [("", "x", ["Q"])], [("text", "x", [])]):
        with pytest.raises(FormatError):
            from_passages("set", passages)
