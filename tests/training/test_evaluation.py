"""Readers on question sets: documents of one paragraph or more, what a reader says, and the rows of the table."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from attar.results import Answer
from attar.training.data import Passage, PassageQuestion
from attar.training.evaluation import evaluate_reader, group_documents

TOWNS = ("Leeds", "Dover", "Bath")


def passages() -> list[Passage]:
    """Three articles of two paragraphs, each with an answerable question; the first also with one that is not."""
    found = []
    for number, town in enumerate(TOWNS):
        text = f"Ann lives in {town}. It rained."
        where = PassageQuestion("Where does Ann live?", ((13, 13 + len(town)),))
        extra = (
            (PassageQuestion("Why did Bob leave?"), PassageQuestion("Who?", labelled=False))
            if not number
            else ()
        )
        found.append(Passage(text, town, (where, *extra)))
        found.append(
            Passage(f"Bob left {town}. He sold a boat.", town, (PassageQuestion("Who left?", ((0, 3),)),))
        )
    return found


@dataclass
class Known:
    """A memory that is the text."""

    text: str

    @property
    def nbytes(self) -> int:
        return len(self.text)


class Scripted:
    """A reader that knows where Ann lives if the text says so, and refuses all other questions."""

    second_look = None

    def read_many(self, texts: Sequence[str], **_: Any) -> list[Known]:
        return [Known(text) for text in texts]

    def answer_many(
        self, memories: Sequence[Known], questions: Sequence[str], **_: Any
    ) -> list[list[Answer]]:
        return [
            self.answer(memory.text, question) for memory, question in zip(memories, questions, strict=True)
        ]

    def answer(self, text: str, question: str) -> list[Answer]:
        if not question.startswith("Where"):
            return [Answer("", 0.75, "none"), Answer("Leeds", 0.25, "name", None, 13, 18)]
        start = text.index("lives in ") + 9 if "lives in " in text else 0
        end = text.index(".", start)
        return [Answer(text[start:end], 1.0, "name", None, start, end), Answer("", 0.0, "none")]


def test_documents_are_one_paragraph_several_or_the_article() -> None:
    assert len(group_documents(passages(), 1)) == 6
    assert len(group_documents(passages(), 8)) == 3
    (leeds, *_) = group_documents(passages(), None)
    assert leeds.text == "Ann lives in Leeds. It rained.\n\nBob left Leeds. He sold a boat."
    assert leeds.questions == ("Where does Ann live?", "Why did Bob leave?", "Who left?")
    assert leeds.golds == (("Leeds",), (), ("Bob",))


def test_a_reader_is_asked_its_own_questions_and_those_of_other_articles() -> None:
    (row,) = evaluate_reader(Scripted(), group_documents(passages(), None))  # type: ignore[arg-type]
    scores = row.scores
    assert scores.questions == 7
    assert scores.em == 0.5  # where, but not who
    assert scores.kept == 1
    assert scores.refused_other == 0.5  # "Where" is answered with another town, "Who left?" is refused
    assert scores.refused_unanswerable == 1
    # Said: three times 1.0, right; 0.75 that there is none, once right and three times wrong.
    assert scores.calibration_error == pytest.approx(0.5 * 4 / 7)
    assert row.document_bytes == pytest.approx(
        sum(len(d.text) for d in group_documents(passages(), None)) / 3
    )
    assert row.alone is not None
