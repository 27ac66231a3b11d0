"""A score is a share with an interval over documents, by source, beside what counting names would give."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from attar.cloze import ClozeDocument, ClozeSet, EncodedSplit, Question, encode_split, most_frequent_name
from attar.errors import FormatError
from attar.nn.network import Network
from attar.text.vocabulary import Vocabulary
from attar.training.batches import ClozeBatches
from attar.training.data import open_splits
from attar.training.evaluate import BASELINES, NO_GUESS, count_answers, evaluate, score
from attar.training.options import TrainingOptions, network_options
from attar.training.words import vocabulary_of

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

FREQUENT, BESIDES = BASELINES


@pytest.fixture(scope="module")
def vocabulary(stories_set: Path) -> Vocabulary:
    return vocabulary_of([stories_set])


@pytest.fixture(scope="module")
def stories(stories_set: Path, vocabulary: Vocabulary) -> EncodedSplit:
    return open_splits([stories_set], "validation", vocabulary)


@pytest.fixture(scope="module")
def network(vocabulary: Vocabulary) -> Network:
    torch.manual_seed(3)
    options = TrainingOptions(("set",), "out", mechanism="named", encoder="lookahead", size=8, embedding=8)
    return Network(network_options(options, vocabulary))


class TestReader:
    def test_is_right_where_its_best_candidate_is_the_answer(
        self, network: Network, vocabulary: Vocabulary, stories: EncodedSplit
    ) -> None:
        found = evaluate(network, vocabulary, stories, batch=len(stories))
        (batch,) = ClozeBatches(stories, vocabulary, size=len(stories))
        with torch.inference_mode():
            right = network(batch.documents, batch.questions).argmax(1) == batch.answers
        assert found.whole.accuracy == pytest.approx(right.float().mean().item())
        assert found.whole.questions == len(stories.answers)
        assert found.whole.documents == len(stories)

    def test_scores_alike_in_batches_of_any_size(
        self, network: Network, vocabulary: Vocabulary, stories: EncodedSplit
    ) -> None:
        assert evaluate(network, vocabulary, stories, batch=5) == evaluate(network, vocabulary, stories)

    def test_drops_nothing_out(self, network: Network, vocabulary: Vocabulary, stories: EncodedSplit) -> None:
        careless = Network(replace(network.options, dropout=0.9))
        careless.load_state_dict(network.state_dict())
        assert evaluate(careless.train(), vocabulary, stories) == evaluate(network, vocabulary, stories)

    def test_is_not_scored_where_nothing_is_asked(
        self, network: Network, vocabulary: Vocabulary, stories_set: Path
    ) -> None:
        training = open_splits([stories_set], "training", vocabulary)
        with pytest.raises(
            FormatError, match="expected questions to ask, got documents without any; evaluate"
        ):
            evaluate(network, vocabulary, training)

    def test_tells_how_far_it_is(
        self, network: Network, vocabulary: Vocabulary, stories: EncodedSplit
    ) -> None:
        told: list[tuple[str, int, int]] = []
        evaluate(network, vocabulary, stories, batch=5, progress=lambda *step: told.append(step))
        assert told == [("asking", 0, 3), ("asking", 1, 3), ("asking", 2, 3)]


class TestQuestionsWithoutAnAnswer:
    """An answer that the document does not hold, documents without a name, and questions that hold them all."""

    MET, BY_OTHERS = ["@entity1", "met", "@entity3"], ("@placeholder", "met", "@entity3")

    @pytest.mark.parametrize(
        ("sentence", "tokens", "answer"),
        [
            (MET, BY_OTHERS, 0),
            (["it", "rained"], BY_OTHERS, 0),
            (["it", "rained"], ("@placeholder", "rained"), 0),
        ],
        ids=["answer elsewhere", "no name", "no name in the question either"],
    )
    def test_are_wrong_whoever_answers(
        self, network: Network, vocabulary: Vocabulary, sentence: list[str], tokens: tuple[str], answer: int
    ) -> None:
        document = ClozeDocument("", "", [sentence], {}, [Question(tokens, answer)])
        found = evaluate(network, vocabulary, encode_split([document], vocabulary))
        whole = [found.whole, *found.baselines.values()]
        assert [(each.accuracy, each.questions) for each in whole] == [(0.0, 1)] * 3
        assert list(next(iter(found.mentions.values()))) == ["never"]

    def test_that_hold_every_name_leave_no_other(self, vocabulary: Vocabulary) -> None:
        document = ClozeDocument(
            "", "", [self.MET], {}, [Question(("@entity1", "@placeholder", "@entity3"), 1)]
        )
        (batch,) = ClozeBatches(encode_split([document], vocabulary), vocabulary, size=1)
        frequent, besides = count_answers(batch)
        assert (frequent.tolist(), besides.tolist()) == ([0], [NO_GUESS])


class TestSources:
    @pytest.fixture
    def both(self, stories: EncodedSplit) -> EncodedSplit:
        """The same stories, every third of which comes from elsewhere."""
        source_of = (np.arange(len(stories)) % 3 == 0).astype(np.int32)
        return replace(stories, source_of=source_of, sources=("news", "novels", "letters"))

    def test_are_scored_apart(self, network: Network, vocabulary: Vocabulary, both: EncodedSplit) -> None:
        found = evaluate(network, vocabulary, both)
        assert list(found.sources) == ["news", "novels"]
        assert (found.sources["news"].documents, found.sources["novels"].documents) == (8, 4)
        for whole, parts in (
            (found.whole, found.sources),
            *((found.baselines[name], found.source_baselines[name]) for name in BASELINES),
        ):
            assert sum(part.questions for part in parts.values()) == whole.questions
            right = sum(part.accuracy * part.questions for part in parts.values())
            assert right == pytest.approx(whole.accuracy * whole.questions)

    def test_are_scored_by_how_often_the_answer_is_mentioned(
        self, network: Network, vocabulary: Vocabulary, both: EncodedSplit
    ) -> None:
        found = evaluate(network, vocabulary, both)
        for source, whole in found.sources.items():
            parts = found.mentions[source].values()
            assert sum(part.questions for part in parts) == whole.questions
            right = sum(part.accuracy * part.questions for part in parts)
            assert right == pytest.approx(whole.accuracy * whole.questions)

    def test_are_in_the_json(self, network: Network, vocabulary: Vocabulary, both: EncodedSplit) -> None:
        found = evaluate(network, vocabulary, both)
        told = found.to_json()
        assert told["accuracy"] == found.whole.accuracy
        assert told["interval"] == [found.whole.low, found.whole.high]
        assert told["sources"]["novels"]["accuracy"] == found.sources["novels"].accuracy
        assert told["baselines"][BESIDES]["questions"] == found.whole.questions


class TestCounting:
    @staticmethod
    def right_by_tokens(
        documents: list[ClozeDocument], guess: Callable[[ClozeDocument, Question], int | None]
    ) -> float:
        asked = [(document, question) for document in documents for question in document.questions]
        return float(np.mean([guess(document, question) == question.answer for document, question in asked]))

    def test_is_what_counting_tokens_gives(
        self, network: Network, vocabulary: Vocabulary, stories: EncodedSplit, stories_set: Path
    ) -> None:
        documents = list(ClozeSet.open(stories_set).documents("validation"))
        found = evaluate(network, vocabulary, stories, batch=5).baselines
        frequent = self.right_by_tokens(documents, lambda document, _: most_frequent_name(document))
        besides = self.right_by_tokens(
            documents, lambda document, question: most_frequent_name(document, question.tokens)
        )
        assert found[FREQUENT].accuracy == pytest.approx(frequent)
        assert found[BESIDES].accuracy == pytest.approx(besides)
        assert frequent != besides

    def test_prefers_of_equals_the_one_read_first(self) -> None:
        sentences = [["@entity5", "met", "@entity2"], ["@entity2", "left"], ["@entity5", "left"]]
        question = Question(("@placeholder", "met", "@entity5"), 2)
        words = Vocabulary(("met", "left"), entities=6)
        split = encode_split([ClozeDocument("", "", sentences, {}, [question])], words)
        (batch,) = ClozeBatches(split, words, size=1)
        frequent, besides = count_answers(batch)
        assert batch.documents.candidates[0, frequent].tolist() == [5]
        assert batch.documents.candidates[0, besides].tolist() == [2]


class TestInterval:
    def test_is_a_point_where_all_documents_are_alike(self) -> None:
        table = np.array([[document, right] for document in range(20) for right in (0, 1)])
        assert (score(table, 1).low, score(table, 1).high) == (0.5, 0.5)

    def test_is_wider_where_a_documents_questions_are_alike(self) -> None:
        rng = np.random.default_rng(0)
        coins = rng.integers(2, size=400)
        apart = score(np.stack([np.arange(400), coins], 1), 1)
        alike = score(np.stack([np.arange(400) // 10, np.repeat(coins[:40], 10)], 1), 1)
        assert apart.high - apart.low == pytest.approx(2 * 1.96 * 0.5 / 20, rel=0.1)
        assert alike.high - alike.low == pytest.approx(2 * 1.96 * 0.5 / 40**0.5, rel=0.15)

    def test_is_the_same_every_time(self) -> None:
        table = np.stack([np.arange(50), np.arange(50) % 3 == 0], 1).astype(np.int64)
        assert score(table, 1) == score(table, 1)
