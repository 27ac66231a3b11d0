"""Several sets are joined into one, share a vocabulary, and stream one epoch after the other."""

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from attar.cloze.documents import ClozeDocument, Question
from attar.cloze.encoded import EncodedSplit, encode_split, open_split
from attar.cloze.sets import VOCABULARY_FILE
from attar.errors import FormatError
from attar.text.vocabulary import ENTITIES, Vocabulary
from attar.training.batches import Batch, ClozeBatches
from attar.training.data import EpochStream, _join, check_splits, open_splits, shared_vocabulary, warn_skipped
from benchmarks.question_files import write_folder

WORDS = Vocabulary(("met", "left", "."), entities=9)
WORDS_OF_STORIES = Vocabulary(("married", "."), entities=16)

MakeSet = Callable[..., Path]


def document(source: str, *sentences: str, asked: str = "", answer: int = 0) -> ClozeDocument:
    questions = [Question(tuple(asked.split()), answer)] if asked else []
    return ClozeDocument("", source, [sentence.split() for sentence in sentences], {}, questions)


NEWS = [
    document("news", "@entity8 met @entity1 .", "@entity1 left .", asked="@placeholder left .", answer=1),
    document("news", "@entity2 left ."),
]
NOVELS = [
    document("novels", "@entity3 met", "@entity4 .", asked="@placeholder met @entity3", answer=4),
    document("news", "left ."),
]


def assert_equal(one: EncodedSplit, other: EncodedSplit) -> None:
    for each in fields(EncodedSplit):
        np.testing.assert_array_equal(getattr(one, each.name), getattr(other, each.name), each.name)


@pytest.mark.parametrize(
    "parts",
    [[NEWS, NOVELS], [NOVELS, NEWS], [NEWS, [], NOVELS], [[], NEWS], [NEWS, NEWS, NOVELS]],
    ids=["two", "reversed", "an empty one between", "an empty one first", "three"],
)
def test_joined_splits_equal_their_documents_encoded_at_once(parts: list[list[ClozeDocument]]) -> None:
    joined = _join([encode_split(part, WORDS) for part in parts])
    assert_equal(joined, encode_split([document for part in parts for document in part], WORDS))


class TestOpenSplits:
    def test_one_set_is_opened_alone(self, stories_set: Path) -> None:
        vocabulary = shared_vocabulary([stories_set])
        assert len(open_splits([stories_set], "training", vocabulary)) == 48
        assert len(open_splits([stories_set], "validation", vocabulary)) == 12

    def test_several_sets_are_joined(self, stories_set: Path, make_set: MakeSet) -> None:
        other = make_set(training=5, validation=3, seed=2)
        vocabulary = shared_vocabulary([stories_set, other])
        both = open_splits([stories_set, other], "training", vocabulary)
        assert len(both) == 53
        alone = open_splits([other], "training", vocabulary)
        assert both.lengths[48:].tolist() == alone.lengths.tolist()
        np.testing.assert_array_equal(both.ids[both.document_starts[48] :], alone.ids)


class TestCheckSplits:
    def test_a_missing_split_is_refused(self, make_set: MakeSet) -> None:
        with pytest.raises(
            FormatError, match=r"a test split, got training and validation only; .* from more texts"
        ):
            check_splits([make_set(training=2, validation=2)], ("training", "test"))

    def test_present_splits_are_accepted(self, stories_set: Path) -> None:
        check_splits([stories_set], ("training", "validation"))


