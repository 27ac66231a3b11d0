"""Questions to all documents are measured beside the same questions to their own document."""

import json

import pytest

from benchmarks import ask_all

TEXTS = {
    "The bridge over the Tamar was opened in 1859. Isambard Brunel designed it.": (
        "Who designed the bridge over the Tamar?",
        "Isambard Brunel",
    ),
    "The annual fee of the club is 45 euros. It is paid in January.": (
        "How much is the annual fee of the club?",
        "45 euros",
    ),
}


@pytest.mark.slow  # the default reader
def test_both_ways_are_measured_on_the_same_questions(tmp_path):
    paragraphs = [
        {
            "context": text,
            "qas": [
                {"question": question, "answers": [{"text": answer, "answer_start": text.index(answer)}]},
                {"question": "What colour is the sky?", "answers": []},
            ],
        }
        for text, (question, answer) in TEXTS.items()
    ]
    file = tmp_path / "set.json"
    file.write_text(json.dumps({"data": [{"title": "T", "paragraphs": paragraphs}]}))
    found = ask_all.run(file)
    assert (found["documents"], found["questions"]) == (2, 2)
    for way in ("document given", "all documents", "phrase vectors"):
        assert found[way]["em"] == found[way]["quote"] == 1.0
    assert found["all documents"]["document"] == 1.0
