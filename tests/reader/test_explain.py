"""An explanation's weights are those with which the answer was found."""

import numpy as np
import pytest
import torch

from attar.reader.questions import QuestionBatch

TEXT, QUESTION = "Then Ann Lee met Bob in the valley. Ann left.", "Who met Bob?"
TOKENS = ["Then", "Ann Lee", "met", "Bob", "in", "the", "valley", ".", "Ann Lee", "left", "."]
ALL = ("none", "softmax", "linear", "gated", "decayed", "adaptive", "keyed", "named")


def query_of(reader, memory):
    with torch.inference_mode():
        batch = QuestionBatch.of([reader.text.read_question(QUESTION, memory.names)])
        return reader.questions.encode(batch).numpy()


@pytest.mark.parametrize("mechanism", ALL)
def test_every_token_has_a_weight_and_a_name_is_one(make_reader, mechanism):
    explanation = make_reader(mechanism).explain(TEXT, QUESTION)
    assert explanation.tokens == TOKENS
    assert len(explanation.weights) == len(TOKENS)


@pytest.mark.parametrize("mechanism", ALL)
def test_its_answers_are_the_readers(make_reader, mechanism):
    reader = make_reader(mechanism)
    assert reader.explain(TEXT, QUESTION).answers == reader.answer(reader.read(TEXT), QUESTION)


def test_softmaxs_weights_sum_to_one_and_average_the_states(make_reader):
    reader = make_reader("softmax")
    weights, memory = np.array(reader.explain(TEXT, QUESTION).weights), reader.read(TEXT)
    assert weights.sum() == pytest.approx(1, abs=1e-5)
    np.testing.assert_allclose(
        weights @ memory.numbers, memory.lookup(query_of(reader, memory))[0], rtol=1e-3
    )


@pytest.mark.parametrize("mechanism", ["linear", "gated"])
def test_weights_times_what_was_written_is_the_readout(make_reader, mechanism):
    reader = make_reader(mechanism, size=40)
    weights, memory = np.array(reader.explain(TEXT, QUESTION).weights), reader.read(TEXT)
    assert memory.form == "states"
    readout = memory.lookup(query_of(reader, memory))[0]
    np.testing.assert_allclose(weights @ memory.numbers, readout, rtol=1e-3, atol=1e-5)


def test_keyeds_weights_times_the_embeddings_is_the_readout(make_reader):
    reader = make_reader("keyed")
    weights, memory = np.array(reader.explain(TEXT, QUESTION).weights), reader.read(TEXT)
    ids = torch.from_numpy(reader.text.read(TEXT, memory.names.copy()).ids)
    values = reader.network.embedding(ids).detach().numpy()
    readout = memory.lookup(query_of(reader, memory))[0]
    np.testing.assert_allclose(weights @ values, readout, rtol=1e-3, atol=1e-5)


def test_a_names_weights_sum_to_its_score_and_others_are_zero(make_reader):
    reader = make_reader("named")
    weights, memory = reader.explain(TEXT, QUESTION).weights, reader.read(TEXT)
    ann, bob = memory.lookup(query_of(reader, memory))[0]
    assert weights[1] + weights[8] == pytest.approx(float(ann), rel=1e-3)
    assert weights[3] == pytest.approx(float(bob), rel=1e-3)
    assert [weight for at, weight in enumerate(weights) if at not in (1, 3, 8)] == [0.0] * 8


def test_nothing_is_explained_of_an_empty_text(reader):
    explanation = reader.explain("", QUESTION)
    assert (explanation.tokens, explanation.weights, explanation.answers) == ([], [], [])
