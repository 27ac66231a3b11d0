"""The everyday documents as files of other kinds: their words come back, and their questions are answered."""

import json

import pytest

from attar.training.questions.data import read_passages
from attar.training.questions.evaluation import group_documents
from benchmarks.everyday_files import KINDS, QUESTIONS, as_file, main, recovered


@pytest.fixture(scope="module")
def documents():
    return group_documents(read_passages(QUESTIONS), 1)


@pytest.mark.parametrize("kind", KINDS)
def test_all_words_of_the_ten_documents_come_back(documents, kind, tmp_path):
    for document in documents:
        text = as_file(document, kind, tmp_path).text
        assert recovered(text, document.text) >= 0.99
        assert not {"<", ">", "{", "}"} & set(text) - set(document.text)  # no markup


@pytest.mark.slow
def test_the_command_measures_each_kind(capsys):
    main(kinds="docx", limit=2, as_json=True)
    rows = json.loads(capsys.readouterr().out)
    assert rows["docx"] == rows["txt"]  # the same text
