"""Cases from a SQuAD file: selected by the rule, asked and counted."""

import json
import lzma

import pytest

pytestmark = pytest.mark.slow


def article(title, context, *asked):
    qas = [
        {"question": question, "answers": [{"text": answer}] if answer else [], "is_impossible": not answer}
        for question, answer in asked
    ]
    return {"title": title, "paragraphs": [{"context": context, "qas": qas}]}


LETTERS = "Bob Hale wrote to Ann in May. He asked her to come to Bath. Ann lives in Dover."
DATA = [
    article("No_names", "It rained all day.", ("What fell?", "rain")),
    article(
        "Letters",
        LETTERS,
        ("When did he write?", "Bath"),
        ("Who slept?", None),
        ("What did he ask?", "to come"),
        ("Who wrote to Ann?", "Bob Hale"),
        ("Where does Ann live?", "Dover"),
    ),
    article("More", LETTERS, ("Where does Ann live?", "Bath")),
]


def test_the_first_question_whose_answer_is_a_name_is_asked_of_each_article(run_example, tables_in, tmp_path):
    squad = tmp_path / "cases.json"
    squad.write_text(json.dumps({"data": DATA}))
    printed = run_example("squad_cases.py", squad)
    (rows,) = tables_in(printed)
    assert [row[0] for row in rows] == ["Letters", "More"]
    assert rows[0][3:5] == ["Who wrote to Ann?", "Bob Hale"]
    assert rows[0][5].startswith("Bob Hale (")
    verdicts = [row[6] for row in rows]
    assert verdicts[0] == "right"
    assert f"{verdicts.count('right')} of 2 right" in printed


def test_count_limits_the_cases_and_a_file_may_be_packed(run_example, tables_in, tmp_path):
    squad = tmp_path / "cases.json.xz"
    squad.write_bytes(lzma.compress(json.dumps({"data": DATA}).encode()))
    (rows,) = tables_in(run_example("squad_cases.py", squad, "--count", 1))
    assert [row[0] for row in rows] == ["Letters"]