class TestMalformedFiles:
    @pytest.fixture
    def malformed(self, cnn_set: Path) -> Path:
        (cnn_set / "questions" / "training" / "bad.question").write_text("url\n\nno more")
        return cnn_set

    def test_are_refused_with_name_and_line(self, malformed: Path) -> None:
        with pytest.raises(FormatError, match=r"bad\.question, line 3: expected five blocks"):
            open_splits([malformed], "training", WORDS_OF_STORIES)

    def test_are_skipped_on_request(self, malformed: Path) -> None:
        skipped: list[FormatError] = []
        split = open_splits([malformed], "training", WORDS_OF_STORIES, skip=skipped.append)
        assert len(split) == 12
        assert len(skipped) == 1

    def test_are_refused_again_without_skip(self, malformed: Path) -> None:
        open_splits([malformed], "training", WORDS_OF_STORIES, skip=lambda fault: None)
        with pytest.raises(FormatError, match=r"bad\.question, line 3"):
            open_splits([malformed], "training", WORDS_OF_STORIES)

    def test_are_logged_as_a_warning(self, caplog: pytest.LogCaptureFixture) -> None:
        warn_skipped(FormatError.expected("bad.question, line 3", "five blocks", "2"))
        assert caplog.messages == ["attar: skipped bad.question, line 3: expected five blocks, got 2"]


class TestEpochStream:
    @pytest.fixture
    def batches(self, stories_set: Path) -> ClozeBatches:
        vocabulary = shared_vocabulary([stories_set])
        split = open_splits([stories_set], "training", vocabulary)
        return ClozeBatches(split, vocabulary, size=20, draw=2)

    @staticmethod
    def seen(batches: list[Batch]) -> list[tuple[list[int], list[list[int]]]]:
        return [(batch.indices.tolist(), batch.questions.ids.tolist()) for batch in batches]

    def epoch_of(self, batches: ClozeBatches, epoch: int) -> list[tuple[list[int], list[list[int]]]]:
        batches.epoch = epoch
        return self.seen(list(batches))

    @pytest.mark.parametrize(
        "workers", [0, 1, 2]
    )  # three batches per epoch: the order of workers continues past its end
    def test_gives_one_epoch_after_another(self, batches: ClozeBatches, workers: int) -> None:
        expected = [self.epoch_of(batches, epoch) for epoch in (0, 1, 2)]
        stream = EpochStream(batches, workers=workers)
        assert len(stream) == 3
        assert [self.seen(list(stream)) for _ in range(3)] == expected
        stream.close()

    def test_begins_at_the_given_epoch(self, batches: ClozeBatches) -> None:
        expected = self.epoch_of(batches, 7)
        assert self.seen(list(EpochStream(batches, epoch=lambda: 7, workers=0))) == expected


def story(names: dict[int, str], *sentences: str, asked: str, answer: int) -> ClozeDocument:
    questions = [Question(tuple(asked.split()), answer)]
    return ClozeDocument("url", "", [sentence.split() for sentence in sentences], names, questions)


@pytest.fixture
def bare_set(tmp_path: Path) -> Path:
    document = story({0: "Ann", 1: "Bob"}, "@entity1 met @entity0 .", asked="@placeholder slept", answer=1)
    write_folder(iter([document]), tmp_path / "questions" / "training")
    return tmp_path


