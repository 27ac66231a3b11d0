"""Answers are the names of the document, most likely first, with the probabilities of the trained network."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from attar.errors import DtypeError, FormatError, OptionError, ShapeError
from attar.nn.mechanisms import COPY_MECHANISMS, MECHANISMS
from attar.nn.network import Questions
from attar.reader.batches import pad_texts
from attar.reader.encoding import QuestionBatch
from attar.text.name_table import NameTable

pytestmark = pytest.mark.slow

ALL = (*MECHANISMS, *COPY_MECHANISMS)
ENCODERS = ("gru", "lookahead", "bidirectional", "second-order", "transformer")


def shares(answers):
    """The probability of each answer, by its text."""
    return {answer.text: answer.probability for answer in answers}


def by_the_network(reader, story):
    """The probabilities of the candidates per question, `[m, names]`, as in training, and the names."""
    table = NameTable(reader.vocabulary.entities)
    documents = pad_texts([reader._text_reader.read(story.text, table)], len(table))
    documents.candidates.copy_(torch.arange(len(table)))
    batch = QuestionBatch.of(
        [reader._text_reader.read_question(asked, table) for asked, _ in story.questions]
    )
    count = len(batch.ids)
    mentioned = torch.from_numpy(batch.mentions(reader.vocabulary.first_entity, len(table)))
    ids, lengths, blanks = batch.to(torch.device("cpu"))
    none, each = torch.zeros(count, dtype=torch.int64), torch.arange(count)
    with torch.no_grad():
        scores = reader.network(documents, Questions(ids, lengths, blanks, none, each, count, mentioned))
    return torch.softmax(scores, 1).numpy(), table.names


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("mechanism", ALL)
@pytest.mark.parametrize("options", [{}, {"scale": "mean", "asked": False}], ids=["usual", "other"])
def test_answers_have_the_probabilities_of_training(make_reader, stories, mechanism, encoder, options):
    reader, story = make_reader(mechanism, encoder, **options), stories[2]
    expected, names = by_the_network(reader, story)
    answers = reader.answer_many(reader.read(story.text), [asked for asked, _ in story.questions])
    found = np.array([[shares(each)[name] for name in names] for each in answers])
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("encoder", ENCODERS)
def test_answers_with_cooccurrence_have_the_probabilities_of_training(
    make_cooccurrence_reader, stories, encoder
):
    reader, story = make_cooccurrence_reader(encoder), stories[2]
    expected, names = by_the_network(reader, story)
    answers = reader.answer_many(reader.read(story.text), [asked for asked, _ in story.questions])
    found = np.array([[shares(each)[name] for name in names] for each in answers])
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-5)


def test_cooccurrence_changes_the_answers(make_cooccurrence_reader, stories):
    reader, story = make_cooccurrence_reader(), stories[2]
    question, memory = story.questions[0][0], reader.read(story.text)
    before = shares(reader.answer(memory, question))
    with torch.no_grad():
        reader.network.cooccurrence.sharpness.add_(1.0)
    assert shares(reader.answer(memory, question)) != before


def test_a_memory_without_cooccurrence_is_refused_by_a_reader_that_needs_it(
    make_cooccurrence_reader, stories
):
    reader = make_cooccurrence_reader()
    memory = replace(reader.read(stories[0].text), cooccurrence=None)
    with pytest.raises(
        OptionError, match="one with co-occurrence counts, got one without; read the text again"
    ):
        reader.answer(memory, "Who left?")


@pytest.mark.parametrize("encoder", ENCODERS)
def test_answers_with_positive_keys_have_the_probabilities_of_training(make_reader, stories, encoder):
    reader, story = make_reader("named", encoder, positive=True), stories[2]
    expected, names = by_the_network(reader, story)
    answers = reader.answer_many(reader.read(story.text), [asked for asked, _ in story.questions])
    found = np.array([[shares(each)[name] for name in names] for each in answers])
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("mechanism", ALL)
def test_probabilities_descend_and_sum_to_one(make_reader, stories, mechanism):
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


def test_more_questions_than_a_batch_keep_their_order(make_reader, stories, monkeypatch):
    reader = make_reader("gated")
    memory, questions = reader.read(stories[0].text), [asked for asked, _ in stories[0].questions]
    whole = reader.answer_many(memory, questions)
    monkeypatch.setattr("attar.reader.names.QUESTIONS_PER_BATCH", 2)
    for found, once in zip(reader.answer_many(memory, questions), whole, strict=True):
        assert shares(found) == pytest.approx(shares(once), abs=1e-5)


def test_one_question_is_asked_of_many_memories(reader, stories):
    memories = reader.read_many([story.text for story in stories[:3]])
    many = reader.answer_many(memories, "Who left?")
    assert [{a.text for a in each} for each in many] == [set(memory.names.names) for memory in memories]


def test_answer_many_takes_one_memory_and_one_question(reader):
    memory = reader.read("Then Ann met Bob.")
    assert reader.answer_many(memory, "Who left?") == [reader.answer(memory, "Who left?")]


def test_top_limits_the_answers(reader, stories):
    memory, question = reader.read(stories[0].text), stories[0].questions[0][0]
    assert reader.answer(memory, question, top=2) == reader.answer(memory, question)[:2]
    assert reader.answer(memory, question, top=1_000) == reader.answer(memory, question)


def test_the_learned_bonus_applies_to_names_in_the_question(make_reader):
    reader = make_reader("named")
    memory = reader.read("Then Ann met Bob. Then Zoe left.")
    with torch.no_grad():
        reader.network.asked.bonus.fill_(-50.0)
    assert shares(reader.answer(memory, "___ met Ann."))["Ann"] < 1e-6


def test_names_of_other_texts_in_a_shared_table_are_no_candidates(reader):
    _, second = reader.read_many(["Then Ann met Bob.", "Then Zoe met Bob."], shared_names=True)
    answers = reader.answer(second, "Who left?")
    assert {answer.text for answer in answers} == {"Bob", "Zoe"}
    assert sum(answer.probability for answer in answers) == pytest.approx(1, abs=1e-5)


def test_a_table_may_have_more_names_than_the_vocabulary_has_ids(make_reader):
    table = NameTable.of(*(f"Ann{number} Lee" for number in range(60)))
    for mechanism in ("named", "gated", "keyed"):
        reader = make_reader(mechanism)
        answers = reader.answer(reader.read("Then Ann59 Lee met Bob.", names=table.copy()), "Who left?")
        assert sum(answer.probability for answer in answers) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("mechanism", ALL)
def test_a_text_without_names_has_no_answers(make_reader, mechanism):
    reader = make_reader(mechanism)
    assert reader.answer(reader.read("it was cold and nobody came."), "Who came?") == []


@pytest.mark.parametrize("question", ["___ met Bob.", "@placeholder met Bob .", "Who met Bob?"])
def test_a_question_may_have_a_blank_a_placeholder_or_a_question_word(reader, question):
    memory = reader.read("Then Ann met Bob.")
    assert reader.answer(memory, question) == reader.answer(memory, "___ met Bob .")


def test_a_question_without_a_blank_is_refused_with_an_example(reader):
    with pytest.raises(FormatError, match="Who married Elizabeth"):
        reader.answer(reader.read("Then Ann met Bob."), "Ann met Bob.")


def test_the_memory_of_another_reader_is_refused(make_reader):
    one, other = make_reader("named"), make_reader("named", size=8)
    with pytest.raises(OptionError, match=f"{one.fingerprint[:12]}.*{other.fingerprint[:12]}"):
        one.answer(other.read("Then Ann met Bob."), "Who left?")
    with pytest.raises(OptionError, match="read the text with this reader"):
        one.extend(other.read("Then Ann met Bob."), "Then Bob left.")


def test_a_question_that_is_not_a_string_is_refused(reader):
    with pytest.raises(DtypeError, match="question: expected a string, got int"):
        reader.answer_many([reader.read("Ann left.")], [7])


def test_questions_and_memories_of_different_number_are_refused(reader):
    with pytest.raises(ShapeError, match="one for each of 2 memories, got 1"):
        reader.answer_many([reader.read("Ann left.")] * 2, ["Who left?"])


@pytest.mark.parametrize("memory", ["a text", None, 3])
def test_other_objects_than_memories_are_refused(reader, memory):
    for ask in (lambda: reader.answer(memory, "Who met Bob?"), lambda: reader.extend(memory, "Ann left.")):
        with pytest.raises(
            DtypeError, match=r"memory: expected an attar.Memory, got \w+; read the text first"
        ):
            ask()


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize("top", [1.5, "2", True, 0])
def test_top_must_be_a_positive_integer(reader, top):
    with pytest.raises(OptionError, match="top: expected an integer of at least 1"):
        reader.answer(reader.read("Ann met Bob."), "Who met Bob?", top=top)


@pytest.mark.parametrize("mark", ["@entity0", "@entity7", "@entity599", "@entity99999999999"])
def test_entity_marks_of_cloze_files_are_plain_words(reader, mark):
    memory = reader.read("Ann met Bob.")
    asked, plain = (reader.answer(memory, f"{word} met ___ .") for word in (mark, "zzz"))
    assert asked == plain


def test_no_questions_give_no_answers(reader):
    assert reader.answer_many([], []) == []


TEXT, QUESTION = "Then Ann Lee met Bob in the valley. Ann left.", "Who met Bob?"
TOKENS = ["Then", "Ann Lee", "met", "Bob", "in", "the", "valley", ".", "Ann", "left", "."]


def query_of(reader, memory):
    """The query `[1, k]` of the question."""
    with torch.inference_mode():
        batch = QuestionBatch.of([reader._text_reader.read_question(QUESTION, memory.names)])
        return reader._encoder.queries(batch).numpy()


@pytest.mark.parametrize("mechanism", ALL)
def test_an_explanation_has_a_weight_per_token_and_a_name_is_one_token(make_reader, mechanism):
    explanation = make_reader(mechanism).explain(TEXT, QUESTION)
    assert explanation.tokens == TOKENS
    assert len(explanation.weights) == len(TOKENS)


@pytest.mark.parametrize("mechanism", ALL)
def test_an_explanation_has_the_answers_of_the_reader(make_reader, mechanism):
    reader = make_reader(mechanism)
    assert reader.explain(TEXT, QUESTION).answers == reader.answer(reader.read(TEXT), QUESTION)


def test_the_token_weights_of_softmax_sum_to_one_and_give_the_readout(make_reader):
    reader = make_reader("softmax")
    weights, memory = np.array(reader.explain(TEXT, QUESTION).weights), reader.read(TEXT)
    assert weights.sum() == pytest.approx(1, abs=1e-5)
    np.testing.assert_allclose(
        weights @ memory.numbers, memory.lookup(query_of(reader, memory))[0], rtol=1e-3
    )


@pytest.mark.parametrize("mechanism", ["linear", "gated"])
def test_token_weights_times_the_states_are_the_readout(make_reader, mechanism):
    reader = make_reader(mechanism, size=40)
    weights, memory = np.array(reader.explain(TEXT, QUESTION).weights), reader.read(TEXT)
    assert memory.form == "states"
    readout = memory.lookup(query_of(reader, memory))[0]
    np.testing.assert_allclose(weights @ memory.numbers, readout, rtol=1e-3, atol=1e-5)


def test_the_token_weights_of_keyed_times_the_embeddings_are_the_readout(make_reader):
    reader = make_reader("keyed")
    weights, memory = np.array(reader.explain(TEXT, QUESTION).weights), reader.read(TEXT)
    ids = torch.from_numpy(reader._text_reader.read(TEXT, memory.names.copy()).ids)
    values = reader.network.embedding(ids).detach().numpy()
    readout = memory.lookup(query_of(reader, memory))[0]
    np.testing.assert_allclose(weights @ values, readout, rtol=1e-3, atol=1e-5)


def test_the_token_weights_of_a_name_sum_to_its_score_and_others_are_zero(make_reader):
    reader = make_reader("named")
    weights, memory = reader.explain(TEXT, QUESTION).weights, reader.read(TEXT)
    ann, bob = memory.lookup(query_of(reader, memory))[0]
    assert weights[1] + weights[8] == pytest.approx(float(ann), rel=1e-3)
    assert weights[3] == pytest.approx(float(bob), rel=1e-3)
    assert [weight for at, weight in enumerate(weights) if at not in (1, 3, 8)] == [0.0] * 8


def test_the_explanation_of_an_empty_text_is_empty(reader):
    explanation = reader.explain("", QUESTION)
    assert (explanation.tokens, explanation.weights, explanation.answers) == ([], [], [])
