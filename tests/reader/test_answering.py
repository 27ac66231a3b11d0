"""Questions get the document's names, likeliest first, as the network that was trained would say."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from attar.errors import DtypeError, FormatError, OptionError, ShapeError
from attar.nn import COPY_MECHANISMS, MECHANISMS
from attar.nn.network import Questions
from attar.reader.questions import QuestionBatch
from attar.reader.texts import side_by_side
from attar.text import NameTable

ALL = (*MECHANISMS, *COPY_MECHANISMS)
ENCODERS = ("gru", "lookahead", "bidirectional", "second-order")


def shares(answers):
    """The probability of each answer, by its text."""
    return {answer.text: answer.probability for answer in answers}


def by_the_network(reader, story):
    """The probabilities of each question's candidates as training scores them: `[m, names]`, and the names."""
    table = NameTable(reader.vocabulary.entities)
    documents = side_by_side([reader.text.read(story.text, table)], len(table))
    documents.candidates.copy_(torch.arange(len(table)))
    batch = QuestionBatch.of([reader.text.read_question(asked, table) for asked, _ in story.questions])
    count, mentioned = len(batch.ids), torch.zeros(len(batch.ids), len(table), dtype=torch.bool)
    mentioned[batch.names_in(reader.vocabulary.first_entity, reader.vocabulary.entities)] = True
    ids, lengths, blanks = batch.to(torch.device("cpu"))
    none, each = torch.zeros(count, dtype=torch.int64), torch.arange(count)
    with torch.no_grad():
        scores = reader.network(documents, Questions(ids, lengths, blanks, none, each, count, mentioned))
    return torch.softmax(scores, 1).numpy(), table.names


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("mechanism", ALL)
@pytest.mark.parametrize("options", [{}, {"scale": "mean", "asked": False}], ids=["usual", "other"])
def test_answers_are_what_training_scores(make_reader, stories, mechanism, encoder, options):
    reader, story = make_reader(mechanism, encoder, **options), stories[2]
    wanted, names = by_the_network(reader, story)
    answers = reader.answer_many(reader.read(story.text), [asked for asked, _ in story.questions])
    found = np.array([[shares(each)[name] for name in names] for each in answers])
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("encoder", ENCODERS)
def test_answers_by_company_are_what_training_scores(make_company_reader, stories, encoder):
    reader, story = make_company_reader(encoder), stories[2]
    wanted, names = by_the_network(reader, story)
    answers = reader.answer_many(reader.read(story.text), [asked for asked, _ in story.questions])
    found = np.array([[shares(each)[name] for name in names] for each in answers])
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-5)


def test_company_makes_a_difference(make_company_reader, stories):
    reader, story = make_company_reader(), stories[2]
    question, memory = story.questions[0][0], reader.read(story.text)
    before = shares(reader.answer(memory, question))
    with torch.no_grad():
        reader.network.company.sharpness.add_(1.0)
    assert shares(reader.answer(memory, question)) != before


def test_a_memory_without_company_is_refused_by_a_reader_that_asks_for_it(make_company_reader, stories):
    reader = make_company_reader()
    memory = replace(reader.read(stories[0].text), company=None)
    with pytest.raises(OptionError, match="keeps its names' company, got one without; read the text again"):
        reader.answer(memory, "Who left?")


@pytest.mark.parametrize("encoder", ENCODERS)
def test_answers_of_positive_keys_are_what_training_scores(make_reader, stories, encoder):
    reader, story = make_reader("named", encoder, positive=True), stories[2]
    wanted, names = by_the_network(reader, story)
    answers = reader.answer_many(reader.read(story.text), [asked for asked, _ in story.questions])
    found = np.array([[shares(each)[name] for name in names] for each in answers])
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("mechanism", ALL)
def test_probabilities_fall_and_sum_to_one(make_reader, stories, mechanism):
    reader = make_reader(mechanism)
    shares = [a.probability for a in reader.answer(reader.read(stories[0].text), stories[0].questions[0][0])]
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("mechanism", ALL)
def test_answer_many_equals_answer(make_reader, stories, mechanism):
    reader = make_reader(mechanism)
    memories = reader.read_many([story.text for story in stories])
    memories[1:1] = [reader.read("Nobody is here."), memories[0].astype("float16"), memories[0]]
    questions = [stories[at % 3].questions[0][0] for at in range(len(memories))]
    many = reader.answer_many(memories, questions)
    for found, memory, question in zip(many, memories, questions, strict=True):
        assert shares(found) == pytest.approx(shares(reader.answer(memory, question)), abs=1e-5)


def test_more_questions_than_are_answered_at_once_keep_their_order(make_reader, stories, monkeypatch):
    reader = make_reader("gated")
    memory, questions = reader.read(stories[0].text), [asked for asked, _ in stories[0].questions]
    whole = reader.answer_many(memory, questions)
    monkeypatch.setattr("attar.reader.reader.QUESTIONS_AT_ONCE", 2)
    for found, once in zip(reader.answer_many(memory, questions), whole, strict=True):
        assert shares(found) == pytest.approx(shares(once), abs=1e-5)


