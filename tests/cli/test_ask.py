"""`attar ask`: answers with probabilities, and its mistakes."""

import json
import re
from pathlib import Path

from attar.nn import Network, NetworkOptions
from attar.reader import NamesReader
from attar.text import Vocabulary


def test_ask_prints_names_and_probabilities(filled):
    code, lines, _ = filled("ask", "S", "story0", "Who left?", "--top", "3")
    assert code == 0
    assert len(lines) == 3
    assert all(re.fullmatch(r"\S.* {2,}\d+%", line) for line in lines)


def test_several_questions_and_a_file_of_them(filled):
    Path("questions").write_text("Who came?\n\n___ left .\n")
    _, (line,), _ = filled("ask", "S", "story0", "Who left?", "--questions", "questions", "--json")
    result = json.loads(line)
    assert [each["question"] for each in result["questions"]] == ["Who left?", "Who came?", "___ left ."]
    assert set(result["questions"][0]["answers"][0]) == {"text", "probability"}
    assert "___ left ." in filled("ask", "S", "story0", "--questions", "questions")[1]


def test_an_unknown_document_is_one_line_with_similar_names(filled):
    code, lines, errors = filled("ask", "S", "story7", "Who left?")
    assert (code, lines, len(errors)) == (2, [], 1)
    assert "did you mean" in errors[0]
    assert "'story0'" in errors[0]


def test_another_reader_is_refused_in_one_line(filled, texts):
    vocabulary = Vocabulary.build(texts, size=150, entities=40)
    NamesReader(Network(NetworkOptions(len(vocabulary), 40, hidden_size=6)), vocabulary).save("other")
    code, lines, (error,) = filled("ask", "S", "story0", "Who left?", "--reader", "other")
    assert (code, lines) == (2, [])
    assert "expected its reader" in error
