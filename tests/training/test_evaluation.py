"""Accuracy with an interval over documents, per source, compared with counting names; sizes of memories."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from attar.cloze.documents import ClozeDocument, Question
from attar.cloze.encoded import EncodedSplit, encode_split
from attar.cloze.sets import ClozeSet
from attar.errors import FormatError
from attar.memory.memory import Memory
from attar.nn.network import Network
from attar.nn.network_options import NetworkOptions
from attar.reader.names import NamesReader
from attar.reader.reader import Reader
from attar.text.vocabulary import Vocabulary
from attar.training.batches import ClozeBatches
from attar.training.data import open_splits, shared_vocabulary
from attar.training.evaluation import (
    BASELINES,
    NO_GUESS,
    evaluate,
    mean_size,
    memory_sizes,
    most_frequent_candidates,
    sample_by_source,
    score,
)
from attar.training.options import TrainingOptions, network_options
from benchmarks.question_files import most_frequent_name

pytestmark = pytest.mark.usefixtures("unchecked_shapes")


FREQUENT, UNASKED = BASELINES


@pytest.fixture(scope="module")
def vocabulary(stories_set: Path) -> Vocabulary:
    return shared_vocabulary([stories_set])


@pytest.fixture(scope="module")
def stories(stories_set: Path, vocabulary: Vocabulary) -> EncodedSplit:
    return open_splits([stories_set], "validation", vocabulary)


@pytest.fixture(scope="module")
def network(vocabulary: Vocabulary) -> Network:
    torch.manual_seed(3)
    options = TrainingOptions(
        ("set",), "out", mechanism="named", encoder="lookahead", hidden_size=8, embedding_size=8
    )
    return Network(network_options(options, vocabulary))


class TestReader:
    def test_is_correct_if_its_best_candidate_is_the_answer(
        self, network: Network, vocabulary: Vocabulary, stories: EncodedSplit
    ) -> None:
        found = evaluate(network, vocabulary, stories, batch_size=len(stories))
        (batch,) = ClozeBatches(stories, vocabulary, size=len(stories))
        with torch.inference_mode():
            right = network(batch.documents, batch.questions).argmax(1) == batch.answers
        assert found.whole.accuracy == pytest.approx(right.float().mean().item())
        assert found.whole.questions == len(stories.answers)
        assert found.whole.documents == len(stories)

    def test_scores_do_not_depend_on_the_batch_size(
        self, network: Network, vocabulary: Vocabulary, stories: EncodedSplit
    ) -> None:
        assert evaluate(network, vocabulary, stories, batch_size=5) == evaluate(network, vocabulary, stories)

    def test_dropout_is_disabled(
        self, network: Network, vocabulary: Vocabulary, stories: EncodedSplit
    ) -> None:
        careless = Network(replace(network.options, dropout=0.9))
        careless.load_state_dict(network.state_dict())
        assert evaluate(careless.train(), vocabulary, stories) == evaluate(network, vocabulary, stories)

    def test_a_split_without_questions_is_refused(
        self, network: Network, vocabulary: Vocabulary, stories_set: Path
    ) -> None:
        training = open_splits([stories_set], "training", vocabulary)
        with pytest.raises(
            FormatError, match="expected questions to ask, got documents without any; evaluate"
        ):
            evaluate(network, vocabulary, training)

    def test_reports_progress(self, network: Network, vocabulary: Vocabulary, stories: EncodedSplit) -> None:
        steps: list[tuple[str, int, int]] = []
        evaluate(network, vocabulary, stories, batch_size=5, progress=lambda *step: steps.append(step))
        assert steps == [("evaluating", 0, 3), ("evaluating", 1, 3), ("evaluating", 2, 3)]


class TestQuestionsWithoutAnAnswer:
    """The answer is not in the document, the document has no name, or the question mentions all of them."""

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
    def test_are_wrong_for_reader_and_baselines(
        self, network: Network, vocabulary: Vocabulary, sentence: list[str], tokens: tuple[str], answer: int
    ) -> None:
        document = ClozeDocument("", "", [sentence], {}, [Question(tokens, answer)])
        found = evaluate(network, vocabulary, encode_split([document], vocabulary))
        whole = [found.whole, *found.baselines.values()]
        assert [(each.accuracy, each.questions) for each in whole] == [(0.0, 1)] * 3
        assert list(next(iter(found.mentions.values()))) == ["never"]

    def test_that_mention_every_name_leave_no_guess(self, vocabulary: Vocabulary) -> None:
        document = ClozeDocument(
            "", "", [self.MET], {}, [Question(("@entity1", "@placeholder", "@entity3"), 1)]
        )
        (batch,) = ClozeBatches(encode_split([document], vocabulary), vocabulary, size=1)
        frequent, unasked = most_frequent_candidates(batch)
        assert (frequent.tolist(), unasked.tolist()) == ([0], [NO_GUESS])


class TestSources:
    @pytest.fixture
    def both(self, stories: EncodedSplit) -> EncodedSplit:
        """The same stories, every third from another source."""
        source_of = (np.arange(len(stories)) % 3 == 0).astype(np.int32)
        return replace(stories, source_of=source_of, sources=("news", "novels", "letters"))

    def test_are_scored_separately(
        self, network: Network, vocabulary: Vocabulary, both: EncodedSplit
    ) -> None:
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
        data = found.to_json()
        assert data["accuracy"] == found.whole.accuracy
        assert data["interval"] == [found.whole.low, found.whole.high]
        assert data["sources"]["novels"]["accuracy"] == found.sources["novels"].accuracy
        assert data["baselines"][UNASKED]["questions"] == found.whole.questions


class TestCounting:
    @staticmethod
    def right_by_tokens(
        documents: list[ClozeDocument], guess: Callable[[ClozeDocument, Question], int | None]
    ) -> float:
        asked = [(document, question) for document in documents for question in document.questions]
        return float(np.mean([guess(document, question) == question.answer for document, question in asked]))

    def test_equals_counting_tokens(
        self, network: Network, vocabulary: Vocabulary, stories: EncodedSplit, stories_set: Path
    ) -> None:
        documents = list(ClozeSet.open(stories_set).documents("validation"))
        found = evaluate(network, vocabulary, stories, batch_size=5).baselines
        frequent = self.right_by_tokens(documents, lambda document, _: most_frequent_name(document))
        unasked = self.right_by_tokens(
            documents, lambda document, question: most_frequent_name(document, question.tokens)
        )
        assert found[FREQUENT].accuracy == pytest.approx(frequent)
        assert found[UNASKED].accuracy == pytest.approx(unasked)
        assert frequent != unasked

    def test_prefers_the_first_of_equally_frequent_names(self) -> None:
        sentences = [["@entity5", "met", "@entity2"], ["@entity2", "left"], ["@entity5", "left"]]
        question = Question(("@placeholder", "met", "@entity5"), 2)
        words = Vocabulary(("met", "left"), entities=6)
        split = encode_split([ClozeDocument("", "", sentences, {}, [question])], words)
        (batch,) = ClozeBatches(split, words, size=1)
        frequent, unasked = most_frequent_candidates(batch)
        assert batch.documents.candidates[0, frequent].tolist() == [5]
        assert batch.documents.candidates[0, unasked].tolist() == [2]


class TestInterval:
    def test_has_no_width_if_all_documents_score_the_same(self) -> None:
        table = np.array([[document, right] for document in range(20) for right in (0, 1)])
        assert (score(table, 1).low, score(table, 1).high) == (0.5, 0.5)

    def test_is_wider_if_the_questions_of_a_document_are_correlated(self) -> None:
        rng = np.random.default_rng(0)
        coins = rng.integers(2, size=400)
        apart = score(np.stack([np.arange(400), coins], 1), 1)
        alike = score(np.stack([np.arange(400) // 10, np.repeat(coins[:40], 10)], 1), 1)
        assert apart.high - apart.low == pytest.approx(2 * 1.96 * 0.5 / 20, rel=0.1)
        assert alike.high - alike.low == pytest.approx(2 * 1.96 * 0.5 / 40**0.5, rel=0.15)

    def test_is_the_same_every_time(self) -> None:
        table = np.stack([np.arange(50), np.arange(50) % 3 == 0], 1).astype(np.int64)
        assert score(table, 1) == score(table, 1)


SIZE = 8


def plain(number: int, source: str) -> ClozeDocument:
    return ClozeDocument(str(number), source, [["it", "rained"]], {})


class TestSampleBySource:
    def test_has_all_documents_of_a_small_source(self) -> None:
        documents = [plain(number, "novels" if number % 3 else "news") for number in range(9)]
        sample = sample_by_source(documents, 256)
        assert sample == {
            "news": [each for each in documents if each.source == "news"],
            "novels": [each for each in documents if each.source == "novels"],
        }

    def test_is_uniform_over_a_large_source(self) -> None:
        drawn = sample_by_source((plain(number, "") for number in range(4_000)), 400)[""]
        places = np.array([int(each.name) for each in drawn])
        assert len(set(places)) == 400
        assert places.mean() == pytest.approx(2_000, rel=0.1)

    def test_is_the_same_every_time(self) -> None:
        documents = [plain(number, "") for number in range(90)]
        assert sample_by_source(documents, 5) == sample_by_source(documents, 5)


class TestMemorySizes:
    @pytest.fixture
    def reader(self, stories_set: Path) -> Reader:
        words: Vocabulary = shared_vocabulary([stories_set])
        return NamesReader(
            Network(NetworkOptions(len(words), words.entities, mechanism="named", hidden_size=SIZE)), words
        )

    def test_are_those_of_the_memories_that_the_reader_makes(self, reader: Reader, stories_set: Path) -> None:
        documents = list(ClozeSet.open(stories_set).documents("validation"))
        (found,) = memory_sizes(reader, documents).values()
        assert found.documents == len(documents)
        own_names = np.mean([len(document.names) for document in documents])
        assert found.names == pytest.approx(own_names, rel=0.2)  # found again among words in lower case
        # Two bytes per value against one, and a scale per name.
        saved = found.names * (2 * SIZE - SIZE - 4)
        assert found.bytes["float16"] - found.bytes["int8"] == pytest.approx(saved, abs=4)

    def test_are_those_of_the_bytes_that_a_store_writes(self) -> None:
        memory = Memory.of("keyed", np.ones((3, 2)), tokens=5, reader="r")
        found = mean_size([memory, memory])
        assert (found.documents, found.tokens, found.names) == (2, 5, 0)
        assert found.bytes == {dtype: len(memory.astype(dtype).to_bytes()) for dtype in ("float16", "int8")}

    def test_a_dtype_that_cannot_hold_the_values_is_left_out(self) -> None:
        memory = Memory.of("keyed", np.full((3, 2), 1e6), tokens=5, reader="r")
        assert list(mean_size([memory]).bytes) == ["int8"]
