"""Accuracy with an interval over documents, per source, compared with counting names."""

from pathlib import Path

import numpy as np
import pytest
import torch

from attar.paper.batches import ClozeBatches
from attar.paper.network import Network
from attar.paper.options import NetworkOptions
from attar.paper.sets import ClozeSet, EncodedSplit
from attar.paper.train import BASELINES, NETWORK, WHOLE, evaluate

from .cloze_documents import most_frequent_name

pytestmark = pytest.mark.usefixtures("unchecked_shapes")
FREQUENT, UNASKED = BASELINES


@pytest.fixture(scope="module")
def stories(stories_set: Path) -> EncodedSplit:
    found = ClozeSet.open(stories_set)
    return found.encoded("validation", found.vocabulary())


@pytest.fixture(scope="module")
def network(stories_set: Path) -> Network:
    torch.manual_seed(3)
    words = ClozeSet.open(stories_set).vocabulary()
    options = NetworkOptions(mechanism="keyed", hidden_size=8, embedding_size=8)
    return Network(options, len(words), words.entities)


def test_accuracy_is_the_share_of_questions_whose_best_candidate_is_the_answer(network, stories) -> None:
    right = []
    with torch.no_grad():
        for batch in ClozeBatches(stories, size=1):
            scores = network.eval()(batch.documents, batch.questions)
            right += (scores.argmax(1) == batch.answers).tolist()
    found = evaluate(network, stories, batch_size=5)[WHOLE][NETWORK]
    assert found.accuracy == pytest.approx(np.mean(right))
    assert found.low <= found.accuracy <= found.high
    assert (found.questions, found.documents) == (len(right), len(stories))


def test_baselines_equal_counting_tokens(network, stories, stories_set: Path) -> None:
    asked = [
        (document, question, answer)
        for document in ClozeSet.open(stories_set).documents("validation")
        for question, answer in zip(document.questions, document.answers, strict=True)
    ]
    found = evaluate(network, stories, batch_size=5)[WHOLE]
    frequent = np.mean([most_frequent_name(document) == answer for document, _, answer in asked])
    unasked = np.mean([most_frequent_name(d, question.split()) == answer for d, question, answer in asked])
    assert found[FREQUENT].accuracy == pytest.approx(frequent)
    assert found[UNASKED].accuracy == pytest.approx(unasked)