@pytest.fixture
def forbid_building(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Call it to make building a vocabulary fail."""

    def forbid(*_: object) -> Vocabulary:
        raise AssertionError("the vocabulary is built again")

    return lambda: monkeypatch.setattr(Vocabulary, "build", forbid)


class TestOwnVocabulary:
    def test_is_that_of_the_set(self, stories_set: Path) -> None:
        assert shared_vocabulary([stories_set]) == Vocabulary.load(stories_set / VOCABULARY_FILE)

    def test_is_shared_by_sets_with_the_same_one(self, stories_set: Path, make_set: MakeSet) -> None:
        other, bare = make_set(training=2, validation=2), make_set(training=2, validation=2, vocabulary=False)
        assert shared_vocabulary([bare, other, stories_set]) == shared_vocabulary([stories_set])

    def test_sets_with_different_ones_are_refused(self, stories_set: Path, make_set: MakeSet) -> None:
        other = make_set(training=2, validation=2, vocabulary=False)
        Vocabulary(("met",), entities=9).save(other / VOCABULARY_FILE)
        with pytest.raises(FormatError, match="expected sets of one vocabulary, got 2 vocabularies; build"):
            shared_vocabulary([stories_set, other])


class TestBuiltVocabulary:
    def test_has_the_words_of_texts_and_questions(self, bare_set: Path) -> None:
        assert set(shared_vocabulary([bare_set]).words) == {"met", ".", "slept"}

    def test_has_the_words_of_all_sets(self, bare_set: Path, make_set: MakeSet) -> None:
        stories = make_set(training=4, validation=2, vocabulary=False)
        both = set(shared_vocabulary([bare_set, stories]).words)
        assert both > {"met", "slept"}
        assert both > set(shared_vocabulary([stories]).words)

    def test_has_room_for_the_highest_name(self, tmp_path: Path) -> None:
        document = story({900: "Ann"}, "@entity900 met .", asked="@placeholder slept", answer=900)
        write_folder(iter([document]), tmp_path / "training")
        assert shared_vocabulary([tmp_path]).entities == 901

    def test_has_the_usual_number_of_names(self, bare_set: Path) -> None:
        assert shared_vocabulary([bare_set]).entities == ENTITIES

    @pytest.mark.parametrize("kind", ["questions", "parquet"])
    def test_is_built_once(
        self, bare_set: Path, make_set: MakeSet, forbid_building: Callable[[], None], kind: str
    ) -> None:
        data = bare_set if kind == "questions" else make_set(training=2, validation=2, vocabulary=False)
        first = shared_vocabulary([data])
        forbid_building()
        assert shared_vocabulary([data]) == first == Vocabulary.load(data / "encoded" / "tokenizer.json")

    def test_is_built_again_after_a_change(self, bare_set: Path) -> None:
        shared_vocabulary([bare_set])
        more = story({0: "Cy"}, "@entity0 laughed .", asked="@placeholder left", answer=0)
        write_folder(iter([more]), bare_set / "questions" / "training")
        assert {"laughed", "left"} < set(shared_vocabulary([bare_set]).words)

    def test_is_built_again_with_another_set(self, bare_set: Path, make_set: MakeSet) -> None:
        alone = shared_vocabulary([bare_set])
        stories = make_set(training=2, validation=2, vocabulary=False)
        assert shared_vocabulary([bare_set, stories]) != alone

    @pytest.mark.parametrize("file", ["tokenizer.json", "tokenizer.note"])
    def test_is_built_again_if_the_cache_is_damaged(self, bare_set: Path, file: str) -> None:
        first = shared_vocabulary([bare_set])
        (bare_set / "encoded" / file).write_bytes(b"\xff")
        assert shared_vocabulary([bare_set]) == first

    def test_a_cached_one_of_another_set_is_not_used(self, bare_set: Path) -> None:
        first = shared_vocabulary([bare_set])
        Vocabulary(("others",)).save(bare_set / "encoded" / "tokenizer.json")
        assert shared_vocabulary([bare_set]) == first

    def test_needs_no_writable_folder(self, bare_set: Path) -> None:
        (bare_set / "encoded").write_text("a file where the folder would be")
        assert "met" in shared_vocabulary([bare_set]).words


class TestMalformedFilesInTheVocabulary:
    @pytest.fixture
    def malformed(self, bare_set: Path) -> Path:
        (bare_set / "questions" / "training" / "bad.question").write_text("oops")
        return bare_set

    def test_are_refused_with_name_and_line(self, malformed: Path) -> None:
        with pytest.raises(FormatError, match=r"bad\.question, line 1"):
            shared_vocabulary([malformed])

    def test_are_skipped_on_request(self, malformed: Path) -> None:
        skipped: list[FormatError] = []
        vocabulary = shared_vocabulary([malformed], skip=skipped.append)
        assert "met" in vocabulary.words
        # Each is reported once, when the split is opened.
        assert not skipped
        open_split(malformed, "training", vocabulary, on_malformed=skipped.append)
        assert len(skipped) == 1

    def test_are_refused_again_without_skip(self, malformed: Path) -> None:
        shared_vocabulary([malformed], skip=lambda fault: None)
        with pytest.raises(FormatError, match=r"bad\.question, line 1"):
            shared_vocabulary([malformed])
