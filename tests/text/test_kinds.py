"""The kind of an answer, by its words and those around it, and questions that want yes or no."""

import zlib
from pathlib import Path
from typing import NamedTuple

import pytest

from attar.text.kinds import coarse_kind, is_yes_no, kind_of

KINDS = {"person", "place", "organization", "name", "date", "time", "money", "number", "phrase"}


class Labelled(NamedTuple):
    kind: str
    before: str
    phrase: str
    after: str
    held_out: bool  # no rule was written for it


def labelled() -> list[Labelled]:
    """Answers to questions of SQuAD's dev set, of the everyday documents, and others, labelled by hand."""
    found = []
    for line in (Path(__file__).parent / "kinds.txt").read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            kind, sentence = line.split("\t")
            before, _, rest = sentence.partition("[")
            phrase, _, after = rest.partition("]")
            found.append(Labelled(kind, before, phrase, after, zlib.crc32(sentence.encode()) % 2 == 1))
    return found


@pytest.mark.parametrize(("held_out", "least"), [(False, 0.9), (True, 0.84)], ids=["seen", "held out"])
def test_most_kinds_are_right(held_out, least):
    rows = [row for row in labelled() if row.held_out == held_out]
    assert len(rows) >= 100
    assert {row.kind for row in rows} == KINDS
    right = [kind_of(row.phrase, row.before, row.after) == row.kind for row in rows]
    assert sum(right) >= least * len(rows)


@pytest.mark.parametrize(
    ("before", "phrase", "after", "kind"),
    [
        ("", "the old one broke in January", "", "phrase"),
        ("", "Apollo 11", "", "name"),
        ("It says ", "Hello", " to all.", "phrase"),
        ("", "Captain Marlow", " keeps the keys", "person"),
        ("We live in ", "Victoria", ".", "place"),
        ("thanks to ", "Victoria", " who came", "person"),
        ("at ", "12 Quarry Lane", "", "place"),
        ("She works for ", "Hartley", ".", "organization"),
        ("am ", "4. März 2025", " im", "date"),
        ("", "half past ten o'clock", "", "time"),
        ("", "nineteen hours", "", "number"),
        ("", "3D printing", "", "phrase"),
        ("", "may", "", "phrase"),
        ("", "", "", "phrase"),
        ("", "🙂", "", "phrase"),
        ("", "\ud800", "", "phrase"),
    ],
)
def test_the_kind_of_a_phrase(before, phrase, after, kind):
    assert kind_of(phrase, before, after) == kind


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Is smoking allowed?", True),
        ("Hi, is smoking allowed?", True),
        ("Do you know if smoking is allowed?", True),
        ("Please tell me whether smoking is allowed.", True),
        ("Could you tell me where smoking is allowed?", False),
        ("Can you show me the rent?", False),
        ("Is it red or blue?", False),
        ("If it rains, the fair is held in ___", False),
        ("If a key is lost, the fee is?", False),
    ],
)
def test_a_question_wants_yes_or_no_whatever_is_said_before_it(question, expected):
    assert is_yes_no(question) is expected


@pytest.mark.parametrize(
    ("phrase", "kind"),
    [
        ("the Bank of England", "name"),
        ("half past ten o'clock", "number"),
        ("nineteen hours", "number"),
        ("the canteen", "phrase"),
        ("may", "phrase"),
        ("", "phrase"),
        ("🙂", "phrase"),
    ],
)
def test_the_kind_of_a_phrase_that_calibrations_were_fitted_with(phrase, kind):
    assert coarse_kind(phrase) == kind
