"""What a second look is trained on further: the sentences that a reader finds, with the answers that stand in them."""

import numpy as np
import pytest
from tokenizers import Tokenizer

from attar.reader.reader import Reader
from attar.training.data import Passage, PassageQuestion
from attar.training.found import FoundBatches, FoundRow, found_rows, from_arrays, known_questions, to_arrays

LETTER = "Dear Tom,\n\nAnn moved to Leeds in May. The boiler is old. Her brother Paul stayed in Hull.\n"
READER = Reader.load()
NOTE = "Ann has a cat. Paul is her brother. They meet on Sundays."


def asked(text: str, question: str, answer: str = "") -> PassageQuestion:
    at = text.index(answer)
    return PassageQuestion(question, ((at, at + len(answer)),) if answer else ())


@pytest.fixture(scope="module")
def rows() -> list[FoundRow]:
    questions = (asked(LETTER, "Where did Ann move?", "Leeds"), asked(LETTER, "What does the boiler cost?"))
    folder = [Passage(LETTER, "folder", questions, name="letters/May.txt")]
    folder += [Passage(NOTE, "folder") for _ in range(3)]
    return [row for seed in range(8) for row in found_rows(READER, folder, seed=seed)]


def words(ids: np.ndarray) -> str:
    return Tokenizer.from_buffer(READER.parts.tokenizer.data).decode(ids.tolist())


def test_answers_are_marked_where_they_stand_among_the_sentences(rows: list[FoundRow]) -> None:
    answered = [row for row in rows if len(row.spans)]
    assert 8 < len(answered) < 8 * 2  # each with three sentences, and about half of them with one
    for row in answered:
        ((first, last),) = row.spans.tolist()
        assert words(row.text[first : last + 1]) == "leeds"
        assert row.inside[first : last + 1].all()


def test_names_are_read_but_do_not_answer(rows: list[FoundRow]) -> None:
    named = [row for row in rows if words(row.text).startswith("may")]
    assert 0 < len(named) < len(rows)
    assert not any(row.inside[0] for row in named)


def test_other_documents_of_the_folder_do_not_answer(rows: list[FoundRow]) -> None:
    assert any("cat" in words(row.text) for row in rows if not len(row.spans))


def test_questions_whose_passage_answers_none_are_left_out() -> None:
    absent = (asked(NOTE, "Who sold the cat?"),)
    assert not known_questions(Passage(NOTE, "folder", absent))
    assert not known_questions(Passage(NOTE, "folder", (PassageQuestion("Who?", labelled=False),)))


def test_rows_are_the_same_after_a_file(rows: list[FoundRow]) -> None:
    for before, after in zip(rows, from_arrays(to_arrays(rows)), strict=True):
        for one, other in zip(before, after, strict=True):
            np.testing.assert_array_equal(one, other)


def test_a_batch_says_which_pieces_may_answer(rows: list[FoundRow]) -> None:
    batches = FoundBatches(rows, tokens=400, epochs=1, seed=0)
    assert sorted(at for step in batches.steps for at in step) == list(range(len(rows)))
    for step, numbers in enumerate(batches.steps):
        batch = batches[step]
        assert int(batch["inside"].sum()) == sum(int(rows[at].inside.sum()) for at in numbers)
        answers = batch["spans"][batch["spans"][..., 0] >= 0]
        assert (answers[:, 0] <= answers[:, 1]).all()