def test_one_question_is_put_to_many_memories(reader, stories):
    memories = reader.read_many([story.text for story in stories[:3]])
    many = reader.answer_many(memories, "Who left?")
    assert [{a.text for a in each} for each in many] == [set(memory.names.names) for memory in memories]


def test_one_question_of_one_memory_may_be_asked_as_many(reader):
    memory = reader.read("Then Ann met Bob.")
    assert reader.answer_many(memory, "Who left?") == [reader.answer(memory, "Who left?")]


def test_top_gives_the_best_few(reader, stories):
    memory, question = reader.read(stories[0].text), stories[0].questions[0][0]
    assert reader.answer(memory, question, top=2) == reader.answer(memory, question)[:2]
    assert reader.answer(memory, question, top=1_000) == reader.answer(memory, question)


def test_names_in_the_question_are_moved_by_what_was_learnt(make_reader):
    reader = make_reader("named")
    memory = reader.read("Then Ann met Bob. Then Zoe left.")
    with torch.no_grad():
        reader.network.asked.bonus.fill_(-50.0)
    assert shares(reader.answer(memory, "___ met Ann."))["Ann"] < 1e-6


def test_names_of_texts_read_before_are_no_candidates(reader):
    _, second = reader.read_many(["Then Ann met Bob.", "Then Zoe met Bob."], together=True)
    answers = reader.answer(second, "Who left?")
    assert {answer.text for answer in answers} == {"Bob", "Zoe"}
    assert sum(answer.probability for answer in answers) == pytest.approx(1, abs=1e-5)


def test_more_names_than_the_vocabulary_has_ids_for_are_still_read(make_reader):
    table = NameTable.of(*(f"Ann{number} Lee" for number in range(60)))
    for mechanism in ("named", "gated", "keyed"):
        reader = make_reader(mechanism)
        answers = reader.answer(reader.read("Then Ann59 Lee met Bob.", names=table.copy()), "Who left?")
        assert sum(answer.probability for answer in answers) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("mechanism", ALL)
def test_a_text_without_names_has_no_candidates(make_reader, mechanism):
    reader = make_reader(mechanism)
    assert reader.answer(reader.read("it was cold and nobody came."), "Who came?") == []


@pytest.mark.parametrize("question", ["___ met Bob.", "@placeholder met Bob .", "Who met Bob?"])
def test_a_question_may_be_asked_in_three_ways(reader, question):
    memory = reader.read("Then Ann met Bob.")
    assert reader.answer(memory, question) == reader.answer(memory, "___ met Bob .")


def test_a_question_without_a_blank_says_how_to_ask(reader):
    with pytest.raises(FormatError, match="Who married Elizabeth"):
        reader.answer(reader.read("Then Ann met Bob."), "Ann met Bob.")


def test_another_readers_memory_is_refused_by_name(make_reader):
    one, other = make_reader("named"), make_reader("named", size=8)
    with pytest.raises(OptionError, match=f"{one.fingerprint[:12]}.*{other.fingerprint[:12]}"):
        one.answer(other.read("Then Ann met Bob."), "Who left?")
    with pytest.raises(OptionError, match="read the text with this reader"):
        one.extend(other.read("Then Ann met Bob."), "Then Bob left.")


def test_a_question_that_is_no_text_is_refused(reader):
    with pytest.raises(DtypeError, match="question: expected a string, got int"):
        reader.answer_many([reader.read("Ann left.")], [7])


def test_questions_that_do_not_pair_with_the_memories_are_refused(reader):
    with pytest.raises(ShapeError, match="one for each of 2 memories, got 1"):
        reader.answer_many([reader.read("Ann left.")] * 2, ["Who left?"])


@pytest.mark.parametrize("memory", ["a text", None, 3])
def test_what_is_no_memory_is_refused(reader, memory):
    for ask in (lambda: reader.answer(memory, "Who met Bob?"), lambda: reader.extend(memory, "Ann left.")):
        with pytest.raises(
            DtypeError, match=r"memory: expected an attar.Memory, got \w+; read the text first"
        ):
            ask()


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize("top", [1.5, "2", True, 0])
def test_the_best_half_is_refused(reader, top):
    with pytest.raises(OptionError, match="top: expected a whole number from 1 up"):
        reader.answer(reader.read("Ann met Bob."), "Who met Bob?", top=top)


@pytest.mark.parametrize("mark", ["@entity0", "@entity7", "@entity599", "@entity99999999999"])
def test_a_mark_of_a_sets_own_files_is_a_word_like_any_other(reader, mark):
    memory = reader.read("Ann met Bob.")
    asked, plain = (reader.answer(memory, f"{word} met ___ .") for word in (mark, "zzz"))
    assert asked == plain


def test_the_best_of_none_is_refused(reader):
    with pytest.raises(OptionError, match="top"):
        reader.answer(reader.read("Ann left."), "Who left?", top=0)


def test_no_questions_no_answers(reader):
    assert reader.answer_many([], []) == []
